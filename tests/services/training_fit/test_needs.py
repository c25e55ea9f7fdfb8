"""A training question without a GPU is answered with what each method needs."""

import pytest

MODEL = "Qwen/Qwen3-8B"


@pytest.fixture(scope="module")
def answer(train):
    return train(model=MODEL)


def test_it_has_no_verdict_and_nothing_of_a_gpu(answer):
    nothing = (answer.verdict, answer.gpu, answer.per_gpu, answer.terms, answer.limits)
    assert nothing == (None,) * 5
    assert (answer.launch, answer.fit_probability, answer.suggestions) == (None, None, [])
    assert "gpu" not in answer.understood_as


def test_the_needs_are_those_of_one_gpu_by_method(train, answer):
    assert [need.name for need in answer.needs] == ["lora", "qlora", "full"]
    for need in answer.needs:
        on_a_gpu = train(model=MODEL, gpu="B200", **need.request)
        assert on_a_gpu.per_gpu.required_bytes.expected == need.required_bytes.expected


@pytest.mark.parametrize("method", [None, "qlora", "full"])
def test_the_smallest_gpus_fit_when_they_are_asked_about(train, method):
    smallest = train(model=MODEL, method=method, sequence_length=1024).smallest
    reasons = [reason for one in smallest for reason in one.reasons]
    assert sorted(reasons) == ["cheapest", "fastest", "fewest"]
    for one in smallest:
        assert one.name == (method or "lora")
        assert one.request["sequence_length"] == 1024
        again = train(**one.request)
        assert again.verdict == "fits"
        assert again.launch.command == one.command
        assert again.per_gpu.required_bytes.expected == one.required_bytes


def test_degrees_are_ignored_and_said(train, answer):
    ignoring = train(model=MODEL, gpu_count=8, data_parallel=8)
    assert ignoring.needs == answer.needs
    fields = {one.field for one in ignoring.warnings if one.code == "field-ignored"}
    assert fields == {"gpu_count", "data_parallel"}


def test_a_guess_of_the_gpu_is_said_with_the_other_verdict(train):
    answer = train(model=MODEL, gpu="2x 4060 ti", method="qlora")
    (one,) = answer.read_as
    assert f"2 x {answer.gpu.name}" == one.taken
    assert one.verdicts == {"RTX 4060 Ti 8GB": "does_not_fit"}
    assert train(model="7b", gpu="RTX 4090").read_as[0].field == "model"


def test_the_method_that_was_asked_for_comes_first(train):
    for method, words in (("full", "full fine-tuning"), (None, "LoRA")):
        summary = train(model=MODEL, method=method).summary
        assert summary.partition(" GiB with ")[2].startswith(f"{words},")
