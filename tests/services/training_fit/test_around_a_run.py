"""Evaluation between steps, merged adapters, and a run that resumes on other GPUs."""

import pytest

from notes import codes

PARAMETERS = 8_030_261_248
ASKED = {"model": "meta-llama/Llama-3.1-8B", "gpu": "A100 80GB", "method": "lora"}


def test_whole_logits_of_an_evaluation_batch_grow_with_it(train):
    """Logits of 128,256 words in 16 and in 32 bit, of 2,048 tokens a sequence."""
    one, eight = (
        train(loss="full", eval_batch_size=batch).evaluation.required_bytes for batch in (1, 8)
    )
    assert (eight - one) / 7 >= 2048 * 128_256 * (2 + 4)


def test_evaluation_that_does_not_fit_is_warned_of_with_the_batch_that_does(train):
    answer = train(gpu="RTX 4090", method="qlora", loss="full", eval_batch_size=64)
    assert not answer.evaluation.fits
    assert ("evaluation-needs-more", "eval_batch_size") in codes(answer.warnings)
    largest = answer.evaluation.max_batch_size
    fields = {"gpu": "RTX 4090", "method": "qlora", "loss": "full"}
    assert train(**fields, eval_batch_size=largest).evaluation.fits
    assert not train(**fields, eval_batch_size=largest + 1).evaluation.fits


def test_generation_in_evaluation_caches_keys_and_values(train):
    plain = train(eval_batch_size=4).evaluation.required_bytes
    generated = train(eval_batch_size=4, eval_generated_tokens=512).evaluation.required_bytes
    assert generated - plain == 4 * (2048 + 512) * 131_072


def test_merging_takes_the_base_in_16_bit_the_adapters_and_one_update(train):
    """The largest linear is 14,336 x 4,096; its update stands twice in fp32."""
    for method in ("lora", "qlora"):
        merge = train(method=method, merge=True).merge
        adapters = merge.required_bytes - 2 * PARAMETERS - 2 * 4 * 14_336 * 4096
        assert adapters == 4 * 41_943_040
        assert merge.disk_bytes == 2 * PARAMETERS
        assert merge.fits_gpu


def test_without_a_gpu_what_merging_takes_comes_first(train):
    answer = train(method="lora", merge=True, gpu=None)
    assert answer.merge.disk_bytes == 2 * PARAMETERS
    assert answer.summary.startswith("Merging the adapters takes 1")
    assert "merge" not in {one.field for one in answer.warnings}


def test_full_training_has_nothing_to_merge(train):
    assert not hasattr(train(method="full", merge=True, gpu="B300").merge, "disk_bytes")


def test_a_base_beyond_the_gpu_is_merged_in_host_memory(train):
    merge = train(method="qlora", gpu="RTX 4060 Ti 16GB", merge=True).merge
    assert not merge.fits_gpu


@pytest.mark.parametrize(
    ("framework", "use"), [("transformers", "loads"), ("fsdp", "loads"), ("deepspeed", "converts")]
)
def test_a_checkpoint_resumes_on_fewer_gpus_as_its_framework_loads_it(train, framework, use):
    answer = train(gpu="8x H100", framework=framework, micro_batches=2, resume_gpu_count=2)
    assert answer.resume.checkpoint == use
    assert answer.resume.micro_batches == 8
    assert answer.resume.verdict == "fits"


def test_shards_of_fewer_gpus_are_larger(train):
    answer = train(gpu="8x H100", method="full", framework="fsdp", resume_gpu_count=4)
    assert answer.resume.required_bytes > answer.per_gpu.required_bytes.expected


def test_gpus_that_the_degrees_do_not_divide_are_unsupported(train):
    fields = {"framework": "megatron", "method": "full", "tensor_parallel": 8}
    answer = train(gpu="8x H100", **fields, resume_gpu_count=3)
    assert answer.resume.verdict == "unsupported"
    assert "parallel ranks need" in answer.resume.why
    assert f"is impossible: {answer.resume.why}" in answer.summary
    assert answer.resume.required_bytes is None


def test_torchtitan_resumes_on_other_gpus_without_its_place_in_the_data(train):
    """torchtitan/components/data/loader.py, load_state_dict."""
    answer = train(gpu="8x H100", method="full", trainer="torchtitan", resume_gpu_count=4)
    assert answer.resume.checkpoint == "loads_without_data"
    assert "--checkpoint.exclude_from_loading data_loader" in answer.resume.why
    assert "but not its place in the data" in answer.summary


def test_megatron_divides_its_states_again_over_other_data_parallel_ranks(train):
    """megatron/core/optimizer/distrib_optimizer.py, sharded_state_dict: dp_reshardable."""
    fields = {"framework": "megatron", "method": "full", "tensor_parallel": 2}
    answer = train(gpu="8x H100", **fields, resume_gpu_count=4)
    assert answer.resume.checkpoint == "loads"


def test_what_was_not_read_of_a_tool_is_said(train):
    answer = train(gpu="8x H100", method="full", trainer="openrlhf", resume_gpu_count=4)
    assert answer.resume.checkpoint == "unverified"
