"""Flags of Megatron-LM's pretrain_gpt.py, and of ms-swift's `megatron` command for adapters and
preferences, which that script has not."""

from collections.abc import Iterator

from fitgauge.engine.model.mixers import Attention, LatentAttention
from fitgauge.engine.model.model import Model
from fitgauge.engine.model.spec import Block, ModelSpec, Part
from fitgauge.engine.note import Note
from fitgauge.engine.training.algorithms.setup import Setup
from fitgauge.engine.training.autograd.layers.traits import traits_of
from fitgauge.engine.training.workload import TrainingWorkload, recomputed_modules
from fitgauge.services.common.shell import flags, path_of, switch
from fitgauge.services.training_fit.launchers.adapter_names import USUAL_ATTENTION
from fitgauge.services.training_fit.launchers.common import (
    nodes,
    processes_per_node,
    sequences_per_step,
)
from fitgauge.services.training_fit.launchers.tool import Launcher, lacking
from fitgauge.services.training_fit.launchers.words_as_files import script_of
from fitgauge.services.training_fit.megatron import uneven

_POSITIONS = ("wpe.weight", "embed_positions.weight")

_QUERY_BIASES = ("q_proj.bias", "qkv.bias", "c_attn.bias", "query_key_value.bias")
_OUTPUT_BIASES = ("o_proj.bias", "down_proj.bias", "c_proj.bias", "dense.bias")
_OPTIMIZER_NAMES = {"sgd": "sgd", "sgd_momentum": "sgd", "muon": "muon"}
_BACKENDS = {"flash": "flash", "sdpa": "fused", "eager": "unfused", "flex": "auto"}
_CHUNKS = "--num-virtual-stages-per-pipeline-rank"
_SWIFT_NAMES = {_CHUNKS: "--virtual_pipeline_model_parallel_size"}
Flags = dict[str, object]
_MODULES = {
    "q_proj": "linear_qkv", "k_proj": "linear_qkv", "v_proj": "linear_qkv", "o_proj": "linear_proj",
    "gate_proj": "linear_fc1",
    "up_proj": "linear_fc1", "down_proj": "linear_fc2",
}  # fmt: skip
"""What Megatron calls transformers' linears. Source: ms-swift docs,
Megatron-SWIFT/Command-line-parameters.md, target_modules."""


def _unsupported(model: Model, workload: TrainingWorkload, setup: Setup) -> Iterator[Note]:
    """Yield the settings that neither Megatron-LM nor ms-swift has a flag for."""
    if workload.pipeline_parallel > 1 and workload.pipeline_schedule in ("gpipe", "zero_bubble"):
        yield lacking(
            "pipeline_schedule",
            f"Megatron-LM runs 1f1b, plain or interleaved, not {workload.pipeline_schedule}:"
            " the command uses 1f1b.",
        )
    if workload.loss not in ("full", "in_place") and setup.algorithm == "sft":
        yield lacking(
            "loss",
            f"Megatron-LM has no {workload.loss} loss: its last stage computes whole logits.",
        )
    yield from fused_adapters(workload)
    if workload.method == "dora":
        yield lacking("method", "ms-swift has no DoRA under Megatron: the command uses LoRA.")
    if workload.gradient_dtype == "bf16" and workload.uses_adapters:
        yield lacking("gradient_dtype", "ms-swift sums gradients in fp32: it has no flag for bf16.")


def megatron_command(model: Model, workload: TrainingWorkload, setup: Setup) -> list[object]:
    """Return the words of the command."""
    if workload.uses_adapters or setup.algorithm != "sft" or model.spec.sees_images:
        return _swift(model, workload, setup)
    several, length = nodes(workload) > 1, workload.sequence_length
    processes = {
        "--nproc-per-node": processes_per_node(workload),
        "--nnodes": nodes(workload) if several else None,
        "--node-rank": "$NODE_RANK" if several else None,
        "--master-addr": "$MASTER_ADDR" if several else None,
    }
    settings = {
        **_architecture(model),
        **_degrees(model.spec, workload, usual=workload.tensor_parallel),
        "--seq-length": length,
        "--max-position-embeddings": length,
        "--micro-batch-size": workload.micro_batch_size,
        "--global-batch-size": sequences_per_step(workload),
        "--use-distributed-optimizer": workload.zero_stage > 0,
        **_computed(workload),
        "--tokenizer-type": "HuggingFaceTokenizer",
        "--tokenizer-model": path_of(model),
        "--data-path": "DATA_PREFIX",
        "--train-iters": "ITERATIONS",
        "--lr": "LEARNING_RATE",
        "--grad-reduce-in-bf16": workload.gradient_dtype == "bf16",
        **_recompute(workload),
        "--fp16": workload.precision == "mixed_fp16",
        "--bf16": workload.precision not in ("mixed_fp16", "fp32"),
        **_fp8(workload),
    }
    return ["torchrun", *flags(processes), "pretrain_gpt.py", *flags(settings)]


def _computed(workload: TrainingWorkload) -> Flags:
    """Return the flags of kernels and of the optimizer, which ms-swift has too."""
    moments = "bf16" if workload.optimizer == "adamw_bf16" else None
    return {
        "--attention-backend": _BACKENDS[workload.attention],
        "--cross-entropy-loss-fusion": workload.compile,
        "--optimizer": _OPTIMIZER_NAMES.get(workload.optimizer, "adam"),
        "--use-precision-aware-optimizer": moments is not None or workload.offload != "none",
        "--exp-avg-dtype": moments,
        "--exp-avg-sq-dtype": moments,
        "--optimizer-cpu-offload": workload.offload != "none",
    }


def _fp8(workload: TrainingWorkload) -> Flags:
    in_fp8 = workload.precision == "fp8"
    return {
        "--fp8-format": "hybrid" if in_fp8 else None,
        "--fp8-param-gather": in_fp8 and workload.fp8_parameters,
    }


def _degrees(spec: ModelSpec, workload: TrainingWorkload, usual: int) -> Flags:
    """`usual`: ranks that share an expert where nothing is said."""
    degrees = {
        "--tensor-model-parallel-size": workload.tensor_parallel,
        "--pipeline-model-parallel-size": workload.pipeline_parallel,
        "--context-parallel-size": workload.context_parallel,
        "--expert-model-parallel-size": workload.expert_parallel,
    }
    ways, sizes = workload.expert_ways, uneven(workload, spec)
    interleaved = workload.pipeline_parallel > 1 and workload.pipeline_schedule == "interleaved"
    return {
        **{flag: degree for flag, degree in degrees.items() if degree > 1},
        "--expert-tensor-parallel-size": ways if ways != usual else None,
        "--sequence-parallel": workload.sequence_parallel,
        _CHUNKS: workload.pipeline_chunks if interleaved else None,
        "--decoder-first-pipeline-num-layers": sizes[0] if sizes else None,
        "--decoder-last-pipeline-num-layers": sizes[-1] if sizes else None,
    }


def _recompute(workload: TrainingWorkload) -> Flags:
    if workload.activation_checkpointing == "none":
        return {}
    if workload.activation_checkpointing == "selective":
        modules = recomputed_modules(workload)
        return {
            "--recompute-granularity": "selective",
            "--recompute-modules": None if modules == ("core_attn",) else modules,
        }
    return {
        "--recompute-granularity": "full",
        "--recompute-method": "uniform",
        "--recompute-num-layers": 1,
    }


def _architecture(model: Model) -> Flags:
    """Shapes of the model, as pretrain_gpt.py wants them written out
    (megatron/training/arguments.py)."""
    spec = model.spec
    blocks = [
        block for block in spec.blocks if block.part is Part.LANGUAGE and "{}" in block.prefix
    ]
    attention = next(
        (mixer for block in blocks for mixer in block.mixers if isinstance(mixer, Attention)), None
    )
    mlps = [block.mlp for block in blocks if block.mlp is not None]
    settings: Flags = {"--num-layers": spec.layers, "--hidden-size": spec.hidden_size}
    if attention is not None:
        heads, groups, width = attention.query_heads, attention.kv_heads, attention.head_dim
        settings |= {
            "--num-attention-heads": heads,
            "--group-query-attention": groups != heads,
            "--num-query-groups": groups if groups != heads else None,
            "--kv-channels": width if width * heads != spec.hidden_size else None,
        }
    settings |= _latents(blocks)
    if mlps:
        settings["--ffn-hidden-size"] = max(mlp.intermediate_size for mlp in mlps)
    routed = max(mlps, key=lambda mlp: mlp.experts, default=None)
    if routed is not None and routed.experts:
        settings |= {
            "--num-experts": routed.experts,
            "--moe-router-topk": routed.experts_per_token,
            "--moe-grouped-gemm": True,
            "--moe-router-dtype": "fp32",
            "--moe-ffn-hidden-size": routed.intermediate_size,
            "--moe-token-dispatcher-type": "alltoall",
            "--moe-shared-expert-intermediate-size": routed.shared_intermediate_size or None,
        }
    settings["--vocab-size"] = spec.vocabulary_size or None
    settings["--untie-embeddings-and-output-weights"] = not spec.tied_embeddings
    return settings | _style(spec, blocks)


def _latents(blocks: list[Block]) -> Flags:
    """Return the widths of multi-head latent attention, and which layers are dense where some
    have experts."""
    mixer = next(
        (mixer for block in blocks for mixer in block.mixers if isinstance(mixer, LatentAttention)),
        None,
    )
    settings: Flags = {}
    if mixer is not None:
        tensors = (tensor for block in blocks for tensor in block.tensors)
        settings = {
            "--multi-latent-attention": True,
            "--num-attention-heads": mixer.query_heads,
            "--kv-lora-rank": mixer.latent_dim,
            "--q-lora-rank": next(
                (t.shape[0] for t in tensors if t.name.endswith("q_a_proj.weight")), None
            ),
            "--qk-head-dim": mixer.nope_dim,
            "--qk-pos-emb-head-dim": mixer.rope_dim,
            "--v-head-dim": mixer.value_dim,
        }
    with_mlp = [(block.mlp, block.layers) for block in blocks if block.mlp is not None]
    dense = {number for mlp, layers in with_mlp if not mlp.experts for number in layers}
    routed = {number for mlp, layers in with_mlp if mlp.experts for number in layers}
    if dense and routed and max(dense) < min(routed):
        settings["--moe-layer-freq"] = f"([0]*{len(dense)}+[1]*{len(routed)})"
    return settings


def _style(spec: ModelSpec, blocks: list[Block]) -> Flags:
    """Return what its layers compute: gates, norms, positions, biases. Left out are flags of one
    family alone (caps, sinks, windows)."""
    names, traits = {tensor.name for block in blocks for tensor in block.tensors}, traits_of(spec)
    learned = any(
        "{}" not in block.prefix and tensor.name.endswith(_POSITIONS)
        for block in spec.blocks
        for tensor in block.tensors
    )
    biases = [name for name in names if name.endswith(".bias")]
    biases = [name for name in biases if "norm" not in name and "ln_" not in name]
    gated = any(block.mlp is not None and block.mlp.gated for block in blocks)
    without_bias = not any(name.endswith(_OUTPUT_BIASES) for name in biases)
    of_queries = any(name.endswith(_QUERY_BIASES) for name in biases)
    return {
        "--swiglu": gated and (traits.gated_activation or traits.activation) == "silu",
        "--normalization": "RMSNorm" if "rms" in traits.norm else None,
        "--position-embedding-type": None if learned else "rope",
        "--disable-bias-linear": without_bias,
        "--add-qkv-bias": without_bias and of_queries,
        "--qk-layernorm": any("q_norm" in name for name in names),
    }


def _swift(model: Model, workload: TrainingWorkload, setup: Setup) -> list[object]:
    """ms-swift's `megatron sft` and `megatron rlhf`: NPROC_PER_NODE starts its processes."""
    start: list[object] = ["env", f"NPROC_PER_NODE={processes_per_node(workload)}"]
    if nodes(workload) > 1:
        start.append(f"NNODES={nodes(workload)}")
    supervised, adapters = setup.algorithm == "sft", workload.uses_adapters
    algorithm = {"reward": "rm"}.get(setup.algorithm, setup.algorithm)
    start += ["megatron", "sft"] if supervised else ["megatron", "rlhf", "--rlhf_type", algorithm]
    spec, offloads = model.spec, workload.offload != "none"
    routed = any(block.mlp is not None and block.mlp.experts for block in spec.blocks)
    usual = 1 if routed else workload.expert_ways  # megatron/arguments/megatron_args.py
    settings = {
        "--model": path_of(model),
        "--dataset": "DATASET",
        **_of_swift(_degrees(spec, workload, usual)),
        "--max_length": workload.sequence_length,
        "--micro_batch_size": workload.micro_batch_size,
        "--global_batch_size": sequences_per_step(workload),
        **_of_swift(_computed(workload) | _recompute(workload)),
        "--tuner_type": "lora" if adapters else None,
        "--lora_rank": workload.lora_rank if adapters else None,
        "--lora_dropout": f"{workload.lora_dropout:g}" if adapters else None,
        "--target_modules": (megatron_modules(workload) or "all-linear") if adapters else None,
        "--freeze_vit": switch(not workload.train_vision_tower) if spec.sees_images else None,
        **_of_swift(_fp8(workload)),
        "--optimizer_offload_fraction": 1 if offloads else None,
    }
    return [*start, *flags(settings)]


def _of_swift(settings: Flags) -> Flags:
    """Return Megatron-LM's flags as ms-swift has them: with underscores, and a value each."""
    return {
        _SWIFT_NAMES.get(flag, f"--{flag[2:].replace('-', '_')}"): "true"
        if value is True
        else value
        for flag, value in settings.items()
    }


def megatron_modules(workload: TrainingWorkload) -> list[str]:
    """Return Megatron's names of the linears that adapters sit on; empty for all."""
    if workload.lora_targets == "all_linear":
        return []
    named = USUAL_ATTENTION if isinstance(workload.lora_targets, str) else workload.lora_targets
    return list(dict.fromkeys(_MODULES.get(name, name) for name in named))


def fused_adapters(workload: TrainingWorkload) -> list[Note]:
    """Return that adapters sit on a whole linear of Megatron's, of which some parts are named."""
    named = [] if isinstance(workload.lora_targets, str) else list(workload.lora_targets)
    modules = set(megatron_modules(workload)) if workload.uses_adapters and named else set()
    also = [name for name, one in _MODULES.items() if one in modules and name not in named]
    if not also:
        return []
    message = (
        f"Megatron adapts whole linears: {', '.join(also)} too, which the estimate leaves out."
    )
    return [lacking("lora_targets", message)]


MEGATRON_LAUNCHER = Launcher(
    "Megatron",
    megatron_command,
    _unsupported,
    # Megatron-LM's --yaml-cfg reads a part: yaml_arguments.py; `megatron` is ms-swift's
    files=script_of(frozenset(("pretrain_gpt.py", "megatron"))),
)
