"""What a training answer advises: suggestions that keep their promise, warnings that name what
to send."""

import asyncio

import pytest

from fitgauge.services.training_fit.schemas import TrainingRequest
from notes import codes


@pytest.mark.parametrize(
    "asked",
    [
        {"model": "meta-llama/Llama-3.1-8B", "gpu": "H100"},
        {"model": "Qwen/Qwen3-32B", "gpu": "T4", "sequence_length": 32768},
        {
            "model": "openai/gpt-oss-20b",
            "gpu": "16GB",
            "method": "dora",
            "lora_targets": "attention",
        },
        {
            "model": "13b",
            "gpu": "4x80GB",
            "framework": "megatron",
            "pipeline_parallel": 4,
            "micro_batches": 64,
        },
        {
            "model": "Qwen/Qwen3-8B",
            "gpu": "RTX 4090",
            "algorithm": "grpo",
            "rollout_engine": "vllm",
        },
    ],
    ids=str,
)
def test_a_suggestion_that_is_sent_gets_the_verdict_it_promised(train, asked):
    for suggestion in train(**asked).suggestions:
        again = train(**{**asked, **suggestion.request})
        assert (again.verdict, again.per_gpu.required_bytes.expected) == (
            suggestion.verdict,
            suggestion.required_bytes,
        )


@pytest.mark.parametrize("method", ["lora", "dora"])
def test_a_base_in_fp32_is_advised_in_bf16_first(train, method):
    answer = train(
        model="meta-llama/Llama-3.1-8B", gpu="RTX 4090", method=method, trainer="trl",
        activation_checkpointing="full",
    )  # fmt: skip
    first = answer.suggestions[0]
    assert (first.change, first.verdict) == ("load the base in bf16", "fits")
    assert "--dtype bfloat16" in first.launch.command


def test_eight_billion_in_full_are_advised_to_keep_everything_in_bf16_on_one_h100(train):
    changes = {
        suggestion.change: suggestion
        for suggestion in train(
            model="meta-llama/Llama-3.1-8B", gpu="H100", method="full"
        ).suggestions
    }
    (change,) = [change for change in changes if change.startswith("train in bf16 alone")]
    assert changes[change].verdict == "fits"


def test_with_states_in_8_bit_already_bf16_alone_is_the_next_step(train):
    answer = train(model="8b", gpu="80GB", method="full", optimizer="adamw_8bit")
    (alone,) = [one for one in answer.suggestions if one.change.startswith("train in bf16 alone")]
    assert alone.verdict == "fits"
    assert alone.request["precision"] == "bf16"
    assert "optimizer" not in alone.request


def test_on_one_card_unsloth_is_the_first_step_of_an_adapter_that_trl_has_no_room_for(train):
    """Gemma 3 27B on 24 GB: its logits and activations are what TRL keeps more of."""
    asked = {"model": "google/gemma-3-27b-it", "gpu": "RTX 4090", "method": "qlora"}
    first = train(**asked, sequence_length=4096).suggestions[0]
    assert (first.verdict, first.request["framework"]) == ("fits", "unsloth")
    assert "from unsloth import" in first.launch.command
    on_a_mac = train(model="Qwen/Qwen3-14B", gpu="M4 Pro 24GB", method="lora").suggestions
    assert not any(one.request.get("framework") == "unsloth" for one in on_a_mac)


@pytest.mark.parametrize(
    ("asked", "change"),
    [
        ({"framework": "deepspeed", "zero_stage": 2}, {"zero_stage": 3}),
        ({"framework": "fsdp", "zero_stage": 2}, {"zero_stage": 3}),
        ({"framework": "unsloth"}, {"framework": "fsdp", "zero_stage": 3}),
    ],
    ids=str,
)
def test_cards_that_hold_a_copy_each_are_advised_to_divide_it(train, asked, change):
    found = train(
        model="meta-llama/Llama-3.3-70B-Instruct",
        gpu="8xMI300X",
        method="full",
        precision="mixed_bf16",
        **asked,
    ).suggestions
    assert any(
        suggestion.verdict != "does_not_fit" and change.items() <= suggestion.request.items()
        for suggestion in found
    )


def test_sequences_are_cut_no_further_than_they_must_be(train):
    asked = {
        "model": "Qwen/Qwen3-0.6B",
        "gpu": "16GB",
        "method": "full",
        "optimizer": "sgd",
        "sequence_length": 262144,
    }
    cuts = [
        suggestion
        for suggestion in train(**asked).suggestions
        if "sequence_length" in suggestion.request
    ]
    (cut,) = [suggestion for suggestion in cuts if suggestion.verdict == "fits"]
    twice = {**cut.request, "sequence_length": 2 * cut.request["sequence_length"]}
    assert train(**{**asked, **twice}).verdict != "fits"


@pytest.mark.parametrize(
    ("asked", "instead"),
    [
        ({"gpu": "T4", "precision": "bf16"}, {"precision": "mixed_fp16"}),
        ({"gpu": "A100 80GB", "precision": "fp8"}, {"precision": "mixed_bf16"}),
        ({"gpu": "V100 32GB", "attention": "flash"}, {"attention": "sdpa"}),
        ({"gpu": "TPU v5p", "method": "qlora"}, {"quantization": "bf16"}),
        ({"gpu": "K80", "method": "qlora"}, {"quantization": "bf16"}),
        ({"gpu": "V100 32GB", "method": "lora", "quantization": "int8"}, {"quantization": "bf16"}),
        ({"gpu": "TPU v5p", "optimizer": "adamw_8bit"}, {"optimizer": "adamw"}),
        ({"gpu": "Apple M3 Max", "framework": "megatron"}, {"framework": "transformers"}),
        ({"gpu": "Apple M3 Max", "framework": "fsdp"}, {"framework": "transformers"}),
    ],
    ids=str,
)
def test_what_a_card_cannot_run_is_unsupported_with_the_value_that_works(train, asked, instead):
    answer = train(model="Qwen/Qwen3-0.6B", **asked)
    assert answer.verdict == "unsupported"
    ((field, value),) = instead.items()
    assert answer.summary.endswith(f" {field} {value}.")
    (suggestion,) = answer.suggestions
    assert suggestion.request == instead
    assert (
        train(model="Qwen/Qwen3-0.6B", **{**asked, **instead}).verdict
        == suggestion.verdict
        != "unsupported"
    )


def test_where_no_setting_helps_other_gpus_are_named(train):
    asked = {"model": "deepseek-ai/DeepSeek-V3", "method": "dora", "framework": "fsdp"}
    answer = train(**asked, gpu="L4")
    (other,) = answer.suggestions
    assert set(other.request) == {"gpu", "gpu_count"}
    assert other.launch is not None
    again = train(**asked, **other.request)
    assert (again.verdict, again.per_gpu.required_bytes.expected) == ("fits", other.required_bytes)
    assert ("no-change-fits", None) in codes(answer.warnings)


def test_a_sequence_beyond_the_models_maximum_is_warned_of(train):
    asked, beyond = {"model": "google-bert/bert-base-uncased", "gpu": "T4"}, "context-exceeds-model"
    assert (beyond, "sequence_length") in codes(train(**asked, sequence_length=4096).warnings)
    assert (beyond, "sequence_length") not in codes(train(**asked, sequence_length=512).warnings)


@pytest.mark.parametrize(
    ("asked", "code", "field"),
    [
        ({"gpu": "2xH100", "gpu_count": 4}, "gpu-count-conflict", "gpu_count"),
        (
            {"framework": "deepspeed", "zero_stage": 2, "offload": "cpu"},
            "offload-optimizer-only",
            "zero_stage",
        ),
    ],
    ids=str,
)
def test_what_contradicts_itself_is_said(train, asked, code, field):
    usual = {"model": "Qwen/Qwen3-0.6B", "gpu": "8xH100"}
    assert (code, field) in codes(train(**{**usual, **asked}).warnings)
    assert (code, field) not in codes(train(**usual).warnings)


@pytest.mark.parametrize("method", ["full", "lora"])
def test_transformers_divides_sequences_under_fsdp(train, method):
    asked = {
        "model": "Qwen/Qwen3-0.6B",
        "gpu": "8xH100",
        "method": method,
        "context_parallel": 8,
        "sequence_length": 65536,
    }
    answer, named = train(**asked), train(**asked, framework="fsdp")
    assert (answer.per_gpu, answer.understood_as["framework"]) == (named.per_gpu, "fsdp")
    assert ("framework-implied", "framework") in codes(answer.warnings)
    assert "--parallelism_config_cp_size 8" in answer.launch.command


def test_what_others_hold_of_a_card_is_taken_off_it(train):
    asked = {
        "model": "meta-llama/Llama-3.1-8B",
        "gpu": "RTX 4090",
        "method": "lora",
        "activation_checkpointing": "full",
    }
    alone, beside = train(**asked), train(**asked, other_memory_gib=6)
    assert alone.per_gpu.usable_bytes - beside.per_gpu.usable_bytes == 6 * 2**30
    assert (alone.verdict, beside.verdict) == ("fits", "does_not_fit")
    assert beside.understood_as["other_memory_gib"] == 6


def test_a_card_that_may_drive_a_screen_gets_a_warning_where_that_would_decide(train):
    asked = {
        "model": "Qwen/Qwen3-4B",
        "gpu": "RTX 4090",
        "method": "lora",
        "activation_checkpointing": "full",
    }
    batches = range(train(**asked).limits.max_micro_batch_size, 1000)
    full = next(
        batch
        for batch in batches
        if train(**asked, micro_batch_size=batch).per_gpu.headroom_bytes < 2 * 2**30
    )
    decides = train(**asked, micro_batch_size=full)
    assert decides.verdict != "does_not_fit"
    uncounted = ("other-memory-uncounted", "other_memory_gib")
    assert uncounted in codes(decides.warnings)
    counted = train(**asked, micro_batch_size=full, other_memory_gib=0)
    assert uncounted not in codes(counted.warnings)


def test_a_measured_context_takes_the_place_of_the_usual_one(train):
    answer = train(model="Qwen/Qwen3-0.6B", gpu="A100 80GB", runtime_gib=1.5, detail="full")
    (runtime,) = [term for term in answer.terms if term.name == "runtime"]
    assert (runtime.bytes, runtime.low, runtime.high, runtime.basis) == (int(1.5 * 2**30),) * 3 + (
        "exact",
    )


def test_the_formula_of_an_adapted_models_weights_names_every_format(train):
    asked = {"model": "meta-llama/Llama-3.1-8B", "gpu": "H100", "detail": "full"}

    def formula(**more):
        return next(term.formula for term in train(**asked, **more).terms if term.name == "weights")

    qlora = formula(method="qlora")
    for part in (
        "6,979,321,856 parameters in nf4 x 0.5",
        "1,050,939,392 parameters in BF16 x 2 B",
        "41,943,040 adapters in F32 x 4 B",
    ):
        assert part in qlora
    sharded = formula(method="lora", gpu_count=2, framework="fsdp")
    assert "adapters in F32 x 4 B) / 2 ranks" in sharded
    assert formula(method="full") == "in F32: 8,030,261,248 parameters x 4 B"


def test_bitsandbytes_leaves_experts_alone_unless_the_trainer_quantizes_them(train):
    asked = {
        "model": "Qwen/Qwen3-30B-A3B",
        "gpu": "H100",
        "method": "qlora",
        "precision": "bf16",
        "activation_checkpointing": "full",
    }

    def weights(**more):
        return next(term.bytes for term in train(**asked, **more).terms if term.name == "weights")

    assert weights() > 0.9 * 2 * 30.5e9
    assert weights(quantize_experts=True) < 0.65 * 30.5e9
    assert weights(quantization="gptq") < 0.65 * 30.5e9
    assert ("experts-unquantized", "quantize_experts") in codes(train(**asked).warnings)


def test_a_model_without_heads_is_not_told_that_it_has_one(questions):
    request = TrainingRequest(model="state-spaces/mamba-2.8b-hf", gpu="4xH100", tensor_parallel=4)
    with pytest.raises(Exception, match="without attention heads"):
        asyncio.run(questions.check_training_fit(request))


def test_adapters_are_sharded_over_the_gpus_at_hand_before_more_are_asked_for(train):
    """LoRA of 32B with 6,144 tokens does not surely fit four H100 as a copy on each; sharded over
    them it does."""
    question = {"model": "Qwen/Qwen3-32B", "gpu": "H100", "gpu_count": 4, "sequence_length": 6144}
    (lora,) = [
        one
        for one in train(**question, method="full").suggestions
        if one.request.get("method") == "lora"
    ]
    assert "gpu_count" not in lora.request
    sharded = train(**question, method="lora")
    assert (sharded.verdict, sharded.understood_as["framework"]) == ("fits", "fsdp")
    assert train(**question, method="lora", data_parallel=4).verdict != "fits"


def test_an_encoder_learns_classes_in_full_as_its_command_does(train):
    asked = {"model": "google-bert/bert-base-uncased", "gpu": "T4", "sequence_length": 512}
    answer = train(**asked, micro_batch_size=32)
    understood, command = answer.understood_as, answer.launch.command
    assert (understood["method"], understood["loss"]) == ("full", "none")
    assert "run_classification.py" in command
    words = train(**asked, micro_batch_size=32, loss="full")
    assert "run_mlm.py" in words.launch.command
    required = [one.per_gpu.required_bytes.expected for one in (answer, words)]
    assert required[1] - required[0] > 32 * 512 * 30522 * 2  # fp16 logits


def test_adapters_of_an_encoder_are_left_to_the_user(train):
    answer = train(model="google-bert/bert-base-uncased", gpu="T4", method="lora")
    assert any("peft.get_peft_model" in one.message for one in answer.warnings)


@pytest.mark.parametrize(
    ("model", "advised"), [("Qwen/Qwen3-8B", True), ("EleutherAI/gpt-j-6b", False)]
)
def test_unsloth_is_advised_for_models_that_it_knows(train, model, advised):
    answer = train(model=model, gpu="RTX 3080 10GB", method="lora")
    assert answer.verdict == "does_not_fit"
    by = [one for one in answer.suggestions if one.request.get("framework") == "unsloth"]
    assert bool(by) == advised


def test_unsloths_script_names_the_linears_of_a_model_that_it_does_not_know(train):
    answer = train(model="openai-community/gpt2", gpu="T4", method="lora", trainer="unsloth")
    assert "target_modules=['c_attn', 'c_fc', 'c_proj']" in answer.launch.command


def test_what_unsloth_does_not_shard_trl_does(train):
    asked = {
        "model": "Qwen/Qwen3-32B",
        "gpu": "2 x RTX 3090",
        "method": "lora",
        "trainer": "unsloth",
    }
    sharded = [one for one in train(**asked).suggestions if one.request.get("framework") == "fsdp"]
    assert sharded
    assert {one.request["trainer"] for one in sharded} == {"trl"}
    assert all("(TRL)" in one.change for one in sharded)


def test_many_gpus_for_somebody_with_one_are_no_first_step(train):
    """Thirteen of a desktop's GPU hold it; nobody with one takes the other twelve."""
    answer = train(model="google/gemma-3-27b-it", gpu="RTX 4080", method="qlora")
    counts = [one.request.get("gpu_count", 1) for one in answer.suggestions]
    assert max(counts) > 8
    assert counts == sorted(counts)
    assert "GPUs" not in answer.summary
    two = train(model="google/gemma-3-27b-it", gpu="2x RTX 4090", method="lora")
    assert "; to fit, " in two.summary


def test_shorter_sequences_are_tried_with_a_4_bit_base_on_one_gpu(train):
    answer = train(model="openai/gpt-oss-20b", gpu="T4", method="lora", trainer="unsloth")
    (change,) = [one for one in answer.suggestions if "sequence_length" in one.request]
    assert change.request["method"] == "qlora"
    assert change.request["sequence_length"] < 2048


def test_the_longest_sequences_that_fit_are_a_limit(train):
    asked = {"model": "Qwen/Qwen3-8B", "gpu": "RTX 4090", "method": "qlora"}
    answer = train(**asked)
    longest = answer.limits.max_sequence_length
    assert longest > answer.understood_as["sequence_length"]
    assert f"Sequences of up to {longest:,} tokens fit." in answer.summary
    assert train(**asked, sequence_length=longest).verdict == "fits"
    assert train(**asked, sequence_length=longest + 512).verdict != "fits"
    whole = train(model="Qwen/Qwen3-0.6B", gpu="H200", method="qlora")
    assert whole.limits.max_sequence_length == whole.model.max_context_length
    sampled = train(**asked, algorithm="grpo")
    assert sampled.limits.max_sequence_length is None


def test_unsloth_is_tried_with_micro_batches_of_one_before_sequences_are_cut(train):
    """Llama 3.1 8B by QLoRA on an RTX 3060: all of 8,192 tokens, one sequence at a time."""
    answer = train(
        model="meta-llama/Llama-3.1-8B", gpu="RTX 3060", method="qlora", sequence_length=8192,
        micro_batch_size=4,
    )  # fmt: skip
    first = answer.suggestions[0]
    assert first.request == {"framework": "unsloth", "micro_batch_size": 1, "micro_batches": 4}
    assert "to fit, train with Unsloth, take micro-batches of 1 and accumulate" in answer.summary


@pytest.mark.parametrize(
    ("asked", "first"),
    [
        # QLoRA takes 8 GPUs where LoRA, as asked, takes 5
        ({"model": "openai/gpt-oss-120b", "gpu": "H100", "method": "lora"}, "use 5 GPUs"),
        # full training stays so where it does on these GPUs
        (
            {"model": "Qwen/Qwen2.5-7B-Instruct", "gpu": "2x A100 80GB", "method": "full"},
            "train in bf16 alone",
        ),
        # on the 8 GPUs that there are, shards take no more of them
        (
            {
                "model": "Qwen/Qwen2.5-72B-Instruct",
                "gpu": "8x H100",
                "method": "full",
                "framework": "deepspeed",
                "zero_stage": 2,
            },
            "train adapters (LoRA)",
        ),
        (
            {
                "model": "Qwen/Qwen2.5-7B-Instruct",
                "gpu": "RTX 4090",
                "method": "lora",
                "algorithm": "grpo",
                "rollout_engine": "vllm",
            },
            "train adapters on a 4-bit base (QLoRA), give the rollout engine 50% of the GPU",
        ),
    ],
    ids=str,
)
def test_the_first_advice_gives_up_no_more_than_is_needed(train, asked, first):
    answer = train(**asked)
    assert answer.suggestions[0].change.startswith(first)
    assert first in answer.summary


def test_shorter_sequences_are_tried_where_only_more_gpus_hold_a_training(train):
    asked = {"model": "Qwen/Qwen3-32B", "gpu": "RTX 4090", "method": "qlora"}
    changes = [one.request for one in train(**asked, sequence_length=4096).suggestions]
    assert any("sequence_length" in fields for fields in changes)
    assert any("gpu_count" in fields for fields in changes)


def test_micro_batches_are_cut_no_further_than_is_needed(train):
    asked = {"model": "Qwen/Qwen3-8B", "gpu": "RTX 4090", "method": "qlora"}
    answer = train(**asked, micro_batch_size=32)
    size = answer.suggestions[0].request["micro_batch_size"]
    assert (
        f"take micro-batches of {size} and accumulate gradients of {32 // size}" in answer.summary
    )
    assert f"--gradient_accumulation_steps {32 // size} " in answer.suggestions[0].launch.command
    assert size > 1
    assert train(**asked, micro_batch_size=size).verdict == "fits"
    assert train(**asked, micro_batch_size=2 * size).verdict != "fits"


def test_smaller_micro_batches_keep_the_sequences_of_a_step_where_gradients_add_up(train):
    """FSDP1 does not add up gradients that it puts in host memory."""
    answer = train(
        model="meta-llama/Llama-3.1-8B", gpu="RTX 3090", gpu_count=2, method="full",
        micro_batch_size=4, micro_batches=2, sequence_length=8192,
    )  # fmt: skip
    cut = [one.request for one in answer.suggestions if "micro_batch_size" in one.request]
    assert any("offload" in request for request in cut)
    for request in cut:
        by_fsdp1 = request.get("offload") == "cpu" and request.get("framework") != "deepspeed"
        assert request.get("micro_batches") == (None if by_fsdp1 else 8)


def test_adapters_on_four_bits_are_tried_in_host_memory_before_more_gpus_are(train):
    answer = train(model="meta-llama/Llama-3.3-70B-Instruct", gpu="4x RTX 4090", method="lora")
    first, *_ = (one for one in answer.suggestions if one.verdict == "fits")
    assert (first.request["method"], first.request["offload"]) == ("qlora", "cpu")
    assert "over 8 GPUs" not in answer.summary


@pytest.mark.parametrize(
    ("asked", "release"),
    [
        ({"model": "meta-llama/Llama-3.1-405B-Instruct", "gpu": "8x H100"}, True),
        ({"model": "Qwen/Qwen2.5-72B", "gpu": "4x A6000", "trainer": "llama-factory"}, True),
        ({"model": "Qwen/Qwen3-8B", "gpu": "2x RTX 3060"}, False),
    ],
)
def test_advice_of_a_base_that_no_gpu_holds_whole_names_the_release_that_shards_it(
    train, asked, release
):
    answer = train(**asked, method="lora")
    by_qlora = next(one for one in answer.suggestions if one.request.get("method") == "qlora")
    assert by_qlora.verdict == "fits"
    assert ("transformers 4.57" in by_qlora.change) == release
    assert (by_qlora.request.get("transformers_version") == "4.57") == release


def test_unsloth_is_tried_on_several_gpus_before_sequences_are_cut(train):
    """Llama 3.1 8B with 32,768 tokens on two GPUs of 24 GB: a copy on each."""
    answer = train(
        model="meta-llama/Llama-3.1-8B", gpu="2x RTX 4090", method="lora", sequence_length=32768
    )
    assert "cut sequences" not in answer.summary
    first = answer.suggestions[0]
    assert first.request["framework"] == "unsloth"
    assert "torchrun --nproc_per_node 2" in first.launch.command
