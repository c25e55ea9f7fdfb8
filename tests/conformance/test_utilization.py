"""The worked examples of utilization, as answers of the API."""

import gzip
import json

import pytest

from notes import codes


@pytest.fixture
def utilization(service):
    """POST /v1/utilization with these fields."""
    return lambda **question: service.post("/v1/utilization", json=question)


def test_a_hundred_achieved_tflops_of_312_are_an_mfu_of_32_05_percent(utilization):
    answer = utilization(achieved_tflops=100, gpu="A100 80GB", precision="fp16").json()
    assert round(answer["mfu"], 4) == 0.3205
    assert "32.05" in answer["summary"]


def test_three_examples_of_2048_tokens_on_four_gpus_are_46_5_percent_of_3300_published_tokens(
    utilization,
):
    fields = {"samples_per_second": 3, "sequence_length": 2048, "published_tokens_per_second": 3300}
    answer = utilization(gpu="A100 80GB", gpu_count=4, **fields).json()
    assert answer["tokens_per_second_per_gpu"] == 1536
    assert round(100 * answer["fraction_of_published"], 1) == 46.5


@pytest.mark.parametrize(
    "question",
    [
        {"gpu": "H100", "achieved_tflops": 400},
        {
            "gpu": "8xH100",
            "model": "7b",
            "tokens_per_second": 80_000,
            "zero_stage": 3,
            "interconnect_gbps": 32,
        },
        {
            "gpu": "8xH100",
            "model": "7b",
            "mfu": 0.4,
            "token_budget": 2e12,
            "price_per_gpu_hour": 2.5,
        },
        {
            "gpu": "T4",
            "model": "7b",
            "samples_per_second": 2,
            "sequence_length": 512,
            "precision": "fp16",
        },
    ],
    ids=str,
)
def test_what_was_understood_is_a_question_with_the_same_answer(utilization, question):
    first = utilization(**question).json()
    again = utilization(**first["understood_as"]).json()
    names = ("summary", "mfu", "budget", "communication", "advice", "understood_as")
    assert {name: again[name] for name in names} == {name: first[name] for name in names}


def test_throughput_and_a_model_give_the_mfu(utilization):
    answer = utilization(gpu="A100 80GB", gpu_count=4, tokens_per_second=6144, model="7b").json()
    assert answer["mfu"] == pytest.approx(1536 * answer["flops"]["model_flops_per_token"] / 312e12)


def test_two_figures_that_disagree_are_named(utilization):
    """1,000 tokens/s x (6 x 7e9 + 12 x 28 layers x 3584 x 2048 tokens) are 44.47 TFLOPS."""
    asked = {"gpu": "A100 80GB", "model": "7b", "tokens_per_second": 1000}
    conflict = ("throughput-conflict", "achieved_tflops")
    differing = utilization(**asked, achieved_tflops=100).json()["warnings"]
    assert conflict in codes(differing)
    assert any("44.47 TFLOPS" in warning["message"] for warning in differing)
    assert conflict not in codes(utilization(**asked, achieved_tflops=45).json()["warnings"])


def test_a_token_budget_has_time_and_cost(utilization):
    budget = utilization(
        gpu="8xH100", model="7b", mfu=0.4, token_budget=1e12, price_per_gpu_hour=2
    ).json()["budget"]
    assert budget["gpu_hours"] == pytest.approx(budget["seconds"] * 8 / 3600)
    assert budget["cost"] == pytest.approx(2 * budget["gpu_hours"])


def test_zero_3_over_pcie_gets_the_advice_that_it_is_bound_by_communication(utilization):
    fields = {"model": "7b", "tokens_per_second": 9000, "zero_stage": 3, "micro_batch_size": 1}
    over_pcie = utilization(gpu="8x A100 80GB PCIe", **fields).json()
    over_nvlink = utilization(gpu="8x A100 80GB SXM", **fields).json()
    assert over_pcie["communication"]["ratio"] > 1 > over_nvlink["communication"]["ratio"]
    assert "PCIe" in over_pcie["advice"][0]
    assert not any("Communication" in line for line in over_nvlink["advice"])


@pytest.mark.parametrize(
    ("question", "field"),
    [
        ({"gpu": "A100 80GB"}, "achieved_tflops"),
        ({"gpu": "80GB", "achieved_tflops": 100}, "peak_tflops"),
        ({"gpu": "V100 32GB", "achieved_tflops": 100, "precision": "bf16"}, "precision"),
        ({"gpu": "A100 80GB", "achieved_tflops": 100, "precision": "fp8"}, "precision"),
        ({"gpu": "A100 80GB", "achieved_tflops": 100, "precision": "fp32"}, "precision"),
        ({"gpu": "A100 80GB", "achieved_tflops": 100, "token_budget": 1e9}, "model"),
        ({"gpu": "A100 80GB", "achieved_tflops": 100, "zero_stage": 3}, "model"),
        ({"gpu": "A100 80GB", "achieved_tflops": 100, "zero_stage": 3, "model": "7b"}, "gpu_count"),
        (
            {"gpu": "A100 80GB", "tokens_per_second": 1, "samples_per_second": 1},
            "samples_per_second",
        ),
    ],
)
def test_what_nobody_can_look_up_is_refused_with_what_to_send(utilization, question, field):
    response = utilization(**question)
    assert response.status_code == 422
    assert response.json()["field"] == field
    assert response.json()["hint"]


def trace(*events):
    kernels = [
        {
            "ph": "X",
            "cat": "kernel",
            "name": name,
            "ts": start,
            "dur": length,
            "args": {"device": 0},
        }
        for name, start, length in events
    ]
    return json.dumps(
        {"deviceProperties": [{"id": 0, "name": "NVIDIA A100-SXM4-80GB"}], "traceEvents": kernels}
    ).encode()


GATHERING = trace(
    ("sm80_xmma_gemm_bf16", 0, 30),
    ("ncclDevKernel_AllGather_RING_LL", 20, 70),
    ("elementwise_kernel", 95, 5),
)


@pytest.mark.parametrize(
    ("media", "data"),
    [
        ("application/gzip", gzip.compress(GATHERING)),
        ("application/x-gzip", gzip.compress(GATHERING)),
        ("application/octet-stream", GATHERING),
    ],
    ids=["gzip", "x-gzip", "plain"],
)
def test_an_uploaded_trace_says_where_the_time_goes_and_what_to_change(service, media, data):
    response = service.post("/v1/utilization", content=data, headers={"Content-Type": media})
    assert response.status_code == 200, response.text
    answer = response.json()
    shares = answer["trace"]
    assert shares["communication_share"] == pytest.approx(0.7)
    assert shares["exposed_communication_share"] == pytest.approx(0.6)
    assert shares["idle_share"] == pytest.approx(0.05)
    assert shares["tensor_core_share"] == pytest.approx(30 / 105)
    assert answer["gpu"]["name"].startswith("A100")
    assert "ZeRO-2" in answer["advice"][0]


@pytest.mark.parametrize(
    "data",
    [b"", b"nothing of the kind", b"\x1f\x8bgarbage", gzip.compress(b"{}"), trace()],
    ids=["empty", "text", "cut short", "no events", "no steps"],
)
def test_what_is_no_trace_is_refused_with_what_to_send(service, data):
    response = service.post(
        "/v1/utilization", content=data, headers={"Content-Type": "application/gzip"}
    )
    assert response.status_code == 422
    assert response.json()["hint"]


def test_a_question_may_not_be_as_large_as_a_trace(service):
    response = service.post(
        "/v1/utilization", content=b" " * 100_000, headers={"Content-Type": "application/json"}
    )
    assert response.status_code == 413
