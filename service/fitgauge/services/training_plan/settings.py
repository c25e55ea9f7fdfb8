"""The fields that check_training_fit is sent for a plan."""

from collections.abc import Sequence

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.model import Model
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.services.training_fit.echo import workload_fields
from fitgauge.services.training_fit.launchers.registry import moved_defaults, tool_of
from fitgauge.services.training_fit.launchers.tool import Default
from fitgauge.services.training_plan.choices import sent_settings
from fitgauge.services.training_plan.schemas import TrainingPlanRequest

Fields = dict[str, str | int | float | bool]


def moved_of(
    request: TrainingPlanRequest, workload: TrainingWorkload, model: Model
) -> tuple[Default, ...]:
    """Return what other releases of a plan's tool take for what the request leaves out."""
    return moved_defaults(sent_settings(request), workload.method, workload.gpus, model.spec)


def plan_settings(
    request: TrainingPlanRequest,
    workload: TrainingWorkload,
    accelerator: Accelerator,
    model: Model,
    moved: Sequence[Default],
) -> Fields:
    """Return the fields of a plan: its workload's, and the tool, without which a base would not be
    loaded as the tool loads it. What the tool's release decides (`moved`) stays open."""
    fields = workload_fields(workload, accelerator, workload.gpus, model)
    tool = tool_of(request)
    if tool is not None:
        fields["trainer"] = tool.name
    if request.trainer_version is not None:
        fields["trainer_version"] = request.trainer_version
    open_fields = {default.field for default in moved if tool is not None}
    return {name: value for name, value in fields.items() if name not in open_fields}
