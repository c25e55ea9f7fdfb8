"""What was guessed stands in `read_as`, with the verdicts that another reading would have."""

import pytest

LLAMA = "meta-llama/Llama-3.3-70B-Instruct"


def reading(answer, field="gpu"):
    (one,) = [one for one in answer.read_as if one.field == field]
    return one


def test_plain_names_are_no_guess(check_fit):
    assert check_fit(model="Qwen/Qwen3-8B", gpu="RTX 4090").read_as == []


@pytest.mark.parametrize(
    "fields, other",
    [
        ({"model": "100b", "gpu": "M2 Ultra", "quantization": "4bit"}, "Apple M2 Ultra 64GB"),
        ({"model": "Qwen/Qwen3-8B", "gpu": "v100"}, "V100 16GB"),
        ({"model": "Qwen/Qwen3-32B", "gpu": "a100"}, "A100 40GB SXM"),
    ],
)
def test_a_smaller_variant_that_does_not_do_is_said(check_fit, fields, other):
    answer = check_fit(settings="auto", **fields)
    one = reading(answer)
    assert answer.verdict == "fits"
    assert one.sent == fields["gpu"]
    assert one.taken == f"1 x {answer.gpu.name}"
    assert one.changes_verdict
    assert one.verdicts[other] != "fits"
    assert other in one.others
    assert other in answer.summary
    again = check_fit(settings="auto", **{**fields, "gpu": other})
    assert again.verdict == one.verdicts[other]


def test_a_variant_with_the_same_verdict_changes_nothing(check_fit):
    one = reading(check_fit(model="Qwen/Qwen3-0.6B", gpu="a100", settings="auto"))
    assert one.changes_verdict is False
    assert set(one.verdicts.values()) <= {"fits"}
    assert "A100 40GB SXM" in one.others


def test_a_size_on_the_box_names_the_cards_that_give_less(check_fit):
    question = {"model": LLAMA, "quantization": "awq", "settings": "auto", "context_length": 9216}
    answer = check_fit(gpu="48GB", **question)
    same = check_fit(gpu="RTX A6000", **question)
    assert answer.verdict == same.verdict == "fits"
    one = reading(answer)
    assert one.changes_verdict
    assert any("A40" in name for name in one.verdicts)


def test_a_model_size_says_whose_shape_it_has(check_fit):
    one = reading(check_fit(model="7b", gpu="RTX 4090"), "model")
    assert one.sent == "7b"
    assert "Qwen2.5-7B" in one.taken


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("deepseek-r1:671b", "deepseek-ai/DeepSeek-R1 in Q4_K_M fits on 8 x A100"),
        ("Qwen/Qwen3-32B-AWQ", "Qwen/Qwen3-32B-AWQ fits on 8 x A100"),  # its id says it
        ("Qwen/Qwen3-32B", "Qwen/Qwen3-32B fits on 8 x A100"),
    ],
)
def test_the_first_words_say_a_format_that_the_id_does_not(check_fit, model, said):
    assert check_fit(model=model, gpu="8x A100 80GB").summary.startswith(said)
