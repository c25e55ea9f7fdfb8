"""Plans on counts of GPUs between powers of two."""


def counts(answer):
    return {one.gpu_count for one in answer.plans}


def test_counts_below_the_fewest_that_holds_or_surely_fits_are_tried(plan):
    asked = {"model": "Qwen/Qwen3-8B", "gpu": "A100 40GB", "limit": 100}
    answer = plan(**asked)
    fits = {one.gpu_count for one in answer.plans if one.verdict == "fits"}
    between = {count for count in counts(answer) if count & (count - 1)}
    assert between
    assert min(fits) in between
    assert min(fits) < min(count for count in fits if not count & (count - 1))


def test_a_batch_that_is_left_out_divides_over_as_many(plan):
    answer = plan(model="meta-llama/Llama-3.1-8B", gpu="A100 40GB", limit=100)
    for one in answer.plans:
        settings = one.settings
        batch = settings["micro_batch_size"] * settings["micro_batches"] * settings["data_parallel"]
        assert answer.global_batch_size <= batch < answer.global_batch_size + one.gpu_count


def test_the_most_gpus_need_not_be_a_power_of_two(plan):
    asked = {"model": "Qwen/Qwen3-32B", "gpu": "A100 80GB", "framework": "fsdp"}
    answer = plan(**asked, max_gpu_count=12)
    assert counts(answer) == {12}
    assert counts(answer) <= counts(plan(**asked, limit=100))


def test_a_batch_that_is_sent_is_kept(plan):
    answer = plan(model="Qwen/Qwen3-8B", gpu="A100 40GB", limit=100, global_batch_size=96)
    assert 6 in counts(answer)
    assert 5 not in counts(answer)


def test_one_count_that_is_sent_is_the_only_one(plan):
    answer = plan(model="meta-llama/Llama-3.1-8B", gpu="A100 40GB", gpu_count=8)
    assert counts(answer) == {8}


def test_a_slower_plan_that_surely_fits_stands_before_a_fast_one_that_is_tight(plan):
    """The two fastest plans on 4 GPUs need nearly all of their memory."""
    answer = plan(model="meta-llama/Llama-3.1-8B", gpu="A100 40GB", gpu_count=4)
    assert answer.plans[0].verdict == "fits"
    assert answer.plans[0].relative_throughput < max(
        one.relative_throughput for one in answer.plans if one.verdict == "tight"
    )


def test_more_gpus_than_64_are_tried_where_no_fewer_hold_the_model(plan):
    asked = {"model": "meta-llama/Llama-3.1-405B-Instruct", "gpu": "H100", "sequence_length": 8192}
    answer = plan(**asked)
    assert answer.plans[0].verdict == "fits"
    assert answer.plans[0].gpu_count == answer.understood_as["max_gpu_count"] == 128
    assert "trains by full fine-tuning on 128 x H100 SXM and is tight on 112" in answer.summary
    assert plan(**asked, max_gpu_count=64).min_gpu_count is None


def test_torchtitan_is_planned_with_tensor_parallelism_as_its_largest_models_are(plan):
    answer = plan(
        model="meta-llama/Llama-3.1-405B-Instruct", gpu="H100", trainer="torchtitan", limit=100
    )
    assert {one.settings["framework"] for one in answer.plans} == {"fsdp"}
    assert {one.settings["tensor_parallel"] for one in answer.plans} >= {4, 8}
