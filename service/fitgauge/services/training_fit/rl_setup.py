"""Turn a training request into the Setup of its algorithm: fill in the trainer's defaults, refuse
impossible combinations."""

from collections.abc import Iterator

from msgspec.structs import replace

from fitgauge.engine.model.model import Model
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.note import Note
from fitgauge.engine.training.algorithms.setup import (
    NO_ROLLOUT,
    OWN_ROLLOUT,
    REFERRING,
    SAMPLED,
    Algorithm,
    Reference,
    Rollout,
    Setup,
    Trainer,
)
from fitgauge.engine.training.workload import Framework, TrainingWorkload
from fitgauge.errors import InvalidRequestError
from fitgauge.services.common.unsupported import impossible_degrees
from fitgauge.services.training_fit import parsing, rl_parsing
from fitgauge.services.training_fit.launchers.registry import tool_named, tool_of, tool_running
from fitgauge.services.training_fit.launchers.tool import Tool, lacking
from fitgauge.services.training_fit.schemas import TrainingRequest

DEFAULT_PROMPT = 512
DEFAULT_COMPLETION = 512
"""trl/trainer/grpo_config.py, max_completion_length; verl/trainer/config/rollout/rollout.yaml,
prompt_length and response_length."""
_GROUPS: dict[Algorithm, int] = {"grpo": 8, "rloo": 2}
"""trl/trainer/grpo_config.py and rloo_config.py, num_generations."""
_UNDER_MEGATRON = ("sft", "reward", "dpo", "kto", "grpo")
"""swift/megatron/arguments/rlhf_args.py, rlhf_type."""
_ROLLOUT_FIELDS = (
    "rollout_engine",
    "rollout_memory_utilization",
    "rollout_tensor_parallel",
    "rollout_sleep",
)
_SAMPLED_FIELDS = (
    *_ROLLOUT_FIELDS,
    "group_size",
    "prompt_length",
    "completion_length",
    "critic_model",
)


def asked_framework(request: TrainingRequest) -> Framework:
    """Return the framework: the requested one, else the trainer's; DeepSpeed where transformers
    shards or offloads states (transformers integrations/deepspeed.py), FSDP where it shards
    sequences. Raises InvalidRequestError for an unknown one."""
    if hands_over(request):
        return "deepspeed"
    return "fsdp" if cuts_sequences(request) else _named_framework(request)


def hands_over(request: TrainingRequest) -> bool:
    """Return whether transformers' Trainer runs the request by DeepSpeed: ZeRO or offload."""
    divides = bool(request.zero_stage) or request.offload not in (None, "none")
    return divides and _named_framework(request) == "transformers"


def cuts_sequences(request: TrainingRequest) -> bool:
    """Return whether transformers' Trainer runs the request by FSDP2: context parallelism
    (accelerate ParallelismConfig)."""
    return (
        (request.context_parallel or 1) > 1
        and not hands_over(request)
        and _named_framework(request) == "transformers"
    )


def _named_framework(request: TrainingRequest) -> Framework:
    return parsing.framework(request.framework or request.trainer)


def asked_length(request: TrainingRequest) -> int | None:
    """Return sequence_length, or the sum of prompt and completion where either is set or the
    algorithm samples; None where all are unset [tokens]."""
    if request.prompt_length is None and request.completion_length is None:
        sampled = rl_parsing.algorithm(request.algorithm) in SAMPLED
        if sampled and request.sequence_length is None:
            return DEFAULT_PROMPT + DEFAULT_COMPLETION
        return request.sequence_length
    prompt, completion = _lengths(request, 0)
    return prompt + completion


def setup(
    request: TrainingRequest,
    workload: TrainingWorkload,
    spec: ModelSpec,
    teacher: Model | None = None,
) -> Setup:
    """Return the Setup of a request. teacher: the model that it names as `teacher_model`. Raises
    InvalidRequestError for fields that the algorithm does not have."""
    algorithm = rl_parsing.algorithm(request.algorithm)
    trainer = rl_parsing.trainer(request.trainer, request.framework)
    sampled = algorithm in SAMPLED
    if algorithm not in ("sft", "reward") and spec.task != "generate":
        detail = f"{algorithm} needs a model that generates text, which {spec.model_type} does not."
        raise InvalidRequestError(
            detail,
            hint="Send algorithm sft or reward, or a causal language model.",
            field="algorithm",
            code="unsupported",
        )
    _refuse(request, algorithm)
    tool = tool_running(request, algorithm)
    if algorithm == "gkd":
        _refuse_teacher(tool, spec, teacher)
    if workload.framework == "megatron" and trainer == "trl" and algorithm not in _UNDER_MEGATRON:
        raise InvalidRequestError(
            f"ms-swift's Megatron does not train {algorithm}.",
            hint=f"Send framework fsdp{' or trainer verl' if sampled else ''}.",
            field="framework",
            code="unsupported",
        )
    prompt, completion = _lengths(request, workload.sequence_length) if sampled else (0, 0)
    offload = workload.offload if trainer == "verl" else "none"
    rollout = _rollout(request, workload, trainer, spec) if sampled else None
    rests = "nothing" if offload == "none" else "optimizer" if offload == "optimizer" else "all"
    if trainer == "openrlhf" and rollout is not None and rollout.sleep != "off":
        rests = "optimizer"
    return Setup(
        algorithm=algorithm,
        trainer=trainer,
        reference=_reference(request, workload, algorithm),
        teacher=teacher.id if teacher and algorithm == "gkd" else "",
        shards_teacher=tool.shards_teacher or algorithm != "gkd",
        rewarded=_rewarded(request, algorithm, trainer),
        criticized=algorithm == "ppo",
        group_size=request.group_size or _GROUPS.get(algorithm, 1),
        prompt_length=prompt,
        completion_length=completion,
        rollout=rollout,
        rests=rests,  # type: ignore[arg-type]
    )


def understood(request: TrainingRequest, setup: Setup) -> dict[str, str | int | float | bool]:
    """Return the Setup's fields of understood_as."""
    tool, version = tool_of(request), request.trainer_version
    dated: dict[str, str | int | float | bool] = {"trainer_version": version} if version else {}
    if setup.algorithm == "sft":
        return dated if tool is None else {"trainer": tool.name, **dated}
    filled: dict[str, str | int | float | bool] = {
        "algorithm": setup.algorithm, "trainer": tool.name if tool else setup.trainer,
        "reference": setup.reference, **dated,
    }  # fmt: skip
    if setup.teacher:
        filled["teacher_model"] = setup.teacher
        del filled["reference"]
    if setup.sampled:
        filled |= {
            "group_size": setup.group_size,
            "prompt_length": setup.prompt_length,
            "completion_length": setup.completion_length,
        }
        filled["rollout_engine"] = NO_ROLLOUT if setup.rollout is None else setup.rollout.engine
        filled["reward_model"] = (request.reward_model or "policy") if setup.rewarded else "none"
    if setup.criticized:
        filled["critic_model"] = request.critic_model or "policy"
    if setup.rollout is not None and setup.rollout.serves:
        filled["rollout_memory_utilization"] = setup.rollout.memory_utilization
        filled["rollout_tensor_parallel"] = setup.rollout.tensor_parallel
        filled["rollout_sleep"] = setup.rollout.sleep
    return filled


def warnings(
    request: TrainingRequest, setup: Setup, workload: TrainingWorkload, probability: float
) -> Iterator[Note]:
    """Yield warnings about the algorithm."""
    yield from _reference_notes(request, setup, workload)
    yield from _loss_notes(request, setup, workload)
    completions = workload.micro_batch_size * workload.micro_batches * workload.data_parallel
    sent = request.micro_batch_size is not None or request.group_size is not None
    if sent and setup.sampled and setup.trainer == "trl" and completions % setup.group_size:
        yield Note(
            "group-size-uneven",
            "group_size",
            f"{completions} completions of a step are not a multiple of group_size"
            f" {setup.group_size}: one sampling serves several steps (steps_per_generation).",
        )
    if (
        setup.rollout is not None
        and setup.rollout.serves
        and setup.trainer == "trl"
        and setup.rollout.sleep == "off"
    ):
        yield Note(
            "rollout-memory-held",
            "rollout_sleep",
            "The rollout engine keeps its weights and cache while the policy is trained: send"
            " rollout_sleep level_2 to free them.",
        )


def named_model(text: str | None) -> str | None:
    """Return the name of a reward model or critic; None for the policy's architecture, and without
    one."""
    return (
        None if text is None or text.strip().lower() in ("policy", "none", "function", "") else text
    )


def _refuse(request: TrainingRequest, algorithm: Algorithm) -> None:
    if algorithm != "gkd" and request.teacher_model is not None:
        raise InvalidRequestError(
            f"{algorithm} has no teacher_model.",
            hint="Send algorithm gkd, or leave teacher_model out.",
            field="teacher_model",
        )
    if algorithm in SAMPLED:
        if algorithm != "ppo" and request.critic_model is not None:
            raise InvalidRequestError(
                f"{algorithm} has no critic.",
                hint="Send algorithm ppo, or leave critic_model out.",
                field="critic_model",
            )
        return
    for field in (*_SAMPLED_FIELDS, "reward_model"):
        if getattr(request, field) is not None:
            detail = f"{algorithm} samples nothing in training: it has no {field}."
            raise InvalidRequestError(
                detail, hint=f"Send algorithm grpo, rloo or ppo, or leave {field} out.", field=field
            )


def _refuse_teacher(tool: Tool, spec: ModelSpec, teacher: Model | None) -> None:
    """Raise InvalidRequestError without a teacher, and for one whose words are not the student's
    where the tool compares them one by one (trl/experimental/gkd/gkd_trainer.py, __init__;
    ms-swift's swift/rlhf_trainers/gkd_loss.py, _align_vocab, adds what lacks)."""
    if teacher is None:
        raise InvalidRequestError(
            "gkd needs the model that is distilled.",
            hint="Send teacher_model, a Hub ID.",
            field="teacher_model",
        )
    words = (spec.vocabulary_size, teacher.spec.vocabulary_size)
    if tool.name == "trl" and words[0] != words[1]:
        detail = f"TRL distils equal vocabularies alone: {words[0]:,} words from {words[1]:,}."
        hint = "Send trainer ms-swift, which pads them, or a teacher of as many words."
        raise InvalidRequestError(
            detail,
            hint=hint,
            field="teacher_model",
            code="unsupported",
            send={"teacher_model": None, "algorithm": "sft"},
        )


def default_micro_batch(request: TrainingRequest, micro_batches: int, replicas: int) -> int:
    """Return the sequences of a micro-batch where the request leaves them out: 1, or under a tool
    that samples whole groups in every step the completions of one prompt."""
    tool, algorithm = tool_of(request), rl_parsing.algorithm(request.algorithm)
    if tool is None or not tool.samples_whole_groups or algorithm not in SAMPLED:
        return 1
    group = request.group_size or _GROUPS.get(algorithm, 1)
    return 1 if micro_batches * replicas % group == 0 else group


def _lengths(request: TrainingRequest, sequence: int) -> tuple[int, int]:
    """Return (prompt, completion) [tokens]: as requested; the rest of the sequence for the other;
    half each of a short sequence."""
    prompt, completion = request.prompt_length, request.completion_length
    if prompt is not None and completion is not None:
        return prompt, completion
    if not sequence:
        return prompt or DEFAULT_PROMPT, completion or DEFAULT_COMPLETION
    if prompt is not None:
        return prompt, max(1, sequence - prompt)
    if completion is None:
        completion = max(sequence - DEFAULT_PROMPT, sequence // 2, 1)
    return max(1, sequence - completion), completion


def _reference(
    request: TrainingRequest, workload: TrainingWorkload, algorithm: Algorithm
) -> Reference:
    """Return where the reference is: as requested where the tool's command has it there, else by
    the tool's default.

    TRL takes the policy's base where an adapter is trained, else loads a second model
    (trl/trainer/dpo_trainer.py, grpo_trainer.py). GRPO has one where beta is above 0, which it
    is not by default; RLOO's is 0.05. verl has none unless a KL term is turned on
    (trainer/config/ppo_trainer.yaml, use_kl_in_reward), and keeps it in host memory
    (workers/fsdp_workers.py); OpenRLHF's algo.kl.init_coef of 0.01 wants one."""
    requested = rl_parsing.reference(request.reference)
    if algorithm == "gkd" and requested is None:
        return "resident"
    if algorithm not in REFERRING and algorithm not in SAMPLED:
        if requested not in (None, "none"):
            raise InvalidRequestError(
                f"{algorithm} has no reference model.",
                hint="Leave reference out, or send algorithm dpo, kto, ppo, grpo or rloo.",
                field="reference",
            )
        return "none"
    if requested == "adapter" and not workload.uses_adapters:
        raise InvalidRequestError(
            "reference adapter requires adapters: full training changes the base weights.",
            hint="Send reference resident, offloaded or none, or method lora.",
            field="reference",
        )
    tool = tool_running(request, algorithm)
    if requested is None:
        return _default_reference(workload, algorithm, tool.trainer)
    if tool.trainer == "verl" and requested == "resident" and workload.framework == "fsdp":
        return "offloaded"
    if tool.places_reference(requested, workload, algorithm):
        return requested
    return "adapter" if workload.uses_adapters else "resident"


def _default_reference(
    workload: TrainingWorkload, algorithm: Algorithm, trainer: Trainer
) -> Reference:
    has_reference = (
        algorithm in ("dpo", "kto")
        or trainer == "openrlhf"
        or (trainer == "trl" and algorithm in ("ppo", "rloo"))
    )
    if not has_reference:
        return "none"
    if workload.uses_adapters:
        return "adapter"
    return "offloaded" if trainer == "verl" else "resident"


def _loss_notes(request: TrainingRequest, setup: Setup, workload: TrainingWorkload) -> list[Note]:
    if setup.algorithm == "sft" or request.loss in (None, workload.loss):
        return []
    title = tool_running(request, setup.algorithm).title
    message = f"{title} has no {request.loss} loss for {setup.algorithm}: it computes whole logits."
    return [lacking("loss", message)]


def _reference_notes(
    request: TrainingRequest, setup: Setup, workload: TrainingWorkload
) -> list[Note]:
    """Return what the tool's command does with the reference instead of what was requested."""
    requested = rl_parsing.reference(request.reference)
    if setup.trainer == "verl" and setup.reference == "offloaded":
        if requested in (None, "offloaded"):
            return []
        message = "verl's FSDP workers keep the reference in host memory."
        return [Note("reference-offloaded", "reference", message)]
    if requested in (None, setup.reference):
        return []
    tool = tool_running(request, setup.algorithm)
    if requested == "offloaded":
        missing = "keeps the reference in host memory"
    elif tool.computes_reference_first(
        replace(workload, loss="full", kernels="none"), setup.algorithm
    ):
        missing = "computes the reference's log-probabilities beforehand with Liger's loss"
    else:
        missing = "computes the reference's log-probabilities beforehand"
    instead = "has the reference on the GPU"
    if setup.reference == "adapter":
        instead = "takes the frozen base with the adapter off"
    message = f"{tool.title} has no flag that {missing}: the command {instead}."
    return [lacking("reference", message)]


def _rewarded(request: TrainingRequest, algorithm: Algorithm, trainer: Trainer) -> bool:
    """Return whether a reward model is on the GPUs: PPO has one under TRL and OpenRLHF; GRPO and
    RLOO use functions unless one is named."""
    if request.reward_model is not None:
        return request.reward_model.strip().lower() not in ("none", "function")
    return algorithm == "ppo" and trainer != "verl"


def _rollout(
    request: TrainingRequest, workload: TrainingWorkload, trainer: Trainer, spec: ModelSpec
) -> Rollout | None:
    """Return the engine on the GPUs; None where completions are sampled elsewhere."""
    defaults = (tool_of(request) or tool_named(trainer)).rollout
    engine = rl_parsing.rollout_engine(request.rollout_engine) or defaults.engine
    if engine == NO_ROLLOUT:
        return None
    if engine == OWN_ROLLOUT:
        return Rollout(engine=engine, memory_utilization=1.0)
    ranks = request.rollout_tensor_parallel or _dividing(
        defaults.tensor_parallel, workload.gpus, spec
    )
    if workload.gpus % ranks or spec.query_heads % ranks:
        possible = [
            width
            for width in range(1, min(64, workload.gpus) + 1)
            if workload.gpus % width == 0 and spec.query_heads % width == 0
        ]
        detail = (
            f"rollout_tensor_parallel {ranks} does not divide {workload.gpus} GPUs and"
            f" {spec.query_heads} attention heads."
        )
        raise impossible_degrees(
            detail, f"Send {', '.join(map(str, possible))}.", "rollout_tensor_parallel"
        )
    return Rollout(
        engine=engine,
        memory_utilization=request.rollout_memory_utilization or defaults.memory_utilization,
        tensor_parallel=ranks,
        shares_weights=defaults.shares_weights and workload.uses_adapters,
        sleep=rl_parsing.sleep(request.rollout_sleep) or defaults.sleep,
    )


def _dividing(usual: int, gpus: int, spec: ModelSpec) -> int:
    """Return the usual degree where it divides GPUs and heads, else 1."""
    return usual if gpus % usual == 0 and spec.query_heads % usual == 0 else 1
