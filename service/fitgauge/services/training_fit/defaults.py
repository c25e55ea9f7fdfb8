"""Values of the settings that a training request leaves out: the one place that
check_training_fit and recommend_gpus take them from."""

from collections.abc import Iterator

from msgspec import structs

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.training.workload import Method
from fitgauge.services.training_fit.launchers.registry import tool_of, with_tool_defaults
from fitgauge.services.training_fit.launchers.tool import ADAPTERS, Default
from fitgauge.services.training_fit.launchers.trl import TRL
from fitgauge.services.training_fit.quantized_checkpoints import as_published, asks_qlora
from fitgauge.services.training_fit.rl_parsing import algorithm
from fitgauge.services.training_fit.rl_setup import asked_framework
from fitgauge.services.training_fit.schemas import TrainingRequest
from fitgauge.services.training_fit.workload import in_its_formats

METHODS: tuple[Method, ...] = ("lora", "qlora", "full")
"""What is judged where no method is sent, in the order of preference."""


def methods_of(request: TrainingRequest, spec: ModelSpec) -> tuple[Method, ...]:
    """Return METHODS in the order of preference for a model, perhaps one twice: all weights come
    first under a tool that trains them by itself, where states are to be divided (few are those of
    adapters) and, as in transformers' example scripts, without a causal head."""
    if asks_qlora(request):
        return ("qlora",)
    tool = tool_of(request)
    if tool is None or tool is TRL:
        adapts = any(getattr(request, name) is not None for name in _OF_ADAPTERS)
        whole = asked_framework(request) != "transformers" and not adapts
    else:
        whole = tool.trains_whole
    return ("full", *METHODS) if whole or spec.task != "generate" else METHODS


_OF_ADAPTERS = ("lora_rank", "lora_targets", "lora_dropout", "lora_experts", "quantization")
"""Fields that no training of all weights has."""

HALF_BASE = Default(
    "base_precision",
    "half",
    "trl/trainer/model_config.py, dtype: sent as bfloat16, where TRL's own is float32; since TRL"
    " 0.26 sft_trainer.py leaves what QLoRA does not quantize as it is loaded",
    ADAPTERS,
)
"""Ours: the command loads a frozen base in 16 bit."""


def with_defaults(
    request: TrainingRequest,
    method: Method,
    accelerator: Accelerator | None,
    count: int,
    spec: ModelSpec,
) -> TrainingRequest:
    """Return the request with its method and the defaults of whatever runs it: of the tool that it
    names, else of TRL, whose command is printed for every framework but Megatron. `accelerator`:
    None for one that computes in every format."""
    settled = _with_own(request, method, accelerator, count, spec)
    if accelerator is None or request.precision is not None:
        return settled
    return in_its_formats(settled, accelerator)


def _with_own(
    request: TrainingRequest,
    method: Method,
    accelerator: Accelerator | None,
    count: int,
    spec: ModelSpec,
) -> TrainingRequest:
    """Return the request with its method and the defaults of what runs it, whatever the GPU
    computes in."""
    named = as_published(structs.replace(request, method=method), method, spec, accelerator, count)
    if (tool := tool_of(request)) is not None:
        settled = with_tool_defaults(named, method, count, spec)
        if tool.steps_under_deepspeed and asked_framework(request) == "deepspeed":
            # over ZeRO's one flat partition, where how it steps is the Trainer's release's
            own = named.optimizer_implementation
            settled = structs.replace(settled, optimizer_implementation=own)
        old = accelerator is not None and accelerator.flash_attention_2 is False
        # A tool's fused attention is for the GPUs that FlashAttention-2 is for.
        if old and not request.attention and settled.attention == "flash":
            return structs.replace(settled, attention=None)
        return settled
    if asked_framework(request) == "megatron":
        return named
    left_out = {
        default.field: default.value
        for default in _of_trl(request, method, count, spec)
        if getattr(named, default.field) is None
    }
    return structs.replace(named, **left_out)


def _of_trl(
    request: TrainingRequest, method: Method, count: int, spec: ModelSpec
) -> Iterator[Default]:
    """Yield TRL's defaults for a request without a tool, with a frozen base in 16 bit where the
    request leaves precision out too. How AdamW steps stays open, within the
    interval, where it is no trainer of preferences.

    TRL's loss holds where no framework is named: one that is named, or that shards or offloads for
    transformers, has its own, over whole logits. Liger's kernels bring their own, and a model
    without a causal head has none. transformers by name is a loop of one's own, with the
    adapters of PEFT, whose LoraConfig drops nothing; what shards is run by a trainer's script,
    and those of published runs drop (fms-acceleration, scripts/benchmarks/scenarios.yaml: 0.1;
    QwenLM/Qwen-VL, finetune.py: 0.05)."""
    own_loop = request.framework is not None and asked_framework(request) == "transformers"
    own_loss = (
        request.framework is not None
        or asked_framework(request) != "transformers"
        or request.kernels not in (None, "none")
        or spec.task != "generate"
    )
    supervised = algorithm(request.algorithm) == "sft"
    for default in TRL.defaults_for(request, method, count, spec):
        own = {
            "loss": own_loss,
            "lora_dropout": own_loop,
            "optimizer_implementation": supervised or own_loop,
        }
        if not own.get(default.field):
            yield default
    if request.precision is None and HALF_BASE.applies(request, method, count, spec):
        yield HALF_BASE
