"""What a training process holds beside PyTorch's tensors, by measurement. Data of the catalog."""

import msgspec

from fitgauge.engine.profile import Coefficient
from fitgauge.engine.training.workload import Framework


class TrainingProfile(msgspec.Struct, frozen=True, kw_only=True):
    """Calibrated on published runs.

    `runtime_bytes`: CUDA context, libraries and their workspaces. `fragmentation`: what the caching allocator reserves beyond what is
    allocated at its peak where memory is plenty, as a share of it, by framework; `fragmentation_least`: what cannot be given back
    where memory is short. `communication_bytes`: buffers of collectives on two ranks or more. `spread`: of what real runs print over
    what is counted, of all but states, for families with a recipe; `spread_assumed` for those without.
    """

    runtime_bytes: Coefficient
    fragmentation: dict[Framework, Coefficient]
    fragmentation_least: Coefficient
    communication_bytes: Coefficient
    spread: Coefficient
    spread_assumed: Coefficient
