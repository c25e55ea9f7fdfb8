"""check_training_fit about distillation: where the teacher is, what the loss of both distributions
takes, and the command."""

import pytest

from fitgauge.engine.quantity import GIB
from fitgauge.errors import InvalidRequestError
from fitgauge.services.training_fit.tool_settings import tool_settings

ASKED = {"model": "Qwen/Qwen3-4B", "teacher_model": "Qwen/Qwen3-32B", "gpu": "8x H100"}
VOCABULARY, TOKENS, TEACHER = 151936, 2048, 32_762_123_264
FULL = {"method": "full", "precision": "mixed_bf16"}


def size(answer, name):
    return sum(term.bytes for term in answer.terms if term.name == name)


def test_a_teacher_makes_a_question_one_of_distillation_and_is_in_its_answer(train):
    answer = train(**ASKED)
    assert answer.understood_as["algorithm"] == "gkd"
    assert answer.understood_as["teacher_model"] == "Qwen/Qwen3-32B"
    assert "Qwen/Qwen3-32B" in answer.summary
    assert "--teacher_model_name_or_path Qwen/Qwen3-32B" in answer.launch.command


@pytest.mark.parametrize(
    ("sent", "bytes_of_parameter"),
    [
        # trl/models/utils.py, prepare_deepspeed: ZeRO-3 divides it
        ({"framework": "deepspeed", "zero_stage": 3, **FULL}, 2 / 8),
        ({"framework": "deepspeed", "zero_stage": 2, **FULL}, 2),
        # accelerate/accelerator.py, prepare_model with evaluation_mode
        ({"framework": "fsdp", "method": "full", "precision": "bf16"}, 2),
        ({"trainer": "ms-swift", "framework": "fsdp", "method": "full"}, 2 / 8),
        ({"method": "lora"}, 2),
    ],
    ids=str,
)
def test_a_teacher_is_divided_where_the_tool_divides_it(train, sent, bytes_of_parameter):
    weights = size(train(**ASKED, **sent), "teacher_weights")
    assert weights == pytest.approx(TEACHER * bytes_of_parameter, rel=0.01)


def test_a_teacher_has_no_adapters(train):
    small, large = (
        size(train(**ASKED, method="lora", lora_rank=rank), "teacher_weights") for rank in (8, 256)
    )
    assert small == large == 2 * TEACHER


@pytest.mark.parametrize(
    ("sent", "width"),
    [
        ({"method": "lora"}, 4),  # accelerate returns fp32 logits
        ({"framework": "deepspeed", "zero_stage": 3, **FULL}, 2),
    ],
    ids=str,
)
def test_the_loss_holds_both_distributions_seventeen_times(train, sent, width):
    """trl/experimental/gkd/gkd_trainer.py, generalized_jsd_loss."""
    asked = ASKED | {"teacher_model": "Qwen/Qwen3-8B"} | sent
    bytes_of = {tokens: train(**asked, sequence_length=tokens) for tokens in (TOKENS, 2 * TOKENS)}
    grown = size(bytes_of[2 * TOKENS], "activations") - size(bytes_of[TOKENS], "activations")
    assert grown == pytest.approx(17 * TOKENS * VOCABULARY * width, rel=0.06)


def test_zero_3_gathers_the_student_that_samples(train):
    """trl/models/utils.py, unwrap_model_for_generation."""
    answer = train(**ASKED, framework="deepspeed", zero_stage=3, **FULL)
    (phase,) = (phase for phase in answer.phases if phase.name == "rollout")
    gathered = next(term for term in phase.terms if term.name == "rollout_weights")
    assert gathered.bytes / GIB == pytest.approx(7.5, abs=0.1)


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        (ASKED | {"teacher_model": None, "algorithm": "gkd"}, "teacher_model"),
        (ASKED | {"algorithm": "grpo"}, "teacher_model"),
        (ASKED | {"algorithm": "sft"}, "teacher_model"),
        (ASKED | {"reference": "resident"}, "reference"),
        (ASKED | {"framework": "megatron", "method": "full"}, "framework"),
        # its words are 152,064
        (ASKED | {"teacher_model": "Qwen/Qwen2.5-7B-Instruct"}, "teacher_model"),
    ],
    ids=str,
)
def test_what_cannot_be_distilled_is_refused_with_what_can(train, asked, field):
    with pytest.raises(InvalidRequestError) as refused:
        train(**asked)
    assert refused.value.field == field
    assert refused.value.hint


def test_ms_swift_distils_from_a_teacher_of_other_words(train):
    answer = train(**ASKED | {"teacher_model": "Qwen/Qwen2.5-7B-Instruct"}, trainer="ms-swift")
    assert "--rlhf_type gkd" in answer.launch.command
    assert "--teacher_model Qwen/Qwen2.5-7B-Instruct" in answer.launch.command


@pytest.mark.parametrize("sent", [{}, {"trainer": "ms-swift"}], ids=str)
def test_a_command_that_distils_is_read_back_to_the_same_bytes(train, sent):
    first = train(**ASKED, **sent, method="full", framework="deepspeed", zero_stage=3)
    fields = tool_settings(first.launch.command)
    assert fields["teacher_model"] == "Qwen/Qwen3-32B"
    again = train(**ASKED | sent | fields)
    assert again.per_gpu.required_bytes.expected == first.per_gpu.required_bytes.expected


def test_what_is_understood_of_a_distillation_gives_the_same_answer(train):
    first = train(**ASKED, method="full", framework="deepspeed")
    again = train(**first.understood_as)
    assert (again.phases, again.terms) == (first.phases, first.terms)
