"""What Megatron alone is asked: uneven stages, chunks, modules that run again; answered, said
and started so."""

import msgspec
import pytest
from msgspec import UNSET

from fitgauge.errors import InvalidRequestError
from notes import codes

LARGE = {
    "model": "deepseek-ai/DeepSeek-V3",
    "gpu": "B300",
    "gpu_count": 256,
    "method": "full",
    "framework": "megatron",
    "expert_parallel": 32,
}


def test_61_layers_are_spread_as_megatrons_flags_can_and_the_answer_says_how(train):
    asked = train(**LARGE, pipeline_parallel=8, detail="full")
    assert [rank.layers for rank in asked.ranks] == [7, *[8] * 6, 6]
    (uneven,) = [warning for warning in asked.warnings if warning.code == "stages-uneven"]
    assert uneven.field == "last_stage_layers"
    assert "7, 6 x 8 and 6" in uneven.message
    assert (
        "--decoder-first-pipeline-num-layers 7 --decoder-last-pipeline-num-layers 6"
        in asked.launch.command
    )


def test_a_split_that_was_asked_for_is_taken_without_a_word(train):
    asked = train(**LARGE, pipeline_parallel=8, last_stage_layers=5, detail="full")
    assert [rank.layers for rank in asked.ranks] == [*[8] * 7, 5]
    assert ("stages-uneven", "last_stage_layers") not in codes(asked.warnings)
    assert asked.understood_as["last_stage_layers"] == 5


def test_the_command_has_the_widths_of_latents_and_which_layers_are_dense(train):
    found = train(**LARGE, pipeline_parallel=8).launch.command
    assert (
        "--multi-latent-attention --num-attention-heads 128 --kv-lora-rank 512 --q-lora-rank 1536"
        in found
    )
    assert "--qk-head-dim 128 --qk-pos-emb-head-dim 64 --v-head-dim 128" in found
    assert "'([0]*3+[1]*58)'" in found


SMALL = {
    "model": "Qwen/Qwen3-30B-A3B",
    "gpu": "B300",
    "gpu_count": 16,
    "method": "full",
    "framework": "megatron",
    "expert_parallel": 8,
}


def test_recomputed_modules_save_what_they_made_and_are_named_to_megatron(train):
    plain = train(**SMALL, activation_checkpointing="selective")
    asked = train(
        **SMALL, activation_checkpointing="selective", recompute_modules="moe_act, layernorm"
    )
    less, more = (
        next(term.bytes for term in one.terms if term.name == "activations")
        for one in (asked, plain)
    )
    assert less < 0.9 * more
    assert asked.understood_as["recompute_modules"] == "moe_act,layernorm"
    assert plain.understood_as["recompute_modules"] == "core_attn"
    assert (
        "--recompute-granularity selective --recompute-modules moe_act layernorm"
        in asked.launch.command
    )
    assert "--recompute-modules" not in plain.launch.command


def test_core_attention_recomputed_in_vain_is_told_with_what_keeps_less(train):
    asked = {**SMALL, "activation_checkpointing": "selective"}
    vain = ("recompute-without-effect", "recompute_modules")
    assert vain in codes(train(**asked, attention="flash").warnings)
    assert vain not in codes(train(**asked, attention="eager").warnings)


def test_chunks_are_told_to_either_launcher_by_its_own_flag(train):
    piped = {
        "expert_parallel": 4,
        "pipeline_parallel": 4,
        "pipeline_schedule": "interleaved",
        "pipeline_chunks": 3,
        "micro_batches": 8,
    }
    assert "--num-virtual-stages-per-pipeline-rank 3" in train(**SMALL | piped).launch.command
    assert (
        "--virtual_pipeline_model_parallel_size 3"
        in train(**SMALL | piped | {"method": "lora"}).launch.command
    )


def test_experts_beside_divided_layers_have_sequence_parallelism_unasked(train):
    asked = {**SMALL, "tensor_parallel": 2}
    assert train(**asked).understood_as["sequence_parallel"] is True
    with pytest.raises(InvalidRequestError, match="sequence parallelism"):
        train(**asked, sequence_parallel=False)


@pytest.mark.parametrize(
    ("fields", "field", "hint"),
    [
        ({"recompute_modules": "mlp"}, "recompute_modules", "selective"),
        (
            {"recompute_modules": "attn", "activation_checkpointing": "selective"},
            "recompute_modules",
            "core_attn, mlp",
        ),
        ({"pipeline_chunks": 4, "pipeline_parallel": 4}, "pipeline_chunks", "interleaved"),
        ({"last_stage_layers": 4}, "last_stage_layers", "pipeline_parallel"),
    ],
)
def test_what_megatron_has_no_use_for_is_refused_with_what_it_takes(train, fields, field, hint):
    with pytest.raises(InvalidRequestError) as refused:
        train(**SMALL, **fields)
    assert refused.value.field == field
    assert hint in refused.value.hint


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe"])
def test_many_stages_are_listed_without_what_they_share(train, schedule):
    asked = train(
        model="meta-llama/Meta-Llama-3.1-405B",
        gpu="H100",
        gpu_count=126 * 8,
        method="full",
        framework="megatron",
        tensor_parallel=8,
        pipeline_parallel=126,
        pipeline_schedule=schedule,
        micro_batches=256,
        detail="full",
    )
    whole = {rank.stage: rank.terms for rank in asked.ranks if rank.terms_of is UNSET}
    assert len(asked.ranks) == 126
    assert len(whole) < 9
    for rank in asked.ranks:
        terms = {term.name: term for term in whole.get(rank.terms_of, [])}
        terms |= {term.name: term for term in rank.terms}
        assert sum(term.bytes for term in terms.values()) == rank.required_bytes.expected
    assert len(msgspec.json.encode(asked)) < 100_000


def test_degrees_that_nobody_sent_are_those_of_a_layout_that_fits(train):
    asked = {"model": "30b", "gpu": "32x H100", "method": "full", "framework": "megatron"}
    judged = train(**asked)
    assert judged.verdict == "fits"
    assert "tensor 4 x data 8 parallelism" in judged.summary
    assert "--tensor-model-parallel-size 4" in judged.launch.command
    assert any(note.code == "sharded-not-replicated" for note in judged.warnings)
    sent = train(**asked, tensor_parallel=4, sequence_parallel=True)
    assert sent.per_gpu.required_bytes == judged.per_gpu.required_bytes
    assert train(**asked, data_parallel=32).verdict == "does_not_fit"


def test_without_a_layout_that_fits_a_copy_on_every_gpu_is_judged(train):
    judged = train(model="meta-llama/Llama-3.1-405B", gpu="8x H100", framework="megatron")
    assert "parallelism" not in judged.summary.partition("As asked")[2].partition("needs")[0]


def test_degrees_that_were_sent_stay_where_others_are_found(train):
    asked = {"model": "30b", "gpu": "32x H100", "method": "full", "framework": "megatron"}
    judged = train(**asked, tensor_parallel=1, pipeline_parallel=1)
    assert judged.understood_as["tensor_parallel"] == 1
    assert judged.understood_as["pipeline_parallel"] == 1
    assert judged.verdict == "does_not_fit"
    assert not any(note.code == "sharded-not-replicated" for note in judged.warnings)
