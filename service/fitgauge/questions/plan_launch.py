"""How to start a plan: the command, and the files it reads."""

from fitgauge.engine.architecture import Model
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.questions.launch_files import accelerate_config, deepspeed_config
from fitgauge.questions.plan_schemas import PlanLaunch
from fitgauge.questions.training_launch import launch_command

_DEEPSPEED, _ACCELERATE = "ds_config.json", "fsdp.yaml"


def plan_launch(model: Model, workload: TrainingWorkload) -> PlanLaunch:
    """The launch of check_training_fit; under DeepSpeed and FSDP the settings stand in a file that `accelerate launch` reads."""
    command = launch_command(model, workload)
    if workload.framework == "deepspeed":
        flags, text = f"--use_deepspeed --deepspeed_config_file {_DEEPSPEED}", deepspeed_config(workload, indent=2)
        return PlanLaunch(command=_with_file(command, flags), files={_DEEPSPEED: text})
    if workload.framework == "fsdp":
        return PlanLaunch(command=_with_file(command, f"--config_file {_ACCELERATE}"), files={_ACCELERATE: accelerate_config(workload)})
    return PlanLaunch(command=command, files={})


def _with_file(command: str, flags: str) -> str:
    """`accelerate launch` with a file in the place of its own flags; the script's flags stay."""
    launcher, _, script = command.partition(" -m ")
    count = launcher.split("--num_processes ")[1].split(" ")[0]
    return f"accelerate launch --num_processes {count} {flags} -m {script}"
