"""What changed in which release of transformers, as far as the memory of training depends on it."""

from typing import Literal

SHARED_LOSS = (4, 46)
"""The first release with one function for the loss of decoders. Source: 4.46.3,
loss/loss_utils.py, ForCausalLMLoss; 4.45.2, models/llama/modeling_llama.py, forward."""
SHIFTED_LABELS = (4, 49)
"""The first release that shifts the labels, not a copy of the logits, and the first whose older
families take the loss of fp32 logits. Source: loss/loss_utils.py, ForCausalLMLoss, 4.48.1 and
4.49.0."""
WHOLE_BASE = (5, 0)
"""The first release that puts a bitsandbytes base whole on the GPU of every process, whatever
shards it then: before, a matrix went to host memory once it was quantized. Source: 4.57.6,
modeling_utils.py, _load_state_dict_into_meta_model; 5.0.0, quantizers/quantizer_bnb_4bit.py,
update_device_map."""
LAST_BY_THE_HOST = "4.57"
OLDER = ("4.45", "4.48")
"""A release of each kind that differs from today's."""

LossCode = Literal["own", "shifted_logits", "shifted_labels"]
"""own: each model's; the others: ForCausalLMLoss, before and since SHIFTED_LABELS."""


def loss_code(version: str | None) -> LossCode:
    """Return which code a release of transformers takes the loss with; today's without one."""
    if version is None:
        return "shifted_labels"
    release = _release(version)
    if release < SHARED_LOSS:
        return "own"
    return "shifted_logits" if release < SHIFTED_LABELS else "shifted_labels"


def loads_base_whole(version: str | None) -> bool:
    """Return whether a release of transformers loads a bitsandbytes base whole on every GPU before
    it is sharded; today's without one."""
    return version is None or _release(version) >= WHOLE_BASE


def _release(version: str) -> tuple[int, ...]:
    parts = version.removeprefix("v").split(".")
    return tuple(int(part) for part in parts[:2] if part.isdecimal())
