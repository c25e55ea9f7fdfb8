"""Dense decoders, the classics and those with code of their own, against transformers, vLLM and
published counts."""

import pytest

from counted_models import counted_models
from fitgauge.engine.model.config import Config
from fitgauge.engine.model.dtypes import size_of
from fitgauge.engine.model.families import READERS, read_config
from fitgauge.engine.model.mixers import Attention
from fitgauge.engine.model.spec import Kind, ModelSpec, Part, Split
from fitgauge.errors import MalformedModelError

BUILT = counted_models("dense.json", "classic.json")
PUBLISHED = counted_models("dense_published.json")
LLAMA = {
    "model_type": "llama",
    "vocab_size": 1000,
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
}


def windows(spec: ModelSpec) -> list[int | None]:
    """Return the window of every layer, in order."""
    found = {}
    for block in spec.blocks:
        if block.part is Part.LANGUAGE and block.mixers:
            found |= dict.fromkeys(block.layers, block.mixers[0].window)
    return [found[number] for number in sorted(found)]


def tensor_names(spec: ModelSpec) -> list[str]:
    return [block.prefix + tensor.name for block in spec.blocks for tensor in block.tensors]


@pytest.mark.parametrize(
    "model",
    [row for row in PUBLISHED if "vllm_buffer_bytes" in row],
    ids=lambda model: model["model"],
)
def test_rotary_tables_are_those_of_vllm(model):
    """Besides its rotary tables vLLM registers four F32 scales an attention layer, and Gemma a
    16-bit normalizer."""
    spec = read_config(model["config"])
    tables = sum(
        size_of(table.positions * table.dim, table.dtype or spec.dtype)
        for table in spec.rotary_tables
    )
    normalizer = 2 if spec.model_type.startswith("gemma") else 0
    assert tables + 16 * spec.layers + normalizer == model["vllm_buffer_bytes"]


@pytest.mark.parametrize("model_type", sorted({model["config"]["model_type"] for model in BUILT}))
def test_a_section_takes_the_defaults_of_its_class(model_type):
    """A text section that names its type alone is complete; a whole config.json that does
    so is broken."""
    assert (
        READERS[model_type](
            Config({"model_type": model_type}, "config.json: text_config")
        ).parameters
        > 10**6
    )
    with pytest.raises(MalformedModelError):
        read_config({"model_type": model_type})


def test_llava_text_section_is_llama_7b():
    """LLaVA 1.5's text section says its vocabulary and context alone; the rest is Llama 7B."""
    section = Config(
        {"model_type": "llama", "vocab_size": 32064, "max_position_embeddings": 4096},
        "config.json: text_config",
    )
    assert READERS["llama"](section).parameters == 6_738_415_616 + 2 * 64 * 4096


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, [None] * 4),
        ({"model_type": "mistral"}, [4096] * 4),
        ({"model_type": "mistral", "sliding_window": None}, [None] * 4),
        ({"model_type": "qwen2", "sliding_window": 128}, [None] * 4),
        (
            {
                "model_type": "qwen2",
                "sliding_window": 128,
                "use_sliding_window": True,
                "max_window_layers": 3,
            },
            [None, None, None, 128],
        ),
        ({"model_type": "gemma2"}, [4096, None] * 2),
        (
            {"model_type": "gemma3_text", "sliding_window": 512, "sliding_window_pattern": 3},
            [512, 512, None, 512],
        ),
        ({"model_type": "cohere2"}, [4096, 4096, 4096, None]),
        ({"model_type": "cwm"}, [None, 8192, 8192, 8192]),
        (
            {"model_type": "smollm3", "use_sliding_window": True, "sliding_window": 9},
            [None, None, None, 9],
        ),
        ({"model_type": "phi3", "sliding_window": 2047}, [2047] * 4),
        ({"model_type": "gpt_neo", "attention_types": [[["global", "local"], 2]]}, [None, 256] * 2),
        (
            {
                "model_type": "exaone4",
                "layer_types": ["full_attention"] * 3 + ["sliding_attention"],
            },
            [None, None, None, 4096],
        ),
    ],
)
def test_windows(change, expected):
    """Each layer slides or sees everything as the family's configuration class says."""
    assert windows(read_config(LLAMA | change)) == expected


def test_a_fused_projection_with_fewer_kv_heads_is_two_slices_of_one_name():
    """Phi-3's qkv_proj: its query rows are divided by heads, its key and value rows by KV heads."""
    spec = read_config(LLAMA | {"model_type": "phi3"})
    slices = [
        t for block in spec.blocks for t in block.tensors if t.name == "self_attn.qkv_proj.weight"
    ]
    assert [(t.shape, t.split, t.units) for t in slices] == [
        ((64, 64), Split.COLUMN, 8),
        ((32, 64), Split.KV, 2),
    ]


def test_a_fused_projection_with_as_many_kv_heads_is_one_tensor():
    """GPT-2's c_attn divides like any column-parallel linear."""
    names = tensor_names(
        read_config(
            {"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 100}
        )
    )
    assert names.count("transformer.h.{}.attn.c_attn.weight") == 1


def test_learned_positions_are_an_embedding_on_every_rank():
    """OPT's position table has two rows more than positions, and is not divided."""
    spec = read_config(
        next(model["config"] for model in BUILT if model["config"]["model_type"] == "opt")
    )
    table = next(t for block in spec.blocks for t in block.tensors if "embed_positions" in t.name)
    assert (table.kind, table.split, table.shape[0]) == (Kind.EMBEDDING, Split.NONE, 2050)


def test_nemotron_nas_drops_what_was_searched_away():
    """A block whose attention is a no-op keeps no cache and no norm; its MLP has a width
    of its own."""
    blocks = [
        {
            "attention": {"n_heads_in_group": 4, "no_op": False},
            "ffn": {"ffn_mult": 6.0, "no_op": False},
        },
        {
            "attention": {"n_heads_in_group": None, "no_op": True},
            "ffn": {"ffn_mult": 12.0, "no_op": False},
        },
        {
            "attention": {"n_heads_in_group": 4, "no_op": False},
            "ffn": {"ffn_mult": None, "no_op": True},
        },
        {
            "attention": {"n_heads_in_group": None, "no_op": True},
            "ffn": {"ffn_mult": None, "no_op": True},
        },
    ]
    config = LLAMA | {
        "model_type": "nemotron-nas",
        "intermediate_size": None,
        "num_key_value_heads": None,
        "block_configs": blocks,
    }
    first, second, third, fourth = [
        block for block in read_config(config).blocks if "{}" in block.prefix
    ]
    attention, mlp = 64 + 2 * 64 * 64 + 2 * 16 * 64, 64 + 3 * 64 * 256
    assert [block.elements for block in (first, second, third, fourth)] == [
        attention + mlp,
        64 + 3 * 64 * 512,
        attention,
        0,
    ]
    assert [len(block.mixers) for block in (first, second, third, fourth)] == [1, 0, 1, 0]


def test_mimo_prediction_heads_are_no_parameters():
    """MiMo's multi-token prediction layers are known, and counted apart."""
    config = LLAMA | {"model_type": "mimo", "num_nextn_predict_layers": 2}
    without = read_config(LLAMA | {"model_type": "qwen2"})
    spec = read_config(config)
    heads = [block for block in spec.blocks if block.part is Part.MTP]
    assert spec.parameters == without.parameters
    assert len(heads[0].layers) == 2
    assert heads[0].elements > 0


@pytest.mark.parametrize(
    ("architecture", "task"),
    [
        ("LlamaForCausalLM", "generate"),
        ("LlamaModel", "encode"),
        ("LlamaForSequenceClassification", "encode"),
    ],
)
def test_a_checkpoint_without_a_language_model_has_no_head(architecture, task):
    """An embedding model or a classifier made of a decoder stores no vocabulary-wide
    head."""
    spec = read_config(LLAMA | {"architectures": [architecture]})
    assert spec.task == task
    assert any(block.part is Part.HEAD for block in spec.blocks) is (task == "generate")


@pytest.mark.parametrize(
    ("scaling", "rows"),
    [
        ({}, [512]),
        ({"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 64}, [512]),
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 256}, [1024]),
        ({"type": "linear", "factor": 2.0}, [1024]),
        ({"type": "longrope", "original_max_position_embeddings": 128}, [128, 512]),
        ({"type": "dynamic", "factor": 2.0}, [512]),
    ],
)
def test_rotary_rows_by_scaling(scaling, rows):
    """vLLM's tables span what each kind of scaling makes of the positions."""
    spec = read_config(LLAMA | {"rope_scaling": scaling})
    assert [(table.positions, table.dim) for table in spec.rotary_tables] == [
        (count, 8) for count in rows
    ]


def test_the_length_that_both_engines_read_first():
    """Command R's positions are trained for 8,192 tokens and extended to 131,072. Source: vllm
    0.33 transformers_utils/model_arch_config_convertor.py, sglang 0.5.23 get_context_length."""
    assert read_config(LLAMA | {"model_max_length": 131072}).max_context_length == 131072


@pytest.mark.parametrize(
    "missing",
    ["vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"],
)
def test_a_missing_size_is_named(missing):
    """A config.json without a size that decides is refused by that size's name."""
    with pytest.raises(MalformedModelError, match=missing):
        read_config({key: value for key, value in LLAMA.items() if key != missing})


def test_minicpm3_caches_expanded_keys():
    """MiniCPM3 projects through a latent, yet vLLM caches keys and values of every head, as wide
    as the keys."""
    sizes = {
        "kv_lora_rank": 16,
        "q_lora_rank": 24,
        "qk_rope_head_dim": 4,
        "qk_nope_head_dim": 8,
        "v_head_dim": 8,
    }
    spec = read_config(LLAMA | sizes | {"model_type": "minicpm3"})
    mixers = {mixer for block in spec.blocks for mixer in block.mixers}
    assert mixers == {Attention(query_heads=8, kv_heads=8, head_dim=12, value_dim=12)}
    assert [(table.positions, table.dim) for table in spec.rotary_tables] == [(512, 4)]


def test_a_pattern_in_letters():
    """EXAONE 4 writes its windows as LLLG: local, and global where G stands."""
    change = {"model_type": "exaone4", "sliding_window": 7, "sliding_window_pattern": "LLLG"}
    assert windows(read_config(LLAMA | change)) == [7, 7, 7, None]
    mixture = change | {"model_type": "exaone_moe", "num_hidden_layers": 5}
    assert windows(read_config(LLAMA | mixture)) == [7, 7, 7, None, 7]
    no_window = mixture | {"sliding_window": None, "sliding_window_pattern": 0}
    assert windows(read_config(LLAMA | no_window)) == [None] * 5


def test_the_first_falcons():
    """RefinedWeb is Falcon 40B's shape under its first name, with n_head_kv KV heads."""
    old = {
        "model_type": "RefinedWeb",
        "hidden_size": 64,
        "n_layer": 2,
        "n_head": 8,
        "n_head_kv": 2,
        "vocab_size": 100,
    }
    new = {
        "model_type": "falcon",
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 8,
        "num_kv_heads": 2,
        "vocab_size": 100,
    }
    assert (
        read_config(old).parameters
        == read_config(new | {"new_decoder_architecture": True}).parameters
    )


def test_norms_of_every_head_are_divided_with_the_heads():
    spec = read_config({
        "model_type": "cohere", "use_qk_norm": True, "hidden_size": 512, "num_hidden_layers": 1,
        "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 512,
        "vocab_size": 512,
    })  # fmt: skip
    splits = {
        tensor.name.split(".")[1]: (tensor.split, tensor.units)
        for block in spec.blocks
        for tensor in block.tensors
        if tensor.name.endswith(("q_norm.weight", "k_norm.weight"))
    }
    assert splits == {"q_norm": (Split.COLUMN, 4), "k_norm": (Split.KV, 2)}
