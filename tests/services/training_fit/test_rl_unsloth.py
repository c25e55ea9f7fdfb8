"""Unsloth's GRPO: whole groups in every step, and vLLM on the weights that are trained on."""

import pytest

from fitgauge.engine.quantity import GIB

GRPO = {"model": "Qwen/Qwen3-8B", "gpu": "RTX 4090", "algorithm": "grpo", "trainer": "unsloth"}
KV_BYTES = 2 * 36 * 8 * 128 * 2
"""Bytes of a token: keys and values, layers, heads, width of a head, two bytes."""


def sizes(answer, prefix):
    return {term.name: term.bytes for term in answer.terms if term.name.startswith(prefix)}


def test_a_micro_batch_is_the_group_where_one_sequence_is_no_whole_one(train):
    answer = train(**GRPO, method="qlora")
    assert answer.understood_as["micro_batch_size"] == 8
    assert "per_device_train_batch_size=8" in answer.launch.command
    assert not [one for one in answer.warnings if one.code == "group-size-uneven"]
    whole = train(**GRPO, method="qlora", micro_batches=8)
    assert whole.understood_as["micro_batch_size"] == 1


def test_a_smaller_micro_batch_is_sampled_over_several_steps(train):
    answer = train(**GRPO, method="qlora", micro_batch_size=2)
    assert answer.understood_as["micro_batch_size"] == 2
    assert "steps_per_generation=4" in answer.launch.command
    assert [one for one in answer.warnings if one.code == "group-size-uneven"]


@pytest.mark.parametrize(("trainer", "batch"), [("unsloth", 8), ("trl", 1), ("trl", 4)])
def test_transformers_samples_a_whole_group_at_once(train, trainer, batch):
    asked = {**GRPO, "trainer": trainer, "gpu": "H100", "micro_batch_size": batch}
    answer = train(**asked, method="lora", prompt_length=8192, completion_length=8192)
    rollout = next(phase for phase in answer.phases if phase.name == "rollout")
    others = next(phase for phase in answer.phases if phase.name == "optimizer_step")
    cache = 8 * 16_384 * KV_BYTES
    assert rollout.bytes - others.bytes == pytest.approx(cache, rel=0.02)


def test_vllm_reads_the_weights_that_are_trained_on(train):
    asked = {**GRPO, "method": "qlora", "rollout_engine": "vllm"}
    answer = train(**asked)
    held = sizes(answer, "rollout_")
    assert "rollout_weights" not in held
    assert held["rollout_kv_cache"] > 0
    assert answer.understood_as["rollout_memory_utilization"] == 0.5
    assert "fast_inference=True, gpu_memory_utilization=0.5" in answer.launch.command
    rollout = next(phase for phase in answer.phases if phase.name == "rollout")
    assert rollout.bytes / GIB == pytest.approx(0.5 * 23.64, rel=0.05)
    copied = train(**{**asked, "trainer": "trl", "gpu": "H100"})
    assert "rollout_weights" in sizes(copied, "rollout_")


def test_standby_frees_the_cache_while_the_policy_is_trained(train):
    asked = {**GRPO, "method": "qlora", "rollout_engine": "vllm", "rollout_sleep": "level_2"}
    answer = train(**asked)
    backward = next(phase for phase in answer.phases if phase.name == "backward")
    assert "rollout_kv_cache" not in {term.name for term in backward.terms}
    assert 'os.environ["UNSLOTH_VLLM_STANDBY"] = "1"' in answer.launch.command


def test_gpt_oss_keeps_no_scores_under_unsloth_which_has_its_own_attention(train):
    """Eight samples of 4,608 tokens ran out of a B200's 178.35 GiB (unslothai/unsloth#3411): what
    the allocator reserves here."""
    asked = {**GRPO, "model": "openai/gpt-oss-120b", "gpu": "B200", "method": "qlora"}
    answer = train(**asked, sequence_length=4608)
    eager = train(**asked, sequence_length=4608, attention="eager")
    needs = [one.per_gpu.required_bytes.expected for one in (answer, eager)]
    assert needs[0] < 0.9 * needs[1]
    assert answer.per_gpu.reserved_bytes.expected == pytest.approx(178.35 * GIB, rel=0.05)
    assert "attention-falls-back" not in {one.code for one in answer.warnings}


def test_gpt_oss_keeps_no_scores_where_no_flash_attention_runs_either(train):
    """Unsloth publishes that its adapters train in 14 GB, on attention alone as its notebook of
    2025 had them: 3,981,312 parameters of rank 8."""
    asked = {"model": "openai/gpt-oss-20b", "gpu": "T4", "method": "qlora", "trainer": "unsloth"}
    answer = train(**asked, lora_rank=8, lora_targets="attention", sequence_length=1024)
    assert answer.understood_as["attention"] == "flex"
    assert "3,981,312 adapters" in next(
        term.formula
        for term in train(**asked, lora_rank=8, lora_targets="attention", detail="full").terms
        if term.name == "weights"
    )
    assert answer.per_gpu.allocated_bytes.expected == pytest.approx(12.0 * GIB, rel=0.01)
    longer = train(**asked, lora_rank=8, sequence_length=2048)
    assert longer.verdict == "tight"
    assert train(**asked, sequence_length=2048, attention="flash").verdict == "unsupported"


def test_the_logits_of_completions_alone_are_kept_in_16_bit(train):
    """unsloth_zoo/rl_replacements.py, chunked_hidden_states_selective_log_softmax."""
    settings = {"method": "qlora", "prompt_length": 4096, "completion_length": 1024}
    answer, whole = (train(**GRPO, **settings, **loss) for loss in ({}, {"loss": "full"}))
    assert answer.understood_as["loss"] == "chunked"
    assert "UNSLOTH_RETURN_LOGITS" not in answer.launch.command

    def backward(one):
        return next(phase.bytes for phase in one.phases if phase.name == "backward")

    logits = 8 * 1025 * 151_936
    assert backward(whole) - backward(answer) > 8 * logits
    assert not [one for one in answer.suggestions if one.request.get("loss") == "fused"]


def test_the_loss_of_other_algorithms_reads_whole_logits(train):
    assert train(**{**GRPO, "algorithm": "dpo"}, method="qlora").understood_as["loss"] == "full"
