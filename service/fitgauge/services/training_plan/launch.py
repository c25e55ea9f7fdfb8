"""How to start a plan: the command, and the files it reads."""

from msgspec.structs import replace

from fitgauge.engine.model.spec import Model
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.services.common.shell import joined
from fitgauge.services.training_fit.launchers import has_command, tool_command
from fitgauge.services.training_fit.launchers.command import SUPERVISED, allocator, command_of
from fitgauge.services.training_fit.launchers.config_files import (
    DEEPSPEED,
    FSDP,
    accelerate_config,
    deepspeed_config,
)
from fitgauge.services.training_fit.launchers.trl import script_flags
from fitgauge.services.training_plan.schemas import PlanLaunch


def plan_launch(model: Model, workload: TrainingWorkload, tool: str | None = None) -> PlanLaunch:
    """Return the launch of check_training_fit; under DeepSpeed and FSDP the settings stand in a
    file that `accelerate launch` reads, or in those that a tool's own command writes."""
    if tool is not None and has_command(tool, model, workload, SUPERVISED):
        return PlanLaunch(command=tool_command(tool, model, workload, SUPERVISED), files={})
    if workload.framework == "deepspeed":
        return PlanLaunch(
            command=joined(command_of(model, workload, SUPERVISED)),
            files={DEEPSPEED: deepspeed_config(workload, indent=2)},
        )
    if workload.framework != "fsdp":
        return PlanLaunch(command=joined(command_of(model, workload, SUPERVISED)), files={})
    in_file = workload.activation_checkpointing == "full"
    script = script_flags(
        model,
        replace(workload, activation_checkpointing="none") if in_file else workload,
        SUPERVISED,
    )
    launcher = ["accelerate", "launch", "--num_processes", workload.gpus, "--config_file", FSDP]
    if workload.gpus > 8:
        launcher += ["--machine_rank", "$NODE_RANK", "--main_process_ip", "$MASTER_ADDR"]
    return PlanLaunch(
        command=joined([*allocator(workload), *launcher, *script]),
        files={FSDP: accelerate_config(workload)},
    )
