"""The models of an algorithm: how each is trained or held, as workloads that the training room
already knows."""

from msgspec.structs import replace

from fitgauge.engine.training.algorithms.setup import Setup
from fitgauge.engine.training.workload import Loss, TrainingWorkload


def policy_workload(workload: TrainingWorkload, setup: Setup) -> TrainingWorkload:
    """Return the step of the policy, or of a reward model: pairs double the batch, the loss is that
    of the algorithm.

    GRPO and RLOO make logits of completions alone (trl/trainer/grpo_trainer.py, logits_to_keep);
    verl makes all. ms-swift's loss under Megatron is compiled
    (swift/megatron/arguments/megatron_args.py, cross_entropy_loss_fusion). Under verl parameters
    and optimizer are on the GPU whenever they are at work (verl/workers/fsdp_workers.py,
    load_fsdp_model_to_gpu)."""
    count = 2 if setup.paired else 1
    completion_logits = None
    if setup.trainer == "trl" and setup.algorithm in ("grpo", "rloo"):
        completion_logits = setup.completion_length + 1
    return replace(
        workload,
        micro_batch_size=count * workload.micro_batch_size,
        loss=_loss(workload, setup),
        logits_tokens=completion_logits,
        compile=workload.compile
        or (
            workload.framework == "megatron"
            and setup.algorithm != "sft"
            and setup.trainer != "verl"
        ),
        offload="none" if setup.trainer == "verl" else workload.offload,
    )


def critic_workload(workload: TrainingWorkload, setup: Setup) -> TrainingWorkload:
    """Return the step of the critic: the same settings, a head of one number in the place of the
    vocabulary's."""
    return replace(policy_workload(workload, setup), loss="none", logits_tokens=None)


def frozen_workload(
    workload: TrainingWorkload, setup: Setup, *, reference: bool
) -> TrainingWorkload:
    """Return how a frozen model is laid out: the policy's degrees and format, nothing of it
    trained.

    TRL shards it where the policy's parameters are sharded, else keeps it whole
    (trl/models/utils.py, prepare_deepspeed: ZeRO-3, else stage 0; prepare_fsdp); it is loaded as
    the policy is (a quantized base too), without adapters. OpenRLHF does the same
    (get_ds_eval_config). What TRL prepares for evaluation alone, a teacher, FSDP does not wrap
    (accelerate/accelerator.py, prepare_model)."""
    stage = 0
    if workload.zero_stage == 3 or workload.framework in ("fsdp", "megatron"):
        stage = workload.zero_stage
    scored: Loss = "chunked" if workload.loss == "chunked" else "log_probs"
    loss: Loss = scored if reference else "none"
    framework = workload.framework
    if framework == "fsdp" and not setup.shards_teacher:
        framework, stage = "transformers", 0
    return replace(
        policy_workload(workload, setup),
        framework=framework,
        lora_targets=(),
        zero_stage=stage,
        activation_checkpointing="full",
        micro_batches=1,
        loss=loss,
    )


def _loss(workload: TrainingWorkload, setup: Setup) -> Loss:
    if setup.algorithm == "reward":
        return "none"
    if workload.loss != "full" or setup.algorithm == "sft" or workload.framework == "megatron":
        return workload.loss
    if setup.algorithm == "gkd":
        return _divergence(workload, setup)
    return "log_probs_in_place" if setup.trainer == "verl" else "log_probs"


def _divergence(workload: TrainingWorkload, setup: Setup) -> Loss:
    """Return the loss of a student: in fp32 where accelerate wraps one of both models
    (accelerator.py, prepare_model, convert_outputs_to_fp32), which it does to neither under FSDP2
    and DeepSpeed, but to a teacher that FSDP does not divide."""
    wraps = workload.framework == "transformers" or (
        workload.framework == "fsdp" and not setup.shards_teacher
    )
    return "divergence_in_fp32" if workload.mixed and wraps else "divergence"
