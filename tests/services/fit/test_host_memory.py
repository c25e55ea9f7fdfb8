"""host_memory_gib: what is offloaded stays within the machine's memory."""

import asyncio

import pytest

from bundled_models import offline_questions
from fitgauge.engine.quantity import GIB
from fitgauge.errors import InvalidRequestError
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.training_fit.schemas import TrainingRequest


def served(**fields):
    request = FitRequest(model="Qwen/Qwen3-32B", gpu="RTX 4090", **fields)
    return asyncio.run(offline_questions().check_fit(request))[1]


def trained(**fields):
    request = TrainingRequest(model="Qwen/Qwen3-8B", gpu="A100 80GB", method="full", **fields)
    return asyncio.run(offline_questions().check_training_fit(request))[1]


@pytest.mark.parametrize("answered", [served, trained])
def test_no_suggestion_needs_more_than_the_machine_holds(answered):
    offloading = [one.host_memory for one in answered().suggestions if one.host_memory]
    assert offloading
    least = min(host.total_bytes for host in offloading) / GIB
    for size in (least / 2, least + 1):
        hosts = [one.host_memory for one in answered(host_memory_gib=size).suggestions]
        assert all(host.total_bytes <= size * GIB for host in hosts if host)
        assert any(hosts) == (size > least)


def test_what_the_request_offloads_must_be_held():
    with pytest.raises(InvalidRequestError) as refused:
        served(cpu_offload_gib=45, host_memory_gib=32)
    assert (refused.value.code, refused.value.field) == ("conflicting-fields", "host_memory_gib")
    assert served(cpu_offload_gib=45, host_memory_gib=64).host_memory.total_bytes <= 64 * GIB


def test_it_comes_first_where_the_machine_is_named():
    assert served(host_memory_gib=256).suggestions[0].host_memory is not None
    assert served().suggestions[0].host_memory is None


def test_it_is_said_again():
    assert served(host_memory_gib=64).understood_as["host_memory_gib"] == 64
    assert trained(host_memory_gib=64).understood_as["host_memory_gib"] == 64
