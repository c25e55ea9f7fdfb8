"""What a training tool's own file says of it: its defaults, the algorithms and settings that it
runs, and its command."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from fitgauge.engine.model.model import Model
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.note import Note
from fitgauge.engine.training.algorithms.setup import (
    OWN_ROLLOUT,
    Algorithm,
    Reference,
    RolloutEngine,
    Setup,
    Sleep,
    Trainer,
)
from fitgauge.engine.training.states.checkpoint_files import Writer
from fitgauge.engine.training.workload import Framework, TrainingWorkload
from fitgauge.services.training_fit.launchers.run_settings import RunNames
from fitgauge.services.training_fit.launchers.words_as_files import FilesOf
from fitgauge.services.training_fit.schemas import TrainingRequest

Value = str | int | float | bool | list[str]
WordsOf = Callable[[Model, TrainingWorkload, Setup], list[object]]
"""The words of a command."""
NotesOf = Callable[[Model, TrainingWorkload, Setup], Iterable[Note]]
"""Settings that a command has no flag for, each by `lacking`."""
ADAPTERS = ("lora", "dora", "qlora")
SUPERVISED: tuple[Algorithm, ...] = ("sft",)
PREFERENCE = frozenset({"sft", "reward", "dpo", "kto", "orpo", "simpo"})
"""Algorithms that sample nothing in training."""


def word_of(text: str) -> str:
    """Return a name in the form it is looked up by: lower-case letters and digits."""
    return re.sub(r"[^a-z0-9]", "", text.lower())


def lacking(field: str, message: str) -> Note:
    """Return the warning of a setting that a command has no flag for."""
    return Note("command-lacks-flag", field, message)


@dataclass(frozen=True, slots=True)
class Change:
    """When a default of a tool changed."""

    day: tuple[int, int, int]
    """Year, month and day of the commit."""
    release: tuple[int, ...] = ()
    """The first release with it; empty where the tool names its releases by their date."""

    def came_after(self, version: str) -> bool:
        """Return whether a version of the tool, a release or a date, is from before it; of a number
        that no release of the tool has, False."""
        parts = tuple(int(part) for part in re.findall(r"\d+", version)[:3])
        return parts < (self.day if parts[:1] >= (_FIRST_YEAR,) else self.release)


_FIRST_YEAR = 2000
"""The least first number of a version that is a date."""


@dataclass(frozen=True, slots=True)
class Default:
    """The value a tool takes for a field that the request leaves out."""

    field: str
    """The field of the request."""
    value: Value
    """The value that the tool takes."""
    source: str
    """File and name in the tool's repository."""
    methods: tuple[str, ...] = ()
    """Methods it applies to; empty for all."""
    gpus: Literal["any", "one", "several"] = "any"
    """On how many GPUs it applies."""
    parameters: float = 0
    """Least size of the model [parameters]."""
    algorithms: tuple[Algorithm, ...] = ()
    """Algorithms it applies to; empty for all."""
    accumulates: bool = True
    """With several micro-batches too."""
    families: tuple[str, ...] = ()
    """Model types it applies to; empty for all."""
    checkpointed: bool = False
    """Not to a request without activation checkpointing."""
    divided: bool = False
    """To a request with tensor parallelism only."""
    kernels: str | None = None
    """To a request with these kernels only."""
    without_experts: bool = False
    """Not to a request for adapters on routed experts, which PEFT has without dropout alone."""
    compiled: bool = False
    """To a request with torch.compile only."""
    dense: bool = False
    """To models without routed experts only."""
    since: Change | None = None
    """Of the releases from this change on."""
    until: Change | None = None
    """Of the releases before this change."""
    spanned: bool = False
    """Whether it is within the interval of a request that names no release: where releases that
    people still run have it, it moves the estimate by much, and no term spans it."""

    def is_of(self, version: str) -> bool:
        """Return whether a version of the tool has it."""
        return (self.since is None or not self.since.came_after(version)) and (
            self.until is None or self.until.came_after(version)
        )

    def applies(self, request: TrainingRequest, method: str, count: int, spec: ModelSpec) -> bool:
        """Return whether it applies to a request of this method, on `count` GPUs, for this
        model."""
        return (
            (self.gpus == "any" or (self.gpus == "several") == (count > 1))
            and (not self.methods or method in self.methods)
            and (not self.algorithms or word_of(request.algorithm or "sft") in self.algorithms)
            and spec.parameters >= self.parameters
            and (not self.families or spec.model_type in self.families)
            and (self.accumulates or (request.micro_batches or 1) == 1)
            and not (self.checkpointed and request.activation_checkpointing == "none")
            and not (self.divided and (request.tensor_parallel or 1) == 1)
            and self.kernels in (None, word_of(request.kernels or ""))
            and not (self.without_experts and request.lora_experts and spec.routed_experts)
            and not (self.compiled and not request.compile)
            and not (self.dense and spec.routed_experts)
        )


@dataclass(frozen=True, slots=True)
class RolloutDefaults:
    """How a tool samples completions on the GPUs that train; as TRL does (use_vllm False,
    vllm_enable_sleep_mode False; trl/trainer/grpo_config.py, vllm_gpu_memory_utilization)."""

    engine: RolloutEngine = OWN_ROLLOUT
    """What samples."""
    memory_utilization: float = 0.3
    """Share of the GPU that a rollout engine takes."""
    sleep: Sleep = "off"
    """What the engine gives back while the policy trains."""
    tensor_parallel: int = 1
    """GPUs that share the engine's layers."""
    shares_weights: bool = False
    """Whether adapters are trained on the weights that the engine reads."""
    batched_tokens: int | None = 4096
    """trl/generation/vllm_generation.py; None leaves it to vLLM."""


@dataclass(frozen=True, slots=True, eq=False)
class Launcher:
    """The command of a framework, for tools without one of their own."""

    title: str
    """The framework, as it calls itself."""
    command: WordsOf
    """The words of the command."""
    unsupported: NotesOf
    """Settings that the command has no flag for."""
    run_names: RunNames | None = None
    """Its names of how long it trains and when it saves."""
    files: FilesOf | None = None
    """Its command as files that it reads."""


FUSED_FROM = "transformers/training_args.py, default_optim: adamw_torch_fused from torch 2.8 on"
"""Of tools that leave the optimizer to transformers' Trainer."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Tool:
    """A training tool: one row, in the tool's own file."""

    name: str
    """The name in a request."""
    title: str
    """As the tool calls itself."""
    version: str
    """Whose source was read."""
    framework: Framework
    """What trains under it."""
    framework_on_several: Framework | None = None
    """On more than one GPU, where that differs."""
    shards_with: tuple[Framework, ...] = ()
    """What divides states under it on several GPUs, besides `framework`."""
    aliases: tuple[str, ...] = ()
    """Names that no sentence has, in the form of `word_of`."""
    phrases: tuple[str, ...] = ()
    """What means it in a sentence, in small letters; no name of a model too."""
    sign: re.Pattern[str] | None = None
    """What only its own text has: its command, its files of settings, its scripts."""
    defaults: tuple[Default, ...] = ()
    """Of rows for one field the first that applies counts."""
    moved: tuple[Default, ...] = ()
    """Defaults of some releases alone, each with `since` or `until`: taken where the request names
    such a release."""
    command: Callable[[Model, TrainingWorkload, Setup], str] | None = None
    """The whole command, with the files it reads."""
    files: FilesOf | None = None
    """Its command as files that it reads in place of flags."""
    algorithms: frozenset[str] = frozenset({"sft"})
    """Algorithms that `command` runs."""
    supports: Callable[[TrainingWorkload], bool] = lambda workload: True
    """Whether `command` can carry these settings."""
    unsupported: NotesOf = lambda model, workload, setup: []
    """Of the settings that `command` carries otherwise."""
    sampling_command: WordsOf | None = None
    """Of ppo, grpo and rloo, where it is another one."""
    trainer: Trainer = "trl"
    """Whose preference and RL training it runs."""
    rollout: RolloutDefaults = RolloutDefaults()
    """How it samples completions."""
    placeholders: str = ""
    """Words of the command that the user replaces by names the tool has for the model."""
    kernels: str | None = None
    """Kernels that only it runs."""
    sets_allocator: bool = False
    """It sets expandable_segments by itself."""
    samples_whole_groups: bool = False
    """It raises a micro-batch to the completions of one prompt where a step samples no whole
    groups."""
    run_names: RunNames | None = None
    """Its command's names of how long it trains and when it saves."""
    writer: Writer = "trainer"
    """Whose code writes its checkpoints."""
    steps_under_deepspeed: bool = False
    """Its DeepSpeed configurations name no optimizer, so transformers' Trainer makes it."""
    selective: bool = False
    """Its command has a flag for selective activation checkpointing."""
    packs: bool = False
    """Its command packs samples."""
    shards: bool = True
    """It divides states over GPUs; else every process has a copy."""
    trains_whole: bool = False
    """It trains all weights where its settings name no adapters."""
    steps_in_backward: bool = False
    """Its command has a flag for optimizer_in_backward."""
    computes_reference_first: Callable[[TrainingWorkload, Algorithm], bool] = lambda *_: False
    """Whether its command computes the reference's log-probabilities before this algorithm's
    training."""
    fuses_loss: frozenset[Algorithm] = frozenset({"sft"})
    """Algorithms whose loss its command fuses with the head; others have whole logits."""
    chunks_loss: frozenset[Algorithm] = frozenset()
    """Algorithms besides sft whose loss it takes in chunks."""
    applies_expert_adapters: bool = False
    """It applies adapters of experts to the tokens instead of adding them to the weights."""
    loads_by_transformers: bool = False
    """Its command loads a quantized base by transformers' from_pretrained, of release 5 too."""
    offloads_reference: bool = False
    """Its command keeps a reference in host memory."""
    shards_teacher: bool = False
    """FSDP divides the teacher that it distils."""

    @property
    def words(self) -> tuple[str, ...]:
        """Its name, phrases and aliases, in the form they are looked up by."""
        return (*map(word_of, (self.name, *self.phrases)), *self.aliases)

    def framework_on(self, count: int) -> Framework:
        """Return the framework under it on `count` GPUs."""
        return (self.framework_on_several or self.framework) if count > 1 else self.framework

    def places_reference(
        self, reference: Reference, workload: TrainingWorkload, algorithm: Algorithm
    ) -> bool:
        """Return whether its command has the reference of an algorithm there."""
        if reference == "offloaded":
            return self.offloads_reference
        if reference != "none" or algorithm in ("grpo", "rloo") or self.trainer != "trl":
            return True
        return self.computes_reference_first(workload, algorithm)

    def defaults_for(
        self, request: TrainingRequest, method: str, count: int, spec: ModelSpec
    ) -> Iterator[Default]:
        """Yield its defaults for the fields that are left out, one row a field, in the release that
        the request names."""
        filled, version = set[str](), request.trainer_version
        dated = [] if version is None else [row for row in self.moved if row.is_of(version)]
        for default in (*dated, *self.defaults):
            left_out = getattr(request, default.field) is None and default.field not in filled
            if left_out and default.applies(request, method, count, spec):
                filled.add(default.field)
                yield default

    def moved_for(
        self, request: TrainingRequest, method: str, count: int, spec: ModelSpec
    ) -> tuple[Default, ...]:
        """Return what other releases take for the fields that are left out, as far as it is within
        the interval; empty where the request names the release."""
        if request.trainer_version is not None:
            return ()
        return tuple(
            row
            for row in self.moved
            if row.spanned
            and getattr(request, row.field) is None
            and row.applies(request, method, count, spec)
        )

    def of_release(self, request: TrainingRequest) -> str:
        """Return its name, with the release that the request names, else the one that was read."""
        return f"{self.title} {request.trainer_version or self.version}"

    def runs(self, model: Model, workload: TrainingWorkload, setup: Setup) -> bool:
        """Return whether it has a command of its own for this training."""
        return (
            self.command is not None
            and (workload.framework == "megatron") == (self.framework == "megatron")
            and model.spec.task == "generate"
            and setup.algorithm in self.algorithms
            and self.supports(workload)
        )
