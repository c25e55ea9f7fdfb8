"""LoRA slots: the stacked adapters that vLLM allocates once the model is loaded, used or not
(`--enable-lora`).

Source throughout: vLLM 0.33.0, lora/layers/*.py (create_lora_weights) and lora/model_manager.py,
without `--fully-sharded-loras`."""

from fitgauge.engine.model.dtypes import BITS
from fitgauge.engine.model.families.nominal import is_count, nominal_linears
from fitgauge.engine.model.mixers import Recurrent
from fitgauge.engine.model.spec import Block, Kind, ModelSpec, Part, Split, Tensor, count_within
from fitgauge.engine.quantity import Term, exact_term
from fitgauge.engine.serving.vllm.kv_cache.dtypes import served_dtype
from fitgauge.engine.serving.weights import Stage
from fitgauge.engine.serving.workload import Workload
from fitgauge.engine.unsupported import UnsupportedError
from fitgauge.engine.weights.sharding import divided, matrix, round_up

RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""What `--max-lora-rank` may be. Source: config/lora.py, MaxLoRARanks."""

MOST_WORDS = 258048
"""The largest vocabulary an adapter of the head may have. Source:
lora/layers/logits_processor.py."""

ADAPTED = frozenset({Kind.LINEAR, Kind.EXPERT, Kind.ROUTER})
"""Every linear is replaced, towers and projectors excepted (model_manager.py, _maybe_init_mm)."""

EMBEDDING_AND_HEAD = frozenset({
    "ApertusForCausalLM", "DeciLMForCausalLM", "Ernie4_5ForCausalLM", "Exaone4ForCausalLM",
    "ExaoneForCausalLM", "ExaoneMoEForCausalLM",
    "FalconH1ForCausalLM", "GraniteForCausalLM", "GraniteMoeForCausalLM",
    "GraniteMoeHybridForCausalLM", "GraniteMoeSharedForCausalLM",
    "HyperCLOVAXForCausalLM", "InternLM3ForCausalLM", "JambaForCausalLM", "Lfm2ForCausalLM",
    "Lfm2MoeForCausalLM",
    "Llama4ForConditionalGeneration", "Llama4ForCausalLM", "LlamaForCausalLM",
    "MiniCPM3ForCausalLM", "MiniCPMForCausalLM",
    "MixtralForCausalLM", "NemotronForCausalLM", "NemotronHForCausalLM", "NemotronH_Nano_VL_V2",
    "Phi3ForCausalLM", "PhiMoEForCausalLM",
    "Qwen3ForCausalLM", "Qwen3MoeForCausalLM", "Qwen3OmniMoeForConditionalGeneration",
    "Qwen3VLForConditionalGeneration",
    "Qwen3VLMoeForConditionalGeneration", "Qwen3_5ForCausalLM", "Qwen3_5ForConditionalGeneration",
    "Qwen3_5MoeForCausalLM",
    "Qwen3_5MoeForConditionalGeneration", "SolarForCausalLM", "TeleChat2ForCausalLM",
    "TeleChat3ForCausalLM",
})  # fmt: skip
EMBEDDING = frozenset({
    "ArceeForCausalLM", "Cohere2ForCausalLM", "CohereForCausalLM", "CwmForCausalLM",
    "FlexOlmoForCausalLM", "GPTBigCodeForCausalLM",
    "GPTNeoXForCausalLM", "GlmForCausalLM", "HunYuanDenseV1ForCausalLM", "HunYuanMoEV1ForCausalLM",
    "HunYuanVLForConditionalGeneration",
    "Olmo2ForCausalLM", "Olmo3ForCausalLM", "OlmoForCausalLM", "PhiForCausalLM",
    "SeedOssForCausalLM", "SmolLM3ForCausalLM",
    "Starcoder2ForCausalLM",
})  # fmt: skip
"""Architectures whose class, or whose language model's class, lists embedding and head, or the
embedding alone (transformers' own).

Source: `embedding_modules` of models/*.py along their bases and models/registry.py."""

EXPERTS_JOINED = frozenset({
    "GptOssForCausalLM", "Qwen3OmniMoeForConditionalGeneration",
    "Qwen3VLMoeForConditionalGeneration", "Qwen3_5MoeForConditionalGeneration",
})  # fmt: skip
"""Architectures whose experts have one A for gate and up. Source: `is_3d_moe_weight`;
lora/layers/fused_moe.py, FusedMoE3DWithLoRA."""

SLICES = {
    "gated_delta": ("in_proj_qkv.weight", 3),
    "mamba2": ("in_proj.weight", 5),
    "short_conv": ("in_proj.weight", 3),
}
"""Parts of a recurrent layer's projection that have an A each, by the name of its weight."""

WITHOUT = frozenset({
    "BloomForCausalLM", "Cohere2VisionForConditionalGeneration", "DbrxForCausalLM",
    "DeepseekV32ForCausalLM", "DeepseekV4ForCausalLM",
    "FalconForCausalLM", "FalconMambaForCausalLM", "GPT2LMHeadModel", "GPTJForCausalLM",
    "Gemma3nForCausalLM",
    "Gemma3nForConditionalGeneration", "KimiK25ForConditionalGeneration",
    "KimiK3ForConditionalGeneration", "KimiLinearForCausalLM",
    "KimiVLForConditionalGeneration", "Mamba2ForCausalLM", "MambaForCausalLM",
    "MiMoV2FlashForCausalLM", "MiMoV2ForCausalLM",
    "MiniMaxM3SparseForCausalLM", "MiniMaxM3SparseForConditionalGeneration", "OrionForCausalLM",
    "Phi3VForCausalLM", "StableLmForCausalLM",
    "Step3p5ForCausalLM", "Step3p7ForConditionalGeneration", "Zamba2ForCausalLM", "BertForMaskedLM",
    "CLIPModel", "NomicBertModel",
    "SiglipModel",
})  # fmt: skip
"""Architectures whose class has not SupportsLoRA: vLLM refuses `--enable-lora`. Source: the
bases of models/*.py."""


def check_lora(spec: ModelSpec, workload: Workload) -> None:
    """Raise UnsupportedError where vLLM refuses these slots for this model."""
    if not workload.lora_slots:
        return
    if workload.lora_rank not in RANKS:
        larger = [rank for rank in RANKS if rank >= workload.lora_rank]
        raise UnsupportedError(
            "lora_rank",
            f"vLLM has no max_lora_rank {workload.lora_rank}: it takes the first of its own that is"
            " no smaller than the adapters'.",
            ({"lora_rank": (*larger, *(rank for rank in RANKS if rank not in larger))},),
        )
    if spec.architecture in WITHOUT:
        raise UnsupportedError(
            "lora_slots",
            f"vLLM serves no LoRA adapters of {spec.architecture}, but a checkpoint with the"
            " adapter merged.",
            ({"lora_slots": (0,)},),
        )
    if spec.architecture in EMBEDDING_AND_HEAD and spec.vocabulary_size > MOST_WORDS:
        reason = (
            f"vLLM serves no LoRA adapters of vocabularies beyond {MOST_WORDS}; this one has"
            f" {spec.vocabulary_size}. It serves a checkpoint with the adapter merged."
        )
        raise UnsupportedError("lora_slots", reason, ({"lora_slots": (0,)},))


def lora_term(spec: ModelSpec, workload: Workload, stage: Stage) -> Term:
    """Return the term `lora_slots` of one pipeline stage. `assumed` with recurrent layers: read
    in the source, held to no run."""
    features = lora_features(spec, stage, workload.tensor_parallel, workload.expert_parallel)
    width = BITS[served_dtype(spec.dtype)] // 8
    size = workload.lora_slots * workload.lora_rank * width * features
    if stage.last and spec.architecture in EMBEDDING_AND_HEAD and workload.tensor_parallel > 1:
        size += 8 * round_up(spec.vocabulary_size, 64)
    formula = (
        f"{workload.lora_slots} slots x {workload.lora_rank} rank x {width} B x {features} inputs"
        " and outputs of its linears"
    )
    if size % (workload.lora_slots * workload.lora_rank * width):
        formula += f" + {round_up(spec.vocabulary_size, 64)} words x 8 B of indices"
    source = "vllm 0.33 vllm/lora/layers/base_linear.py, create_lora_weights"
    return exact_term(
        "lora_slots",
        size,
        "assumed" if spec.keeps_states or spec.basis == "assumed" else "computed",
        formula,
        source,
    )


def lora_features(
    spec: ModelSpec, stage: Stage, tensor_parallel: int = 1, expert_parallel: int = 1
) -> int:
    """Return the inputs of every A plus outputs of every B on one rank: bytes = slots x rank x
    bytes of a number x this.

    The embedding's A has a row a word and the head's B too, both whole on every rank.
    """
    total = 0
    for block in spec.blocks:
        if block.part not in (Part.LANGUAGE, Part.ENCODER):
            continue
        count = count_within(block.layers, stage.span if "{}" in block.prefix else None)
        plain = block.mlp is not None and not block.mlp.gated
        tensors = [
            tensor
            for tensor in (nominal_linears(block) if is_count(block) else block.tensors)
            if tensor.kind in ADAPTED and not (plain and tensor.kind is Kind.ROUTER)
        ]
        joined = spec.architecture in EXPERTS_JOINED
        one = sum(
            _features(tensor, tensor_parallel, expert_parallel, joined=joined) for tensor in tensors
        )
        total += count * (one + recurrent_features(block, tensor_parallel))
    ends = spec.vocabulary_size + spec.hidden_size
    total += ends if stage.first and spec.architecture in EMBEDDING | EMBEDDING_AND_HEAD else 0
    return total + (ends if stage.last and spec.architecture in EMBEDDING_AND_HEAD else 0)


def recurrent_features(block: Block, tensor_parallel: int) -> int:
    """Return what a recurrent layer has beyond its linears: its convolution is a linear of kernel
    inputs to vLLM, with adapters too, and a projection of several parts has an A for each. Nothing
    for any other layer.

    Source: layers/mamba/{mamba_mixer,mamba_mixer2,short_conv}.py and gdn/qwen_gdn_linear_attn.py;
    MergedColumnParallelLinearVariableSliceWithLoRA.
    """
    kind = next((mixer.kind for mixer in block.mixers if isinstance(mixer, Recurrent)), None)
    if kind is None:
        return 0
    total = 0
    for tensor in block.tensors:
        if tensor.kind is Kind.CONV and len(tensor.shape) > 1:
            total += tensor.shape[-1] + divided(tensor.shape[0], tensor_parallel)
    name, slices = SLICES.get(kind, ("", 0))
    parts = [
        tensor
        for tensor in block.tensors
        if name and tensor.name.endswith(name) and len(tensor.shape) == 2
    ]
    return total + (slices - len(parts)) * matrix(parts[0])[1] if parts else total


def _features(tensor: Tensor, tensor_parallel: int, expert_parallel: int, *, joined: bool) -> int:
    """Return inputs and outputs of one linear's adapters on a rank: a divided output has A whole
    and B divided, a divided input the reverse."""
    if len(tensor.shape) < 2:
        return 0
    (out, inputs), ways, copies = matrix(tensor), tensor_parallel, 1
    if tensor.kind is Kind.EXPERT:
        copies = divided(tensor.count, expert_parallel)
        ways = 1 if expert_parallel > 1 else tensor_parallel
    if tensor.split is Split.KV and tensor.units:
        out = out // tensor.units * divided(tensor.units, ways)
    elif tensor.split is Split.COLUMN:
        out = divided(out, ways)
    elif tensor.split is Split.ROW:
        inputs = divided(inputs, ways)
    if (
        joined
        and tensor.kind is Kind.EXPERT
        and "up_proj" in tensor.name
        and "gate_up" not in tensor.name
    ):
        inputs = 0
    return copies * (inputs + out)
