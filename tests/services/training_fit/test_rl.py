"""check_training_fit about preference and RL training: defaults of the libraries, phases by
model, refusals, and what to change."""

import pytest

from fitgauge.errors import InvalidRequestError

SMALL = {"model": "Qwen/Qwen3-0.6B", "gpu": "A100 80GB", "method": "full"}
LARGE = {"model": "Qwen/Qwen2.5-7B-Instruct", "gpu": "H100", "gpu_count": 8, "method": "full"}


def phases(answer):
    return {phase.name: {term.name for term in phase.terms} for phase in answer.phases}


@pytest.mark.parametrize(
    "asked",
    [
        {"algorithm": "dpo"},
        {"algorithm": "dpo", "reference": "precomputed"},
        {"algorithm": "KTO", "method": "lora"},
        {"algorithm": "reward model"},
        {"algorithm": "grpo"},
        {"algorithm": "grpo", "rollout_engine": "sglang", "trainer": "verl", "gpu_count": 2},
        {"algorithm": "ppo", "framework": "OpenRLHF", "gpu_count": 4},
        {
            "algorithm": "rloo",
            "framework": "verl",
            "gpu_count": 2,
            "offload": "cpu",
            "method": "lora",
        },
        {
            "algorithm": "ppo",
            "critic_model": "Qwen/Qwen2.5-0.5B",
            "reward_model": "Qwen/Qwen2.5-1.5B-Instruct",
        },
    ],
    ids=str,
)
def test_what_is_understood_gives_the_same_answer_when_it_is_sent(train, asked):
    first = train(**SMALL | asked)
    again = train(**first.understood_as)
    assert (again.phases, again.terms) == (first.phases, first.terms)
    assert again.limits.max_micro_batch_size == first.limits.max_micro_batch_size
    assert again.per_gpu.required_bytes.expected == first.per_gpu.required_bytes.expected
    assert again.understood_as == first.understood_as


@pytest.mark.parametrize(
    "asked",
    [{"algorithm": "dpo"}, {"algorithm": "grpo", "rollout_engine": "vllm"}, {"algorithm": "ppo"}],
    ids=str,
)
def test_the_terms_are_those_of_the_worst_phase(train, asked):
    answer = train(**SMALL | asked)
    worst = max(answer.phases, key=lambda phase: phase.bytes)
    assert sum(term.bytes for term in worst.terms) == worst.bytes
    assert {term.name for term in worst.terms} <= {term.name for term in answer.terms}
    required = answer.per_gpu.required_bytes
    assert sum(term.bytes for term in answer.terms) == pytest.approx(
        required.expected, abs=len(answer.terms)
    )


def test_supervised_training_names_no_other_models(train):
    answer = train(**SMALL)
    assert [phase.name for phase in answer.phases] == ["forward", "backward", "optimizer_step"]
    assert "algorithm" not in answer.understood_as


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"algorithm": "dpo"}, {"reference": "resident"}),
        ({"algorithm": "dpo", "method": "lora"}, {"reference": "adapter"}),
        ({"algorithm": "orpo"}, {"reference": "none"}),
        ({"algorithm": "grpo"},
            {"reference": "none", "rollout_engine": "transformers", "group_size": 8,
                "reward_model": "none"}),
        ({"algorithm": "grpo", "rollout_engine": "vllm"},
            {"rollout_memory_utilization": 0.3, "rollout_sleep": "off"}),
        ({"algorithm": "rloo"}, {"reference": "resident", "group_size": 2}),
        ({"algorithm": "grpo", "framework": "verl"},
         {"trainer": "verl", "framework": "fsdp", "rollout_engine": "vllm",
             "rollout_memory_utilization": 0.5, "rollout_sleep": "level_2",
          "rollout_tensor_parallel": 2}),
        ({"algorithm": "grpo", "trainer": "verl"}, {"framework": "fsdp", "zero_stage": 3}),
        ({"algorithm": "ppo", "trainer": "openrlhf"}, {"framework": "deepspeed"}),
        ({"algorithm": "grpo", "trainer": "verl", "framework": "megatron"},
            {"trainer": "verl", "framework": "megatron"}),
        ({"algorithm": "ppo", "framework": "openrlhf"},
         {"trainer": "openrlhf", "framework": "deepspeed", "reward_model": "policy",
             "critic_model": "policy", "rollout_sleep": "level_1"}),
        ({"algorithm": "grpo", "prompt_length": 100, "completion_length": 400},
            {"sequence_length": 500}),
        ({"algorithm": "grpo", "sequence_length": 4096},
            {"prompt_length": 512, "completion_length": 3584}),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_left_out_is_as_the_library_has_it(train, asked, said):
    found = train(**LARGE | asked).understood_as
    assert {name: found.get(name) for name in said} == said


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"algorithm": "gpro"}, "algorithm"),
        ({"algorithm": "dpo", "rollout_engine": "vllm"}, "rollout_engine"),
        ({"algorithm": "orpo", "reference": "resident"}, "reference"),
        ({"algorithm": "orpo", "framework": "megatron"}, "framework"),
        ({"algorithm": "ppo", "framework": "megatron"}, "framework"),
        ({"algorithm": "dpo", "reference": "adapter"}, "reference"),
        ({"algorithm": "grpo", "critic_model": "policy"}, "critic_model"),
        ({"group_size": 4}, "group_size"),
        ({"model": "google-bert/bert-base-uncased", "algorithm": "dpo"}, "algorithm"),
        (
            {"algorithm": "grpo", "rollout_engine": "vllm", "rollout_tensor_parallel": 3},
            "rollout_tensor_parallel",
        ),
        ({"algorithm": "grpo", "trainer": "trll"}, "trainer"),
        ({"fp8_parameters": True}, "fp8_parameters"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_with_what_can(train, asked, field):
    with pytest.raises(InvalidRequestError) as refused:
        train(**LARGE | asked)
    assert refused.value.field == field
    assert refused.value.hint


CROWDED = {
    "model": "Qwen/Qwen2.5-32B-Instruct",
    "gpu": "H200",
    "gpu_count": 8,
    "method": "full",
    "algorithm": "grpo",
    "framework": "verl",
    "rollout_memory_utilization": 0.3,
}
"""A rollout engine whose share holds its model only over several ranks."""


def test_a_rollout_engine_whose_share_does_not_hold_its_model_does_not_start(train):
    assert train(**CROWDED, rollout_tensor_parallel=1).verdict == "does_not_fit"
    assert train(**CROWDED, rollout_tensor_parallel=4).verdict == "fits"


def test_more_ranks_are_suggested_to_a_rollout_engine_that_has_no_room(train):
    answer = train(**CROWDED, rollout_tensor_parallel=1)
    assert {"rollout_tensor_parallel": 2} in [
        suggestion.request for suggestion in answer.suggestions
    ]


def test_sleep_is_suggested_where_the_rollout_engine_is_in_the_way(train):
    asked = {
        "model": "Qwen/Qwen3-1.7B",
        "gpu": "A100 80GB",
        "method": "full",
        "algorithm": "grpo",
        "rollout_engine": "vllm",
        "micro_batch_size": 4,
    }
    asked |= {"rollout_memory_utilization": 0.6, "activation_checkpointing": "full"}
    answer = train(**asked)
    assert answer.verdict != "fits"
    changes = [
        suggestion
        for suggestion in answer.suggestions
        if suggestion.request == {"rollout_sleep": "level_2"}
    ]
    assert changes
    assert train(**asked, **changes[0].request).verdict == changes[0].verdict == "fits"


@pytest.mark.parametrize(
    ("sent", "reference"),
    [
        ({}, "none"),
        ({"trainer": "trl"}, "none"),
        # trl/trainer/dpo_trainer.py: "Liger DPO loss does not support precomputing"
        ({"kernels": "liger"}, "resident"),
        ({"loss": "fused"}, "resident"),
        ({"loss": "fused", "method": "lora"}, "adapter"),
        ({"trainer": "unsloth", "loss": "fused"}, "none"),
        ({"trainer": "axolotl"}, "none"),
        ({"trainer": "axolotl", "algorithm": "kto"}, "resident"),
        # src/llamafactory/train/dpo/trainer.py: precompute_ref_log_probs = False
        ({"trainer": "llama-factory"}, "resident"),
        ({"trainer": "ms-swift"}, "resident"),
    ],
    ids=str,
)
def test_a_reference_is_where_the_printed_command_has_it(train, sent, reference):
    asked = {"model": "Qwen/Qwen3-8B", "gpu": "8x H200", "method": "full", "algorithm": "dpo"}
    answer = train(**asked | {"reference": "none"} | sent)
    assert answer.understood_as["reference"] == reference
    assert ("precompute_ref_log_probs" in answer.launch.command) == (reference == "none")
    notes = [note for note in answer.warnings if note.field == "reference"]
    assert [note.code for note in notes] == ["command-lacks-flag"] * (reference != "none")


@pytest.mark.parametrize(
    ("sent", "fused"),
    [
        ({"algorithm": "dpo"}, True),  # trl/trainer/dpo_trainer.py, LigerFusedLinearDPOLoss
        ({"algorithm": "grpo"}, True),
        ({"algorithm": "orpo"}, False),  # trl/experimental/orpo has none
        ({"algorithm": "simpo"}, False),
        ({"algorithm": "rloo"}, False),
        ({"algorithm": "ppo"}, False),
        # llamafactory/model/loader.py, require_logits
        ({"algorithm": "dpo", "trainer": "llama-factory"}, False),
        ({"algorithm": "kto", "trainer": "axolotl"}, False),
        ({"algorithm": "grpo", "trainer": "ms-swift"}, True),
        ({"algorithm": "grpo", "trainer": "verl"}, False),
    ],
    ids=str,
)
def test_a_loss_is_fused_where_the_tool_fuses_that_of_the_algorithm(train, sent, fused):
    asked = {"model": "Qwen/Qwen3-8B", "gpu": "8x H200", "method": "lora", "loss": "fused"}
    answer = train(**asked | sent)
    assert answer.understood_as["loss"] == ("fused" if fused else "full")
    notes = [note.code for note in answer.warnings if note.field == "loss"]
    assert notes == ["command-lacks-flag"] * (not fused)


def test_a_loss_that_no_tool_fuses_is_no_suggestion(train):
    asked = {"model": "Qwen/Qwen3-8B", "gpu": "RTX 4090", "method": "qlora", "algorithm": "orpo"}
    answer = train(**asked, sequence_length=8192)
    assert answer.verdict == "does_not_fit"
    assert not any("fuse the loss" in one.change for one in answer.suggestions)


def test_the_routers_loss_is_off_where_ligers_preference_loss_refuses_it(train):
    asked = {"model": "Qwen/Qwen3-30B-A3B", "gpu": "B300", "method": "lora", "algorithm": "dpo"}
    command = train(**asked, kernels="liger").launch.command
    assert "--router_aux_loss_coef 0" in command
    assert "--router_aux_loss_coef" not in train(**asked).launch.command


def test_a_reference_beside_the_policy_may_be_computed_beforehand(train):
    asked = {
        "model": "Qwen/Qwen3-1.7B",
        "gpu": "A100 40GB",
        "method": "full",
        "algorithm": "dpo",
        "activation_checkpointing": "full",
        "sequence_length": 512,
    }
    answer = train(**asked)
    assert answer.verdict != "fits"
    references = {one.request.get("reference") for one in answer.suggestions}
    assert "none" in references
    assert "offloaded" not in references


def test_models_of_their_own_are_counted_as_they_are(train):
    asked = {**LARGE, "algorithm": "ppo", "framework": "openrlhf", "zero_stage": 3}
    same = train(**asked)
    small = train(**asked, reward_model="Qwen/Qwen2.5-0.5B", critic_model="Qwen/Qwen2.5-0.5B")
    sizes = [{term.name: term.bytes for term in answer.phases[0].terms} for answer in (same, small)]
    assert sizes[1]["reward_weights"] < sizes[0]["reward_weights"] / 10
    assert small.checkpoint_bytes < same.checkpoint_bytes


def test_a_verl_policy_leaves_the_card_for_the_rollout_and_is_there_for_the_update(train):
    found = phases(train(**LARGE, algorithm="grpo", framework="verl", offload="cpu"))
    assert not {"weights", "optimizer_states"} & found["rollout"]
    assert {"weights", "optimizer_states"} <= found["backward"]
    assert "rollout_kv_cache" in found["rollout"]
    assert "rollout_kv_cache" not in found["backward"]


def test_a_checkpoint_holds_weights_and_states_and_offloading_to_nvme_leaves_buffers_in_host_memory(
    train,
):
    asked = {**LARGE, "framework": "deepspeed", "zero_stage": 3}
    plain, nvme = train(**asked), train(**asked, offload="nvme")
    parameters = plain.model.parameters
    assert plain.checkpoint_bytes == nvme.checkpoint_bytes == 14 * parameters
    assert nvme.per_gpu.nvme_bytes >= 14 * parameters // 8
    assert (
        0 < nvme.per_gpu.host_bytes <= 19 * 10**9 + 2 * parameters // 8
    )  # and the 16-bit gradients of its part


def test_the_fewest_cards_hold_it_with_nothing_else_changed(train):
    """The least count, which need not be a power of two; degrees that are sent stay."""
    asked = {"model": "Qwen/Qwen3-8B", "gpu": "A100 40GB", "method": "full"}
    fewest = train(**asked).limits.min_gpu_count
    assert train(**asked, gpu_count=fewest).verdict == "fits"
    assert train(**asked, gpu_count=fewest - 1).verdict != "fits"
    assert train(**asked, data_parallel=1).limits.min_gpu_count is None


def test_a_model_too_large_for_data_parallelism_gets_degrees_that_hold_it(train):
    answer = train(
        model="deepseek-ai/DeepSeek-V3",
        gpu="H100",
        gpu_count=64,
        method="full",
        framework="megatron",
    )
    assert answer.verdict == "does_not_fit"
    first = answer.suggestions[0]
    assert (
        first.request["tensor_parallel"]
        * first.request["data_parallel"]
        * first.request["pipeline_parallel"]
        == first.request["gpu_count"]
    )
    again = train(
        model="deepseek-ai/DeepSeek-V3",
        gpu="H100",
        method="full",
        framework="megatron",
        **first.request,
    )
    assert again.verdict == first.verdict != "does_not_fit"


def test_what_sglang_leaves_free_is_for_the_policy(train):
    """Its reserve, 1 - mem_fraction_static of the GPU, is where the policy is."""
    asked = {"model": "Qwen/Qwen2.5-7B-Instruct", "gpu": "4 x A100 80GB", "method": "lora"}
    answer = train(**asked, trainer="verl", algorithm="grpo", rollout_engine="sglang")
    assert answer.verdict == "fits"
    named = {term.name for phase in answer.phases for term in phase.terms}
    assert "rollout_kv_cache" in named
    assert "rollout_reserve" not in named
