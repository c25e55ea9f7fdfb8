"""What Megatron-LM's own tests had allocated at most on real cards, by the architectures that their
rows of training_gpu.jsonl print.

GPT as Megatron builds it where no flag says otherwise (biases, layer norms, gelu, dropout of
0.1) is StarCoder 2's in transformers' words, which rotates positions where Megatron adds learned
ones. Runs with attention written out are left out: Transformer Engine's own is not played here."""

import pytest

from accuracy.training_truth import rows
from accuracy.truth import GIB
from fitgauge.engine.model.families import read_config
from fitgauge.engine.training.phases import stages
from fitgauge.engine.training.workload import TrainingWorkload

GPT2_VOCABULARY = 50257
ATTENTION = {"A100 80GB": "flash", "H100 80GB": "sdpa"}
"""What Transformer Engine takes where nothing is said: cuDNN's from Hopper on
(pytorch/attention/dot_product_attention/utils.py)."""


def gpt(architecture):
    hidden, heads = architecture["hidden_size"], architecture["num_attention_heads"]
    return read_config({
        "model_type": "starcoder2", "architectures": ["Starcoder2ForCausalLM"],
        "hidden_size": hidden, "intermediate_size": 4 * hidden,
        "num_hidden_layers": architecture["num_layers"], "num_attention_heads": heads,
        "num_key_value_heads": architecture.get("num_query_groups", heads),
        "vocab_size": architecture.get("vocab_size", GPT2_VOCABULARY),
        "tie_word_embeddings": "untie_embeddings_and_output_weights" not in architecture,
        "hidden_act": "gelu_pytorch_tanh",
        "norm_type": "layer_norm", "use_bias": True, "residual_dropout": 0.1,
        "attention_dropout": 0.1, "embedding_dropout": 0.1,
        "max_position_embeddings": 8192, "sliding_window": None,
    })  # fmt: skip


@pytest.mark.parametrize(("name", "most"), [("t470", 0.015), ("t471", 0.015), ("t472", 0.05)])
def test_a_run_of_megatrons_own_tests_allocates_what_is_said(name, most):
    """Of 7B parameters on tensor parallel 4, on A100 and H100: a copy of attention's outputs is
    the gibibyte between the two."""
    row = next(row for row in rows("training_gpu") if row["id"] == name)
    workload = TrainingWorkload(
        framework="megatron",
        zero_stage=1,
        attention=ATTENTION[row["gpu"]],
        sequence_length=row["sequence_length"],
        micro_batch_size=row["micro_batch_size"],
        micro_batches=row["gradient_accumulation"],
        tensor_parallel=row["tensor_parallel"],
        data_parallel=row["data_parallel"],
    )
    (stage,) = stages(gpt(row["architecture"]), workload)
    assert stage.highest.total / GIB == pytest.approx(
        row["measured"]["peak_allocated_gib"], rel=most
    )
