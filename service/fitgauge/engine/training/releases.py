"""What changed in which release of transformers, as far as the memory of training depends on it."""

from typing import Literal

SHARED_LOSS = (4, 46)
"""The first release with one function for the loss of decoders. Source: 4.46.3,
loss/loss_utils.py, ForCausalLMLoss; 4.45.2, models/llama/modeling_llama.py, forward."""
SHIFTED_LABELS = (4, 49)
"""The first release that shifts the labels, not a copy of the logits, and the first whose older
families take the loss of fp32 logits. Source: loss/loss_utils.py, ForCausalLMLoss, 4.48.1 and
4.49.0."""
OLDER = ("4.45", "4.48")
"""A release of each kind that differs from today's."""

LossCode = Literal["own", "shifted_logits", "shifted_labels"]
"""own: each model's; the others: ForCausalLMLoss, before and since SHIFTED_LABELS."""


def loss_code(version: str | None) -> LossCode:
    """Return which code a release of transformers takes the loss with; today's without one."""
    if version is None:
        return "shifted_labels"
    parts = version.removeprefix("v").split(".")
    release = tuple(int(part) for part in parts[:2] if part.isdecimal())
    if release < SHARED_LOSS:
        return "own"
    return "shifted_logits" if release < SHIFTED_LABELS else "shifted_labels"
