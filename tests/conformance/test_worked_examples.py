"""The worked examples that everybody quotes, as answers of the API. GB = 10^9 bytes, GiB = 2^30,
B = 10^9 parameters."""

import pytest

GB, GIB = 10**9, 2**30


def weights(answer):
    """Return the bytes of weights on the fullest card."""
    return sum(term["bytes"] for term in answer["terms"] if term["name"] == "weights")


@pytest.mark.parametrize(
    ("number_format", "each"),
    [
        ("fp64", 8),
        ("fp32", 4),
        ("tf32", 4),
        ("fp16", 2),
        ("bf16", 2),
        ("int8", 1),
        ("fp8", 1),
        ("int4", 0.5),
    ],
)
def test_a_parameter_takes_the_bytes_of_its_format(fit, number_format, each):
    assert weights(fit(model="7b", quantization=number_format, gpu="80GB")) == pytest.approx(
        7e9 * each, rel=1e-6
    )


@pytest.mark.parametrize(
    ("number_format", "gib"), [("fp32", 26.08), ("fp16", 13.04), ("int8", 6.52), ("int4", 3.26)]
)
def test_seven_billion_parameters_in_gib(fit, number_format, gib):
    assert weights(fit(model="7b", quantization=number_format, gpu="80GB")) / GIB == pytest.approx(
        gib, abs=0.005
    )


def test_a_model_takes_two_bytes_a_parameter_in_fp16_on_disk_too(service):
    answer = service.get("/v1/models/meta-llama/Llama-2-13b-hf").json()
    assert answer["dtype"] == "F16"
    assert answer["weights_bytes"] == 2 * answer["parameters"] == pytest.approx(26 * GB, rel=0.002)


@pytest.mark.parametrize("billions", [3, 7, 13, 30, 65])
def test_a_model_of_n_billion_takes_two_n_gigabytes_in_fp16(fit, billions):
    assert weights(fit(model=f"{billions}b", quantization="fp16", gpu="1000GB")) == pytest.approx(
        2 * billions * GB, rel=1e-6
    )


def test_seventy_billion_in_int4_run_on_one_a6000_of_48_gb(fit):
    answer = fit(model="70b", quantization="int4", gpu="RTX A6000")
    assert weights(answer) == pytest.approx(35 * GB, rel=1e-6)
    assert answer["verdict"] in ("fits", "tight")


def test_sixty_five_billion_in_fp16_do_not_fit_on_four_v100_of_32_gb(fit):
    answer = fit(
        model="65b", quantization="fp16", gpu="V100 32GB", gpu_count=4, engine="transformers"
    )
    assert sum(rank["terms"][0]["bytes"] for rank in answer["ranks"]) == 130 * GB
    assert answer["verdict"] == "does_not_fit"


def test_sixty_five_billion_in_fp16_fit_on_five_v100_of_32_gb(fit):
    answer = fit(
        model="65b",
        quantization="fp16",
        gpu="V100 32GB",
        gpu_count=5,
        engine="transformers",
        context_length=2048,
    )
    assert answer["verdict"] in ("fits", "tight")


def test_flash_attention_is_named_as_unsupported_on_v100_with_what_to_use_instead(fit):
    answer = fit(
        model="65b", quantization="fp16", gpu="V100 32GB", gpu_count=5, engine="transformers"
    )
    (missing,) = [
        warning
        for warning in answer["warnings"]
        if warning["code"] == "flash-attention-unsupported"
    ]
    assert "sdpa" in missing["message"]


def test_bloom_in_bf16_is_served_by_eight_a100_of_80_gb(fit):
    answer = fit(model="bigscience/bloom", gpu="A100 80GB SXM", gpu_count=8, context_length=2048)
    assert answer["model"]["parameters"] * 2 == pytest.approx(352.5 * GB, rel=0.001)
    assert weights(answer) * 8 == pytest.approx(352.5 * GB, rel=0.001)
    assert answer["verdict"] == "fits"


def test_llm_int8_halves_the_weights_of_bloom(fit):
    whole = weights(fit(model="bigscience/bloom", gpu="1000GB", context_length=2048))
    half = weights(
        fit(model="bigscience/bloom", gpu="1000GB", context_length=2048, quantization="int8")
    )
    assert half / whole == pytest.approx(0.5, abs=0.02)


def test_llm_int8_keeps_outlier_columns_in_16_bit_and_is_said_to_run_15_to_23_percent_slower(fit):
    answer = fit(model="bigscience/bloom", gpu="1000GB", context_length=2048, quantization="int8")
    (slower,) = [warning for warning in answer["warnings"] if warning["code"] == "int8-is-llm-int8"]
    assert "outlier columns stay in 16 bit" in slower["message"]
    assert "15 to 23 %" in slower["message"]


@pytest.mark.parametrize(
    ("number_format", "gpu"), [("int8", "12GB"), ("fp16", "16GB"), ("fp16", "24GB")]
)
def test_six_billion_are_made_for_consumer_cards(fit, number_format, gpu):
    answer = fit(
        model="6b", quantization=number_format, gpu=gpu, engine="transformers", context_length=2048
    )
    assert answer["verdict"] in ("fits", "tight")


@pytest.mark.parametrize("gpu", ["A10", "RTX 4090"])
def test_thirteen_billion_fit_an_a10_and_a_4090_when_they_are_quantized(fit, gpu):
    assert fit(model="13b", quantization="int4", gpu=gpu, context_length=4096)["verdict"] == "fits"
    assert (
        fit(model="13b", quantization="fp16", gpu=gpu, context_length=4096)["verdict"]
        == "does_not_fit"
    )
