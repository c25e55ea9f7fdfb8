"""Images of a training question: what is taken where nothing is said, and what is refused."""

import pytest

from fitgauge.catalog.catalog import bundled
from fitgauge.catalog.engines import load_engines
from fitgauge.catalog.training import load_training
from fitgauge.engine.model.families import read_config
from fitgauge.engine.model.model import Model
from fitgauge.errors import InvalidRequestError
from fitgauge.services.training_fit.schemas import TrainingRequest
from fitgauge.services.training_fit.service import TrainingFitService
from notes import values

TRAINING = TrainingFitService(load_training(), load_engines())
TEXT = {
    "vocab_size": 2000, "hidden_size": 512, "intermediate_size": 1408, "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 2, "max_position_embeddings": 8192,
}  # fmt: skip
QWEN = {
    "model_type": "qwen2_5_vl", **TEXT,
    "vision_config": {"depth": 8, "hidden_size": 320, "intermediate_size": 856, "num_heads": 4,
        "out_hidden_size": 512},
}  # fmt: skip
GEMMA = {
    "model_type": "gemma3", "text_config": {"model_type": "gemma3_text", **TEXT, "head_dim": 64},
    "vision_config": {
        "model_type": "siglip_vision_model", "hidden_size": 320, "intermediate_size": 1280,
        "num_hidden_layers": 4,
        "num_attention_heads": 4, "image_size": 896, "patch_size": 14,
    },
}  # fmt: skip


SMOL = {
    "model_type": "smolvlm", "scale_factor": 4, "text_config": {"model_type": "llama", **TEXT},
    "vision_config": {
        "model_type": "smolvlm_vision", "hidden_size": 320, "intermediate_size": 1280,
        "num_hidden_layers": 4, "num_attention_heads": 4,
        "image_size": 512, "patch_size": 16,
    },
}  # fmt: skip
MLLAMA = {
    "model_type": "mllama", "text_config": {"model_type": "mllama_text_model", **TEXT,
        "cross_attention_layers": [1]},
    "vision_config": {
        "hidden_size": 320, "intermediate_size": 1280, "num_hidden_layers": 4,
        "num_global_layers": 2, "attention_heads": 4,
        "image_size": 560, "patch_size": 14, "vision_output_dim": 640,
    },
}  # fmt: skip


def ask(config, **fields):
    model = Model(id="own/model", spec=read_config(config), source="hub")
    request = TrainingRequest(model="own/model", gpu="A100 80GB", **fields)
    return TRAINING.answer(request, model, bundled().find(request.gpu))


def required(config, **fields):
    return ask(config, **fields).per_gpu.allocated_bytes.expected


def test_a_vision_language_model_is_trained_on_an_image_of_768_pixels_a_side():
    answer = ask(QWEN, method="full")
    understood = {
        name: answer.understood_as[name]
        for name in ("images", "image_tokens", "train_vision_tower")
    }
    assert understood == {"images": 1, "image_tokens": 729, "train_vision_tower": True}
    assert values(answer.assumed)["images"] == 1


def test_a_model_trained_on_text_as_often_sees_no_image_until_one_is_asked_for():
    assert ask(GEMMA).understood_as["images"] == 0
    assert values(ask(GEMMA).assumed)["images"] == 0
    assert "images" not in values(ask(GEMMA, images=0).assumed)
    assert ask(GEMMA, images=1).understood_as["image_tokens"] == 256


@pytest.mark.parametrize(
    ("how", "reached"),
    [
        ({}, False),
        ({"images": 1}, True),
        ({"framework": "deepspeed"}, True),
        ({"framework": "fsdp", "fsdp_version": 2}, False),
        ({"framework": "fsdp", "fsdp_version": 1}, True),
    ],
)
def test_text_alone_gives_a_tower_no_gradients_but_in_flat_buffers(how, reached):
    """Measured: rows of training_own.jsonl with a tower and no images."""
    answer = ask(GEMMA, method="full", gpu_count=1, **how)
    said = [one.message for one in answer.assumed or () if one.field == "images"]
    assert any("Nor are gradients" in message for message in said) is not reached
    frozen = ask(GEMMA, method="full", gpu_count=1, train_vision_tower=False, **how)
    states = [
        sum(term.bytes for term in of.terms if term.name == "optimizer_states")
        for of in (answer, frozen)
    ]
    assert (states[0] > states[1]) is reached


def test_a_processor_that_cuts_images_into_tiles_makes_the_tokens_of_all_of_them():
    assert ask(SMOL).understood_as["image_tokens"] == 17 * 64
    one, all_of_them = required(SMOL, images=1, image_tokens=64), required(SMOL, images=1)
    assert all_of_them > one


def test_images_for_cross_attention_add_no_tokens_and_layers_that_read_them_are_skipped_without():
    answer = ask(MLLAMA, images=1)
    assert answer.understood_as["image_tokens"] == 4 * 1601
    assert values(answer.assumed)["image_tokens"] == 4 * 1601
    assert required(MLLAMA, images=2) > required(MLLAMA, images=1) > required(MLLAMA, images=0)


def test_no_image_is_taken_where_it_is_longer_than_the_sequence():
    assert ask(QWEN, sequence_length=512).understood_as["images"] == 0


@pytest.mark.parametrize(("images", "length"), [(1, 2048), (2, 2048), (4, 4096), (8, 8192)])
def test_a_sequence_whose_length_is_left_out_holds_the_images_that_are_sent(images, length):
    answer = ask(QWEN, images=images)
    assert answer.understood_as["sequence_length"] == length
    with pytest.raises(InvalidRequestError, match="exceed a sequence of 8192"):
        ask(QWEN, images=12)


def test_adapters_leave_the_tower_frozen_and_a_frozen_tower_keeps_nothing():
    assert ask(QWEN, method="lora").understood_as["train_vision_tower"] is False
    adapters = {"method": "lora", "activation_checkpointing": "none"}
    whole = {"method": "full", "activation_checkpointing": "none"}
    frozen = required(QWEN, **adapters, images=2)
    assert required(QWEN, **adapters, images=2, train_vision_tower=True) > frozen
    assert frozen - required(QWEN, **adapters, images=0) < required(
        QWEN, **whole, images=2
    ) - required(QWEN, **whole, images=0)


@pytest.mark.parametrize(
    ("config", "fields", "said"),
    [
        (QWEN, {"images": 4, "image_tokens": 1024, "sequence_length": 4000}, "4096"),
        ({"model_type": "llama", **TEXT}, {"images": 1}, "Leave images out"),
    ],
)
def test_images_that_nothing_could_read_are_refused_with_what_to_send(config, fields, said):
    with pytest.raises(InvalidRequestError) as refused:
        ask(config, **fields)
    assert refused.value.field == "images"
    assert said in (refused.value.hint or "")


@pytest.mark.parametrize(
    ("config", "size", "tokens"),
    [
        (QWEN, "1024x1024", 37 * 37),  # image_processing_qwen2_vl.py, smart_resize
        (QWEN, "1920x1080", 69 * 39),
        (QWEN, "640x480", 23 * 17),
        (GEMMA, "1024x1024", 256),  # resized to 896 x 896 whatever it is
    ],
)
def test_an_image_has_the_tokens_of_its_pixels(config, size, tokens):
    answer = ask(config, image_size=size, sequence_length=4096)
    assert answer.understood_as["image_tokens"] == tokens
    assert answer.understood_as["images"] == 1


def test_a_size_whose_tokens_do_not_follow_is_refused_with_what_to_send():
    for config in (SMOL, TEXT | {"model_type": "llama"}):
        with pytest.raises(InvalidRequestError) as refused:
            ask(config, image_size="1024x1024", sequence_length=4096)
        assert refused.value.field == "image_size"
