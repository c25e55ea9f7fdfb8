"""What a training answer assumes for the settings that the request leaves out, and what the
opposite of each would need."""

from collections.abc import Callable, Iterator, Mapping

from msgspec import structs

from fitgauge.engine.model.model import Model
from fitgauge.engine.quantity import gib
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.services.common.assumptions import size_assumed
from fitgauge.services.common.schemas import Assumption
from fitgauge.services.common.unsupported import IMPOSSIBLE
from fitgauge.services.training_fit import images
from fitgauge.services.training_fit.launchers.registry import tool_defaults
from fitgauge.services.training_fit.quantized_checkpoints import base_of
from fitgauge.services.training_fit.result import JudgedMethods, TrainingEstimate
from fitgauge.services.training_fit.schemas import TrainingRequest

Value = str | int | float | bool
Opposite = tuple[str, dict[str, Value]] | None
"""Another value in words, and the fields of the workload that it changes."""
METHOD_TITLES: Mapping[str, str] = {
    "lora": "LoRA",
    "dora": "DoRA",
    "qlora": "QLoRA",
    "full": "full fine-tuning",
}
_CHECKPOINTING = {
    "full": "activation checkpointing",
    "selective": "selective activation checkpointing",
    "none": "no activation checkpointing",
}
_OPTIMIZERS = {"adamw": "AdamW", "adamw_8bit": "8-bit AdamW", "paged_adamw": "paged AdamW"}
_KERNELS = {"sdpa": "SDPA", "flash": "FlashAttention", "flex": "flex", "eager": "eager"}
_LOSSES = {
    "none": "a head of classes in place of the vocabulary's",
    "full": "loss over whole logits",
    "chunked": "loss in chunks of the logits",
    "chunked_backward": "loss in chunks, each with its backward pass",
    "recomputed": "loss in chunks that are recomputed",
    "fused": "loss fused with the head",
    "in_place": "loss with its gradient in place of the logits",
}


_ON: Opposite = ("on", {"activation_checkpointing": "full"})
_OFF: Opposite = ("off", {"activation_checkpointing": "none"})
_OFF_ON_GPU: Opposite = ("off", {"activation_checkpointing": "none", "activation_offload": False})
"""Off under a tool that offloads what it checkpoints, and nothing else."""
_FUSED: Opposite = ("fused with the head", {"loss": "fused"})
_WHOLE_LOGITS: Opposite = ("over whole logits", {"loss": "full"})
_ADAMW: Opposite = ("AdamW", {"optimizer": "adamw"})
_ADAMW_8BIT: Opposite = ("8-bit AdamW", {"optimizer": "adamw_8bit"})
_SDPA: Opposite = ("SDPA", {"attention": "sdpa"})
_EAGER: Opposite = ("eager", {"attention": "eager"})


def assumptions(
    sent: TrainingRequest,
    model: Model,
    judged: JudgedMethods,
    understood: Mapping[str, Value],
    estimate: Callable[[TrainingWorkload], TrainingEstimate],
) -> list[Assumption]:
    """Return what `sent` leaves out.

    understood: the request with every default filled in. estimate: of another workload on the same
    GPUs.
    """
    trained = judged.main
    workload = trained.workload
    filled = tool_defaults(sent, trained.request, understood)

    def need(changes: dict[str, Value]) -> str | None:
        """Return what the fullest GPU needs with other settings; None where they are impossible."""
        try:
            return gib(estimate(structs.replace(workload, **changes)).need)
        except IMPOSSIBLE:
            return None

    messages = [*size_assumed(model), *images.assumptions(sent, workload, model.spec)]
    if sent.method is None:
        rest = [f"{METHOD_TITLES[name]}: {gib(one.need)}" for name, one in judged.others.items()]
        messages.append(
            Assumption("method", workload.method, _with(METHOD_TITLES[workload.method], rest))
        )
    base = base_of(model.spec)
    if base is not None and sent.quantization is None and trained.request.quantization == base:
        messages.append(Assumption("quantization", base, f"a base in {base}, as it is published"))
    messages += _sharding(sent, trained, need)
    for field, value, words, opposite in _settings(sent, trained):
        if getattr(sent, field) is not None:
            continue
        needed = None if opposite is None else need(opposite[1])
        rest = [] if opposite is None or needed is None else [f"{opposite[0]}: {needed}"]
        messages.append(
            Assumption(
                field, value, _with(_of_tool(words, trained if field in filled else None), rest)
            )
        )
    return messages + _other_defaults(trained, filled, {one.field for one in messages})


def _with(words: str, rest: list[str]) -> str:
    return f"{words} ({', '.join(rest)})" if rest else words


def _of_tool(words: str, trained: TrainingEstimate | None) -> str:
    if trained is None or (tool := trained.tool) is None:
        return words
    return f"{words}, as {tool.of_release(trained.request)}"


def _sharding(
    sent: TrainingRequest, trained: TrainingEstimate, need: Callable[[dict[str, Value]], str | None]
) -> list[Assumption]:
    """Return how several GPUs share the model, where the request leaves that open."""
    workload = trained.workload
    pinned = (sent.framework, sent.trainer, sent.zero_stage, sent.data_parallel, sent.offload)
    if workload.gpus == 1 or any(value is not None for value in pinned):
        return []
    if trained.is_sharded_instead:
        other = need({"framework": "transformers", "zero_stage": 0})
        words = f"parameters sharded over {workload.gpus} GPUs by FSDP"
        rest = [f"a copy on each, DDP: {other}"] if other else []
    elif workload.framework == "transformers" and workload.data_parallel == workload.gpus:
        other = need({"framework": "fsdp", "zero_stage": 3})
        words = f"a copy of the model on each of {workload.gpus} GPUs, DDP"
        rest = [f"sharded by FSDP: {other}"] if other else []
    else:
        return []
    return [Assumption("framework", workload.framework, _with(words, rest))]


def _settings(
    sent: TrainingRequest, trained: TrainingEstimate
) -> Iterator[tuple[str, Value, str, Opposite]]:
    """Yield (field, value, in words, opposite) of the settings that decide most."""
    workload = trained.workload
    kind, loss, optimizer = workload.activation_checkpointing, workload.loss, workload.optimizer
    other = _OFF if kind != "none" else _ON
    if workload.activation_offload and sent.activation_offload is None:
        other = _OFF_ON_GPU
    yield "activation_checkpointing", kind, _CHECKPOINTING[kind], other
    yield ("precision", workload.precision, *_precision(sent, workload))
    if trained.setup.algorithm == "sft":
        yield "loss", loss, _LOSSES.get(loss, loss), _FUSED if loss == "full" else _WHOLE_LOGITS
    other = _ADAMW_8BIT if optimizer == "adamw" else _ADAMW
    yield "optimizer", optimizer, _OPTIMIZERS.get(optimizer, optimizer), other
    other = _SDPA if workload.attention == "eager" else _EAGER
    yield "attention", workload.attention, f"{_KERNELS[workload.attention]} attention", other
    batch = workload.micro_batch_size
    words = "1 sequence a micro-batch" if batch == 1 else f"{batch} sequences a micro-batch"
    yield "micro_batch_size", batch, words, None
    if sent.prompt_length is None and sent.completion_length is None:
        length = workload.sequence_length
        yield ("sequence_length", length, f"{length:,} tokens", None)
    if workload.uses_adapters:
        yield from _of_adapters(workload)


def _of_adapters(workload: TrainingWorkload) -> Iterator[tuple[str, Value, str, Opposite]]:
    """Yield the settings of adapters and of the base that they are trained on, as `_settings`."""
    if workload.method == "qlora":
        stored = workload.quantization or "nf4"
        yield ("quantization", stored, f"the base in {stored}", None)
    if workload.base_precision == "half":
        yield ("base_precision", "half", "what is frozen and not quantized in 16 bit", None)
    targets = workload.lora_targets
    words = targets if isinstance(targets, str) else ",".join(targets)
    yield ("lora_rank", workload.lora_rank, f"adapters of rank {workload.lora_rank}", None)
    yield (
        "lora_targets",
        words,
        "adapters on all linear layers" if words == "all_linear" else f"adapters on {words}",
        None,
    )


def _precision(sent: TrainingRequest, workload: TrainingWorkload) -> tuple[str, Opposite]:
    """Return the precision in words, and its opposite."""
    kind = {"mixed_bf16": "bf16", "mixed_fp16": "fp16"}.get(workload.precision)
    if kind is None or workload.framework in ("deepspeed", "megatron"):
        return workload.precision, None
    why = ", since the GPU has no bf16 arithmetic" if kind == "fp16" else ""
    if workload.uses_adapters and workload.base_precision == "half":
        words = f"{kind} autocast over a base in {kind}{why}"
        if sent.base_precision is None and workload.framework == "transformers":
            return words, ("a base in fp32", {"base_precision": "fp32"})
        return words, None
    if workload.method == "full":
        words = f"{kind} autocast over fp32 weights{why}"
        return words, (f"{kind} alone", {"precision": "bf16"}) if kind == "bf16" else None
    return f"{kind} autocast, what is not quantized in fp32{why}", (
        f"in {kind}",
        {"base_precision": "half"},
    )


def _other_defaults(
    trained: TrainingEstimate, filled: Mapping[str, object], listed: set[str]
) -> list[Assumption]:
    """Return what else a tool takes for settings that the request leaves out."""
    others = list[Assumption]()
    for field, value in filled.items():
        if field in listed:
            continue
        shown = ",".join(value) if isinstance(value, list) else value
        words = str(shown).lower() if isinstance(shown, bool) else str(shown)
        message = _of_tool(f"{field} {words}", trained)
        others.append(Assumption(field, shown, message))  # type: ignore[arg-type]
    return others
