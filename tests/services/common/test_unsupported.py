"""How the services say what the engine does not support."""

import asyncio

import pytest

from fitgauge.engine.unsupported import Alternative, UnsupportedError, nearest
from fitgauge.errors import InvalidRequestError
from fitgauge.services.common.unsupported import as_invalid_request, hint, to_send


@pytest.mark.parametrize(
    ("alternatives", "hinted", "sent"),
    [
        ((), "Send another engine.", {}),
        (({"zero_stage": (1, 0)},), "Send zero_stage 0 or 1.", {"zero_stage": 1}),
        (
            ({"zero_stage": (1,)}, {"framework": ("fsdp", "deepspeed")}),
            "Send zero_stage 1, or framework fsdp or deepspeed.",
            {"zero_stage": 1},
        ),
        (
            ({"framework": ("deepspeed",), "zero_stage": (3,)}, {"offload": (None,)}),
            "Send framework deepspeed with zero_stage 3, or leave offload out.",
            {"framework": "deepspeed", "zero_stage": 3},
        ),
        (
            ({"offload": (None,)}, {"sequence_parallel": (True,)}),
            "Leave offload out, or send sequence_parallel true.",
            {"offload": None},
        ),
        (
            ({"method": ("lora",), "quantization": (None,)},),
            "Send method lora with no quantization.",
            {"method": "lora", "quantization": None},
        ),
    ],
)
def test_alternatives_become_a_hint_and_fields_to_send(
    alternatives: tuple[Alternative, ...], hinted: str, sent: dict[str, object]
) -> None:
    error = UnsupportedError("engine", "It does not run.", alternatives)
    assert hint(error) == hinted
    assert to_send(error) == sent


def test_of_many_values_the_nearest_twelve_are_named_in_order() -> None:
    values = nearest(range(1, 200), 100)
    error = UnsupportedError("gpu_count", "Too many.", ({"gpu_count": values},))
    assert values[:3] == (100, 99, 101)
    assert hint(error) == ("Send gpu_count 94, 95, 96, 97, 98, 99, 100, 101, 102, 103, 104 or 105.")


def test_what_the_engine_refuses_leaves_the_services_as_an_error_of_the_request() -> None:
    @as_invalid_request
    async def answer() -> None:
        raise UnsupportedError(
            "quantization", "Unknown.", ({"quantization": ("fp8",)},), matches=("fp8",)
        )

    with pytest.raises(InvalidRequestError) as refused:
        asyncio.run(answer())
    assert refused.value.field == "quantization"
    assert refused.value.matches == ("fp8",)
    assert refused.value.send == {"quantization": "fp8"}
