"""What is held for images is assumed, and said."""

import pytest


@pytest.mark.parametrize(
    ("engine", "term"),
    [("vllm", "encoder"), ("sglang", "encoder_cache"), ("llama.cpp", "projector")],
)
def test_the_room_for_images_is_assumed(check_fit, engine, term):
    answer = check_fit(model="Qwen/Qwen3-VL-8B-Instruct", gpu="RTX 4090", engine=engine)
    (assumed,) = [one for one in answer.assumed if one.field == "images"]
    assert assumed.value == next(one.bytes for one in answer.terms if one.name == term)


def test_nothing_is_assumed_of_images_for_a_model_without_them(check_fit):
    answer = check_fit(model="Qwen/Qwen3-8B", gpu="RTX 4090")
    assert "images" not in [one.field for one in answer.assumed]
