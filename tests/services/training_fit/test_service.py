"""check_training_fit: verdicts, sums, refusals and what to change, over the bundled snapshot."""

import pytest

from fitgauge.errors import InvalidRequestError
from notes import codes, values

SMALL = {"model": "Qwen/Qwen3-0.6B", "gpu": "A100 80GB"}


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"method": "lora", "activation_checkpointing": "full"},
        {"method": "qlora", "loss": "fused"},
        {"optimizer": "adamw_8bit", "attention": "eager"},
        {"framework": "fsdp", "gpu_count": 4},
        {
            "framework": "megatron",
            "tensor_parallel": 2,
            "gpu_count": 4,
            "pipeline_parallel": 2,
            "micro_batches": 8,
        },
    ],
    ids=str,
)
def test_terms_add_up_to_what_is_required(train, settings):
    answer = train(**SMALL, **settings)
    required = answer.per_gpu.required_bytes
    assert sum(term.bytes for term in answer.terms) == pytest.approx(
        required.expected, abs=len(answer.terms)
    )
    assert answer.per_gpu.allocated_bytes.expected == max(phase.bytes for phase in answer.phases)
    assert (
        answer.per_gpu.allocated_bytes.expected
        < answer.per_gpu.reserved_bytes.expected
        < answer.per_gpu.shown_bytes.expected
    )
    assert answer.per_gpu.allocated_bytes.expected < required.expected
    assert f"needs {required.expected / 2**30:.2f} GiB" in answer.summary
    for interval in (answer.per_gpu.allocated_bytes, answer.per_gpu.reserved_bytes, required):
        assert interval.low <= interval.expected <= interval.high


def test_what_is_understood_gives_the_same_answer_when_it_is_sent(train):
    asked = {
        **SMALL,
        "method": "qlora",
        "lora_targets": "attention",
        "framework": "deepspeed",
        "gpu_count": 2,
        "loss": "fused",
    }
    first = train(**asked)
    again = train(**first.understood_as)
    assert (again.per_gpu, again.terms, again.understood_as) == (
        first.per_gpu,
        first.terms,
        first.understood_as,
    )


def test_the_largest_micro_batch_fits_and_one_more_does_not(train):
    largest = train(**SMALL).limits.max_micro_batch_size
    assert largest > 1
    assert train(**SMALL, micro_batch_size=largest).verdict == "fits"
    asked = {**SMALL, "method": "lora", "micro_batch_size": largest + 1}
    assert train(**asked).verdict != "fits"


def test_eager_attention_holds_its_scores_and_checkpointing_lets_activations_go(train):
    allocated = {
        name: (
            train(
                **SMALL
                | {"activation_checkpointing": "none", "loss": "fused", "method": "full"}
                | settings,
                sequence_length=4096,
                micro_batch_size=4,
            ).per_gpu.allocated_bytes.expected
        )
        for name, settings in {
            "sdpa": {},
            "eager": {"attention": "eager"},
            "selective": {"activation_checkpointing": "selective"},
            "full": {"activation_checkpointing": "full"},
        }.items()
    }
    assert allocated["eager"] > allocated["sdpa"] > allocated["selective"] > allocated["full"]


def test_a_chunked_and_a_fused_loss_need_less_than_whole_logits(train):
    need = [
        train(**SMALL, sequence_length=8192, loss=loss).per_gpu.allocated_bytes.expected
        for loss in ("full", "chunked", "fused")
    ]
    assert need == sorted(need, reverse=True)
    assert need[2] < need[0] / 1.2


def test_accumulating_gradients_keeps_them_through_the_forward_pass(train):
    once, many = (
        train(**SMALL, method="full", precision="bf16", micro_batches=count) for count in (1, 8)
    )
    forward = {phase.name: phase.bytes for phase in many.phases}["forward"] - {
        phase.name: phase.bytes for phase in once.phases
    }["forward"]
    assert forward == 2 * once.model.parameters


def test_a_copy_that_does_not_fit_one_of_several_cards_is_sharded_unless_somebody_said_otherwise(
    train,
):
    asked = {
        "model": "meta-llama/Llama-3.1-8B-Instruct",
        "gpu": "A100 80GB",
        "gpu_count": 8,
        "method": "full",
        "sequence_length": 1024,
    }
    answer = train(**asked)
    assert answer.understood_as["framework"] == "fsdp"
    assert ("framework", "fsdp") in [(one.field, one.value) for one in answer.assumed]
    assert "FSDP" in answer.summary
    whole = train(**asked, zero_stage=0)
    assert whole.understood_as["framework"] == "transformers"
    assert "framework" not in [one.field for one in whole.assumed]


def test_suggestions_fit_and_hold_when_they_are_sent(train):
    asked = {
        "model": "meta-llama/Llama-3.1-8B-Instruct",
        "gpu": "RTX 4090",
        "method": "full",
        "sequence_length": 2048,
    }
    answer = train(**asked)
    assert answer.verdict == "does_not_fit"
    assert answer.launch is None
    assert answer.suggestions
    for suggestion in answer.suggestions:
        again = train(**{**asked, **suggestion.request})
        assert again.verdict == suggestion.verdict
        assert again.launch == suggestion.launch is not None


def test_what_a_question_left_open_stays_open_in_what_was_understood(train):
    for asked in (
        {},
        {"method": "lora", "framework": "fsdp", "gpu_count": 2},
        {"optimizer": "adafactor"},
    ):
        first = train(**SMALL, **asked)
        again = train(**first.understood_as)
        assert (again.per_gpu, again.terms, again.understood_as) == (
            first.per_gpu,
            first.terms,
            first.understood_as,
        )
    assert "optimizer_implementation" not in train(**SMALL).understood_as
    assert (
        train(**SMALL, optimizer_implementation="foreach").understood_as["optimizer_implementation"]
        == "foreach"
    )


def test_zero_and_offload_under_transformers_are_deepspeeds(train):
    asked = {"model": "meta-llama/Llama-3.1-8B", "gpu": "8xH100"}
    divided, offloaded = train(**asked, zero_stage=3), train(**asked, offload="cpu")
    assert divided.understood_as["framework"] == "deepspeed"
    assert (offloaded.understood_as["framework"], offloaded.understood_as["zero_stage"]) == (
        "deepspeed",
        3,
    )
    assert "--use_deepspeed" in divided.launch.command
    assert ("framework-implied", "framework") in codes(divided.warnings)
    assert divided.terms == train(**asked, framework="deepspeed", zero_stage=3).terms
    assert (
        train(**asked, optimizer="adamw", framework="fsdp", zero_stage=3).understood_as["framework"]
        == "fsdp"
    )


def test_a_card_without_bf16_gets_fp16_where_nothing_was_said(train):
    answer = train(model="meta-llama/Llama-3.2-1B", gpu="T4", method="qlora")
    assert (answer.verdict, answer.understood_as["precision"]) == ("fits", "mixed_fp16")
    assert values(answer.assumed)["precision"] == "mixed_fp16"
    assert (
        train(model="meta-llama/Llama-3.2-1B", gpu="T4", method="qlora", precision="bf16").verdict
        == "unsupported"
    )


def test_what_was_measured_elsewhere_is_said(train):
    def said(**fields):
        return codes(train(model="meta-llama/Llama-3.2-1B", method="lora", **fields).warnings)

    assert ("overheads-from-cuda", "gpu") in said(gpu="Apple M3 Max 64GB")
    assert ("overheads-from-cuda", "gpu") not in said(gpu="MI300X")


def test_adapters_are_suggested_in_what_the_card_can_multiply(train):
    requests = [
        one.request
        for one in train(
            model="meta-llama/Llama-3.2-1B", gpu="T4", method="full", precision="fp16"
        ).suggestions
    ]
    assert {"method": "lora", "base_precision": "half"}.items() <= next(
        one for one in requests if one.get("method") == "lora"
    ).items()


def test_adapters_that_do_not_fit_on_two_cards_may_leave_their_base_in_host_memory(train):
    answer = train(
        model="meta-llama/Llama-2-70b-hf", gpu="2x RTX 3090", method="qlora", sequence_length=512
    )
    offloaded = next(one for one in answer.suggestions if one.request.get("offload") == "cpu")
    assert (offloaded.verdict, offloaded.request["framework"]) == ("fits", "fsdp")


def test_changes_together_are_named_only_where_they_are_sent(train):
    """A reference in host memory is no change where there is none."""
    answer = train(
        model="meta-llama/Llama-3.1-8B",
        gpu="8xA100 80GB",
        method="full",
        algorithm="dpo",
        sequence_length=2048,
    )
    for one in answer.suggestions:
        assert ("keep the reference in host memory" in one.change) == (
            one.request.get("reference") == "offloaded"
        ), one


def test_no_suggestion_asks_for_more_than_another_that_fits_in_as_little(train):
    for gpu, settings in (
        ("RTX 4090", {"sequence_length": 4096, "activation_checkpointing": "full"}),
        ("2x RTX 3090", {}),
    ):
        fitting = train(
            model="meta-llama/Llama-3.1-8B", gpu=gpu, method="lora", **settings
        ).suggestions
        for one in fitting:
            others = (other for other in fitting if other is not one and other.verdict == "fits")
            assert not any(
                o.request.items() <= one.request.items() and o.required_bytes <= one.required_bytes
                for o in others
            )
        assert (
            sum(one.request.get("gpu_count", 0) > 2 and one.verdict == "fits" for one in fitting)
            <= 1
        )


@pytest.mark.parametrize(
    ("settings", "field", "value"),
    [
        ({"gpu": "V100 32GB", "precision": "bf16"}, "precision", "mixed_fp16"),
        (
            {"gpu": "V100 32GB", "precision": "mixed_fp16", "attention": "flash"},
            "attention",
            "sdpa",
        ),
        ({"framework": "megatron", "gpu": "A100 80GB", "attention": "flex"}, "attention", "flash"),
        ({"gpu": "A100 80GB", "precision": "fp8"}, "precision", "mixed_bf16"),
        ({"gpu": "Apple M3 Max 64GB", "framework": "megatron"}, "framework", "transformers"),
    ],
)
def test_what_a_gpu_cannot_do_is_unsupported_and_says_what_to_send(train, settings, field, value):
    answer = train(model="Qwen/Qwen3-0.6B", **settings)
    assert answer.verdict == "unsupported"
    assert f"Send {field} {value}." in answer.summary
    assert train(model="Qwen/Qwen3-0.6B", **settings | {field: value}).verdict != "unsupported"


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"tensor_parallel": 3}, "tensor_parallel"),
        ({"pipeline_parallel": 64}, "pipeline_parallel"),
        ({"expert_parallel": 2}, "expert_parallel"),
        ({"framework": "deepspeed", "zero_stage": 3, "pipeline_parallel": 2}, "zero_stage"),
        ({"framework": "deepspeed", "zero_stage": 3, "optimizer": "adamw_8bit"}, "optimizer"),
        (
            {"framework": "deepspeed", "pipeline_parallel": 2, "pipeline_schedule": "interleaved"},
            "pipeline_schedule",
        ),
        (
            {"tensor_parallel": 2, "sequence_parallel": True, "framework": "transformers"},
            "sequence_parallel",
        ),
        (
            {"framework": "fsdp", "fsdp_version": 1, "offload": "parameters", "micro_batches": 4},
            "micro_batches",
        ),
        ({"gpu_count": 2, "data_parallel": 4}, "gpu_count"),
        ({"data_parallel": 4, "data_parallel_replicate": 3}, "data_parallel_replicate"),
        ({"method": "distill"}, "method"),
        ({"optimizer": "adamwhat"}, "optimizer"),
        ({"framework": "jax"}, "framework"),
        ({"precision": "fp1"}, "precision"),
        ({"method": "qlora", "quantization": "q99"}, "quantization"),
        ({"method": "qlora", "quantization": "q4_k_m"}, "quantization"),
        ({"method": "full", "quantization": "nf4"}, "quantization"),
        ({"method": "lora", "lora_targets": ["nothing_of_the_kind"]}, "lora_targets"),
    ],
    ids=lambda value: str(value),
)
def test_what_cannot_be_is_refused_with_what_to_send(train, settings, field):
    with pytest.raises(InvalidRequestError) as refused:
        train(**SMALL, **settings)
    assert refused.value.field == field
    assert refused.value.hint
    if refused.value.send:
        assert is_answered(train, {**SMALL, **settings, **refused.value.send})


def is_answered(train, settings, times=3):
    """Return whether a request is answered after what refusals tell to send is sent."""
    try:
        return bool(train(**settings))
    except InvalidRequestError as error:
        return (
            times > 0
            and bool(error.send)
            and is_answered(train, {**settings, **error.send}, times - 1)
        )


def test_without_a_method_the_first_sentences_say_what_all_weights_need(train):
    asked = {"model": "meta-llama/Llama-3.1-8B", "gpu": "RTX 4090"}
    full = train(**asked, method="full").per_gpu.required_bytes.expected / 2**30
    answer = train(**asked)
    assert answer.understood_as["method"] == "lora"
    assert f"No method is named: full fine-tuning needs {full:.2f} GiB." in answer.summary
    assert "No method" not in train(**asked, method="lora").summary
