"""What a training process holds beside PyTorch's tensors, by measurement. Data of the catalog."""

import msgspec

from fitgauge.engine.profile import Coefficient


class TrainingProfile(msgspec.Struct, frozen=True, kw_only=True):
    """Calibrated on published runs.

    `runtime_bytes`: CUDA context, libraries and their workspaces. `fragmentation`: what the caching allocator reserves beyond what is
    allocated at its peak, as a share of it. `communication_bytes`: buffers of collectives on two ranks or more. `spread`: relative error
    of what is counted for families with a recipe, `spread_assumed` for those without.
    """

    runtime_bytes: Coefficient
    fragmentation: Coefficient
    communication_bytes: Coefficient
    spread: Coefficient
    spread_assumed: Coefficient
