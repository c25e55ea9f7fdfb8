"""torchtitan: run_train.sh with the configuration of a model, and what it says otherwise.
Source: torchtitan, config/configs.py."""

from fitgauge.engine.model.spec import Model
from fitgauge.engine.note import Note
from fitgauge.engine.training.algorithms.setup import Setup
from fitgauge.engine.training.parallel.pipeline import DEFAULT_CHUNKS
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.services.common.shell import joined
from fitgauge.services.training_fit.launchers.common import processes_per_node
from fitgauge.services.training_fit.launchers.tool import Default, Tool, lacking

_SCHEDULES = {"1f1b": "1F1B", "gpipe": "GPipe", "interleaved": "Interleaved1F1B"}
"""As torch/distributed/pipelining/schedules.py has them, get_schedule_class."""
_IMPLEMENTATIONS = {"for_loop": "for-loop"}


def torchtitan_command(model: Model, workload: TrainingWorkload, setup: Setup) -> str:
    """Return the script sets the allocator by itself; MODULE and CONFIG name the model, and
    activation checkpointing stands in its configuration
    (torchtitan/models/*/config_registry.py)."""
    implementation = _IMPLEMENTATIONS.get(
        workload.optimizer_implementation, workload.optimizer_implementation
    )
    words: list[object] = [
        "env",
        f"NGPU={processes_per_node(workload)}",
        "MODULE=MODULE",
        "CONFIG=CONFIG",
        "./run_train.sh",
    ]
    words += ["--training.max_context_length", workload.sequence_length]
    words += [
        "--training.num_tokens_per_microbatch_per_dp_rank",
        workload.sequence_length * workload.micro_batch_size,
    ]
    words += ["--training.dtype", "bfloat16" if workload.precision == "bf16" else "float32"]
    words += ["--optimizer.implementation", implementation]
    words += ["--parallelism.data_parallel_replicate_degree", workload.data_parallel_replicate]
    words += [
        "--parallelism.data_parallel_shard_degree",
        workload.data_parallel // workload.data_parallel_replicate,
    ]
    words += ["--parallelism.tensor_parallel_degree", workload.tensor_parallel]
    words += ["--parallelism.context_parallel_degree", workload.context_parallel]
    words += [
        "--parallelism.fsdp_reshard_after_forward",
        "always" if workload.zero_stage == 3 else "never",
    ]
    words += _pipeline(model, workload) if workload.pipeline_parallel > 1 else []
    words += ["--compile.enable"] if workload.compile else []
    words += ["--training.enable_cpu_offload"] if workload.offload != "none" else []
    return joined(words)


def _pipeline(model: Model, workload: TrainingWorkload) -> list[object]:
    """Of a pipeline: its stages, schedule and micro-batches; layers of a stage where a rank has
    more than two of them."""
    words: list[object] = ["--parallelism.pipeline_parallel_degree", workload.pipeline_parallel]
    words += ["--parallelism.pipeline_parallel_schedule", _SCHEDULES[workload.pipeline_schedule]]
    words += ["--parallelism.num_pp_microbatches", workload.micro_batches]
    if workload.pipeline_schedule == "interleaved" and workload.pipeline_chunks > DEFAULT_CHUNKS:
        stages = workload.pipeline_parallel * workload.pipeline_chunks
        words += [
            "--parallelism.pipeline_parallel_layers_per_stage",
            -(-(model.spec.layers + 2) // stages),
        ]
    return words


def _unsupported(_: Model, workload: TrainingWorkload, __: Setup) -> list[Note]:
    """Return what stands in the model's configuration alone, where it is another than its own."""
    if workload.activation_checkpointing == "selective":
        return []
    return [
        lacking(
            "activation_checkpointing",
            "torchtitan checkpoints as CONFIG says, selectively: set"
            f" {workload.activation_checkpointing} checkpointing in it.",
        )
    ]


TORCHTITAN = Tool(
    name="torchtitan",
    title="torchtitan",
    version="main of August 2026",
    framework="fsdp",
    aliases=("titan",),
    command=torchtitan_command,
    supports=lambda workload: not workload.uses_adapters,
    unsupported=_unsupported,
    placeholders="MODULE and CONFIG",
    sets_allocator=True,
    defaults=(
        Default("precision", "mixed_bf16",
            "torchtitan/config/configs.py, dtype float32, mixed_precision_param bfloat16"),
        Default("activation_checkpointing", "selective",
            "torchtitan/models/llama3/config_registry.py, SelectiveAC"),
        Default("optimizer_implementation", "fused",
            "torchtitan/components/optimizer/optimizer.py, implementation"),
        Default("fsdp_version", 2, "torchtitan/distributed/fsdp.py, fully_shard"),
        Default("shard_embeddings", True,
            "torchtitan/distributed/fsdp.py: embedding and head apart"),
        Default("gradient_dtype", "fp32", "torchtitan/config/configs.py, mixed_precision_reduce"),
        Default("expandable_segments", True, "run_train.sh, PYTORCH_ALLOC_CONF"),
    ),
)  # fmt: skip
