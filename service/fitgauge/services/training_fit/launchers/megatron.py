"""Flags of Megatron-LM's pretrain_gpt.py, and of ms-swift's `megatron` command for adapters and
preferences, which that script has not."""

from fitgauge.engine.model.mixers import Attention, LatentAttention
from fitgauge.engine.model.model import Model
from fitgauge.engine.model.spec import Block, ModelSpec, Part
from fitgauge.engine.note import Note
from fitgauge.engine.training.algorithms.setup import Setup
from fitgauge.engine.training.autograd.layers.traits import traits_of
from fitgauge.engine.training.workload import TrainingWorkload, recomputed_modules
from fitgauge.services.common.shell import path_of, switch
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

_OPTIMIZERS = ("adamw", "adamw_bf16", "sgd", "sgd_momentum", "muon")
_MODULES = {
    "q_proj": "linear_qkv", "k_proj": "linear_qkv", "v_proj": "linear_qkv", "o_proj": "linear_proj",
    "gate_proj": "linear_fc1",
    "up_proj": "linear_fc1", "down_proj": "linear_fc2",
}  # fmt: skip
"""What Megatron calls transformers' linears. Source: ms-swift docs,
Megatron-SWIFT/Command-line-parameters.md, target_modules."""


def _unsupported(model: Model, workload: TrainingWorkload, setup: Setup) -> list[Note]:
    """Return the settings that neither Megatron-LM nor ms-swift has a flag for."""
    notes: list[Note] = []
    if workload.optimizer not in _OPTIMIZERS:
        notes.append(
            lacking(
                "optimizer",
                f"Megatron has no --optimizer for {workload.optimizer}: the command uses adam.",
            )
        )
    if workload.pipeline_parallel > 1 and workload.pipeline_schedule in ("gpipe", "zero_bubble"):
        notes.append(
            lacking(
                "pipeline_schedule",
                f"Megatron-LM runs 1f1b, plain or interleaved, not {workload.pipeline_schedule}:"
                " the command uses 1f1b.",
            )
        )
    if workload.loss not in ("full", "in_place") and setup.algorithm == "sft":
        notes.append(
            lacking(
                "loss",
                f"Megatron-LM has no {workload.loss} loss: its last stage computes whole logits.",
            )
        )
    if workload.method == "dora":
        notes.append(
            lacking("method", "ms-swift has no DoRA under Megatron: the command uses LoRA.")
        )
    if workload.gradient_dtype == "bf16" and workload.uses_adapters:
        notes.append(
            lacking("gradient_dtype", "ms-swift sums gradients in fp32: it has no flag for bf16.")
        )
    return notes


def megatron_command(model: Model, workload: TrainingWorkload, setup: Setup) -> list[object]:
    """Return the words of the command."""
    if workload.uses_adapters or setup.algorithm != "sft":
        return _swift(model, workload, setup)
    flags: list[object] = ["torchrun", "--nproc-per-node", processes_per_node(workload)]
    if nodes(workload) > 1:
        flags += [
            "--nnodes",
            nodes(workload),
            "--node-rank",
            "$NODE_RANK",
            "--master-addr",
            "$MASTER_ADDR",
        ]
    flags += [
        "pretrain_gpt.py",
        *_architecture(model),
        *_degrees(model.spec, workload, usual=workload.tensor_parallel),
    ]
    flags += [
        "--seq-length",
        workload.sequence_length,
        "--max-position-embeddings",
        workload.sequence_length,
    ]
    flags += [
        "--micro-batch-size",
        workload.micro_batch_size,
        "--global-batch-size",
        sequences_per_step(workload),
    ]
    if workload.zero_stage:
        flags.append("--use-distributed-optimizer")
    flags += [
        "--attention-backend",
        {"flash": "flash", "sdpa": "fused", "eager": "unfused", "flex": "auto"}[workload.attention],
    ]
    flags += [
        "--optimizer",
        {"sgd": "sgd", "sgd_momentum": "sgd", "muon": "muon"}.get(workload.optimizer, "adam"),
    ]
    if workload.optimizer == "adamw_bf16" or workload.offload != "none":
        flags.append("--use-precision-aware-optimizer")
    flags += (
        ["--exp-avg-dtype", "bf16", "--exp-avg-sq-dtype", "bf16"]
        if workload.optimizer == "adamw_bf16"
        else []
    )
    flags += ["--optimizer-cpu-offload"] if workload.offload != "none" else []
    flags += ["--tokenizer-type", "HuggingFaceTokenizer", "--tokenizer-model", path_of(model)]
    flags += ["--data-path", "DATA_PREFIX", "--train-iters", "ITERATIONS", "--lr", "LEARNING_RATE"]
    flags += ["--cross-entropy-loss-fusion"] if workload.compile else []
    flags += ["--grad-reduce-in-bf16"] if workload.gradient_dtype == "bf16" else []
    return [*flags, *_recompute(workload, "--recompute-"), *_precision(workload)]


def _precision(workload: TrainingWorkload) -> list[object]:
    if workload.precision == "fp8":
        return [
            "--bf16",
            "--fp8-format",
            "hybrid",
            *(["--fp8-param-gather"] if workload.fp8_parameters else []),
        ]
    return (
        []
        if workload.precision == "fp32"
        else ["--fp16" if workload.precision == "mixed_fp16" else "--bf16"]
    )


def _degrees(spec: ModelSpec, workload: TrainingWorkload, usual: int) -> list[object]:
    """`usual`: ranks that share an expert where nothing is said."""
    flags: list[object] = []
    for flag, degree in (
        ("--tensor-model-parallel-size", workload.tensor_parallel),
        ("--pipeline-model-parallel-size", workload.pipeline_parallel),
        ("--context-parallel-size", workload.context_parallel),
        ("--expert-model-parallel-size", workload.expert_parallel),
    ):
        flags += [flag, degree] if degree > 1 else []
    if workload.expert_ways != usual:
        flags += ["--expert-tensor-parallel-size", workload.expert_ways]
    if workload.sequence_parallel:
        flags.append("--sequence-parallel")
    if workload.pipeline_parallel > 1 and workload.pipeline_schedule == "interleaved":
        flags += ["--num-virtual-stages-per-pipeline-rank", workload.pipeline_chunks]
    if sizes := uneven(workload, spec):
        flags += [
            "--decoder-first-pipeline-num-layers",
            sizes[0],
            "--decoder-last-pipeline-num-layers",
            sizes[-1],
        ]
    return flags


def _recompute(workload: TrainingWorkload, prefix: str) -> list[object]:
    words = [f"{prefix}{name}" for name in ("granularity", "method", "num-layers")]
    if prefix == "--recompute_":
        words = [word.replace("-layers", "_layers") for word in words]
    if workload.activation_checkpointing == "none":
        return []
    if workload.activation_checkpointing == "selective":
        modules = recomputed_modules(workload)
        return [
            words[0],
            "selective",
            *([f"{prefix}modules", *modules] if modules != ("core_attn",) else []),
        ]
    return [words[0], "full", words[1], "uniform", words[2], 1]


def _architecture(model: Model) -> list[object]:
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
    flags: list[object] = ["--num-layers", spec.layers, "--hidden-size", spec.hidden_size]
    if attention is not None:
        flags += ["--num-attention-heads", attention.query_heads]
        if attention.kv_heads != attention.query_heads:
            flags += ["--group-query-attention", "--num-query-groups", attention.kv_heads]
        if attention.head_dim * attention.query_heads != spec.hidden_size:
            flags += ["--kv-channels", attention.head_dim]
    flags += _latents(blocks)
    if mlps:
        flags += ["--ffn-hidden-size", max(mlp.intermediate_size for mlp in mlps)]
    routed = max(mlps, key=lambda mlp: mlp.experts, default=None)
    if routed is not None and routed.experts:
        flags += [
            "--num-experts",
            routed.experts,
            "--moe-router-topk",
            routed.experts_per_token,
            "--moe-grouped-gemm",
        ]
        flags += ["--moe-router-dtype", "fp32"]
        flags += [
            "--moe-ffn-hidden-size",
            routed.intermediate_size,
            "--moe-token-dispatcher-type",
            "alltoall",
        ]
        if routed.shared_intermediate_size:
            flags += ["--moe-shared-expert-intermediate-size", routed.shared_intermediate_size]
    flags += ["--vocab-size", spec.vocabulary_size] if spec.vocabulary_size else []
    flags += [] if spec.tied_embeddings else ["--untie-embeddings-and-output-weights"]
    return [*flags, *_style(spec, blocks)]


def _latents(blocks: list[Block]) -> list[object]:
    """Return the widths of multi-head latent attention, and which layers are dense where some
    have experts."""
    mixer = next(
        (mixer for block in blocks for mixer in block.mixers if isinstance(mixer, LatentAttention)),
        None,
    )
    flags: list[object] = []
    if mixer is not None:
        narrow = next(
            (
                t.shape[0]
                for block in blocks
                for t in block.tensors
                if t.name.endswith("q_a_proj.weight")
            ),
            None,
        )
        flags += [
            "--multi-latent-attention",
            "--num-attention-heads",
            mixer.query_heads,
            "--kv-lora-rank",
            mixer.latent_dim,
        ]
        flags += ["--q-lora-rank", narrow] if narrow is not None else []
        flags += [
            "--qk-head-dim",
            mixer.nope_dim,
            "--qk-pos-emb-head-dim",
            mixer.rope_dim,
            "--v-head-dim",
            mixer.value_dim,
        ]
    dense = {
        number
        for block in blocks
        if block.mlp is not None and not block.mlp.experts
        for number in block.layers
    }
    routed = {
        number
        for block in blocks
        if block.mlp is not None and block.mlp.experts
        for number in block.layers
    }
    if dense and routed and max(dense) < min(routed):
        flags += ["--moe-layer-freq", f"([0]*{len(dense)}+[1]*{len(routed)})"]
    return flags


def _style(spec: ModelSpec, blocks: list[Block]) -> list[object]:
    """Return what its layers compute: gates, norms, positions, biases. Left out are flags of one
    family alone (caps, sinks, windows)."""
    names, traits = {tensor.name for block in blocks for tensor in block.tensors}, traits_of(spec)
    learned = any(
        "{}" not in block.prefix and tensor.name.endswith(_POSITIONS)
        for block in spec.blocks
        for tensor in block.tensors
    )
    biases = [
        name
        for name in names
        if name.endswith(".bias") and "norm" not in name and "ln_" not in name
    ]
    of_queries = any(
        name.endswith(("q_proj.bias", "qkv.bias", "c_attn.bias", "query_key_value.bias"))
        for name in biases
    )
    flags: list[object] = []
    if (
        any(block.mlp is not None and block.mlp.gated for block in blocks)
        and (traits.gated_activation or traits.activation) == "silu"
    ):
        flags.append("--swiglu")
    flags += ["--normalization", "RMSNorm"] if "rms" in traits.norm else []
    flags += [] if learned else ["--position-embedding-type", "rope"]
    if not any(
        name.endswith(("o_proj.bias", "down_proj.bias", "c_proj.bias", "dense.bias"))
        for name in biases
    ):
        flags += ["--disable-bias-linear", *(["--add-qkv-bias"] if of_queries else [])]
    return [*flags, *(["--qk-layernorm"] if any("q_norm" in name for name in names) else [])]


def _swift(model: Model, workload: TrainingWorkload, setup: Setup) -> list[object]:
    """ms-swift's `megatron sft` and `megatron rlhf`: NPROC_PER_NODE starts its processes."""
    words = {"reward": "rm", "simpo": "simpo"}
    start: list[object] = ["env", f"NPROC_PER_NODE={processes_per_node(workload)}"]
    if nodes(workload) > 1:
        start += [f"NNODES={nodes(workload)}"]
    start += (
        ["megatron", "sft"]
        if setup.algorithm == "sft"
        else ["megatron", "rlhf", "--rlhf_type", words.get(setup.algorithm, setup.algorithm)]
    )
    flags: list[object] = [*start, "--model", path_of(model), "--dataset", "DATASET"]
    routed = any(block.mlp is not None and block.mlp.experts for block in model.spec.blocks)
    degrees = _degrees(
        model.spec, workload, usual=1 if routed else workload.expert_ways
    )  # megatron/arguments/megatron_args.py
    flags += [
        str(word).replace("-", "_").replace("__", "--", 1) if str(word).startswith("--") else word
        for word in degrees
    ]
    chunks = "--num_virtual_stages_per_pipeline_rank"
    flags = ["--virtual_pipeline_model_parallel_size" if word == chunks else word for word in flags]
    if workload.sequence_parallel:
        flags[flags.index("--sequence_parallel") : flags.index("--sequence_parallel") + 1] = [
            "--sequence_parallel",
            "true",
        ]
    flags += [
        "--max_length",
        workload.sequence_length,
        "--micro_batch_size",
        workload.micro_batch_size,
    ]
    flags += [
        "--global_batch_size",
        sequences_per_step(workload),
        *_recompute(workload, "--recompute_"),
    ]
    if workload.uses_adapters:
        flags += [
            "--tuner_type",
            "lora",
            "--lora_rank",
            workload.lora_rank,
            "--target_modules",
            *_targets(workload),
        ]
    if any(block.part is Part.VISION for block in model.spec.blocks):
        flags += ["--freeze_vit", switch(not workload.train_vision_tower)]
    if workload.precision == "fp8":
        flags += [
            "--fp8_format",
            "hybrid",
            *(["--fp8_param_gather", "true"] if workload.fp8_parameters else []),
        ]
    if workload.offload != "none":
        flags += ["--optimizer_cpu_offload", "true", "--optimizer_offload_fraction", 1]
    return flags


def _targets(workload: TrainingWorkload) -> list[str]:
    """Return modules in addition to which adapters sit, as Megatron names them."""
    return megatron_modules(workload) or ["all-linear"]


def megatron_modules(workload: TrainingWorkload) -> list[str]:
    """Return Megatron's names of the linears that adapters sit on; empty for all."""
    if workload.lora_targets == "all_linear":
        return []
    named = USUAL_ATTENTION if isinstance(workload.lora_targets, str) else workload.lora_targets
    return list(dict.fromkeys(_MODULES.get(name, name) for name in named))


MEGATRON_LAUNCHER = Launcher(
    "Megatron",
    megatron_command,
    _unsupported,
    # Megatron-LM's --yaml-cfg reads a part: yaml_arguments.py; `megatron` is ms-swift's
    files=script_of(frozenset(("pretrain_gpt.py", "megatron"))),
)
