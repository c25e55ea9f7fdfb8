"""How to start a plan: the command, and the files it reads."""

from msgspec.structs import replace

from fitgauge.engine.model.model import Model
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.services.common.shell import joined
from fitgauge.services.training_fit.launchers.accelerate import FSDP, accelerate_config
from fitgauge.services.training_fit.launchers.command import (
    SUPERVISED,
    allocator,
    command_of,
    tool_command,
)
from fitgauge.services.training_fit.launchers.deepspeed import DEEPSPEED, deepspeed_config
from fitgauge.services.training_fit.launchers.tool import Tool
from fitgauge.services.training_fit.launchers.trl import script_flags
from fitgauge.services.training_plan.schemas import PlanLaunch


def plan_launch(model: Model, workload: TrainingWorkload, tool: Tool | None) -> PlanLaunch:
    """Return the launch of check_training_fit; under DeepSpeed and FSDP the settings stand in a
    file that `accelerate launch` reads, or in those that a tool's own command writes."""
    if (own := tool_command(tool, model, workload)) is not None:
        return PlanLaunch(command=own, files={})
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
