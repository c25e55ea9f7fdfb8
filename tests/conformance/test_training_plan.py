"""The search over layouts, as answers of the API. GB = 10^9 bytes; a card of "80GB" is all
usable."""

import json

import pytest

GB = 10**9


def test_the_search_without_conditions_lists_plans_on_eight_cards(plan):
    answer = plan(model="13b", framework="megatron", gpu="80GB", sequence_length=4096)
    assert 8 in [one["gpu_count"] for one in answer["plans"]]


@pytest.mark.parametrize(
    ("model", "framework"),
    [
        ("Qwen/Qwen3-8B", "megatron"),
        ("Qwen/Qwen3-8B", "fsdp"),
        ("Qwen/Qwen3-8B", "deepspeed"),
        ("Qwen/Qwen3-30B-A3B", "megatron"),
    ],
)
def test_the_settings_of_a_plan_are_a_question_whose_answer_agrees(plan, service, model, framework):
    for one in plan(model=model, gpu="H100", framework=framework, max_gpu_count=32)["plans"]:
        again = service.post("/v1/training-fit", json=one["settings"]).json()
        assert again["per_gpu"]["required_bytes"] == one["required_bytes"]


def test_the_settings_of_a_plan_with_a_quantized_base_are_a_question_whose_answer_agrees(
    plan, service
):
    one, *_ = plan(
        model="Qwen/Qwen3-8B", gpu="24GB", method="qlora", precision="bf16", max_gpu_count=1
    )["plans"]
    assert one["settings"]["framework"] == "transformers"
    assert (
        service.post("/v1/training-fit", json=one["settings"]).json()["per_gpu"]["required_bytes"]
        == one["required_bytes"]
    )


def test_every_plan_keeps_the_global_batch(plan):
    answer = plan(model="Qwen/Qwen3-8B", gpu="H100", global_batch_size=96, max_gpu_count=32)
    assert answer["plans"]
    for one in answer["plans"]:
        settings = one["settings"]
        assert (
            settings["micro_batch_size"] * settings["micro_batches"] * settings["data_parallel"]
            == 96
        )


@pytest.mark.parametrize(
    ("asked", "batch"), [({}, 128), ({"gpu_count": 6}, 132), ({"micro_batch_size": 3}, 192)]
)
def test_the_usual_global_batch_divides_over_the_cards_and_micro_batches_asked_for(
    plan, asked, batch
):
    answer = plan(model="Qwen/Qwen3-8B", gpu="H100", **asked)
    assert answer["global_batch_size"] == batch
    assert answer["plans"]


def test_a_plan_counts_by_the_rule_and_with_the_experts_that_are_asked_for(plan):
    asked = {"model": "Qwen/Qwen3-30B-A3B", "gpu": "H100", "method": "qlora", "gpu_count": 1}
    whole, packed = (
        plan(**asked, quantize_experts=quantized)["plans"] for quantized in (False, True)
    )
    assert min(one["required_bytes"]["expected"] for one in packed) < 0.7 * min(
        (one["required_bytes"]["expected"] for one in whole), default=10**15
    )
    rules = [
        plan(model="13b", framework="megatron", gpu="80GB", activation_rule=rule)["plans"][0]
        for rule in ("recipe", "40shl")
    ]
    assert [one["settings"]["activation_rule"] for one in rules] == ["recipe", "40shl"]


def test_a_deepspeed_plan_carries_its_settings_in_the_file_its_command_reads(plan):
    one = plan(
        model="Qwen/Qwen3-8B",
        gpu="H100",
        framework="deepspeed",
        gpu_count=8,
        zero_stage=3,
        offload="optimizer",
    )["plans"][0]
    assert "--deepspeed_config_file ds_config.json" in one["launch"]["command"]
    config = json.loads(one["launch"]["files"]["ds_config.json"])
    assert config["train_batch_size"] == 128
    assert config["zero_optimization"]["stage"] == 3
    assert config["zero_optimization"]["offload_optimizer"]["device"] == "cpu"
    assert config["train_micro_batch_size_per_gpu"] == one["settings"]["micro_batch_size"]
    assert one["host_bytes"] > 0


def test_an_fsdp_plan_carries_its_settings_in_the_file_its_command_reads(plan):
    one = plan(model="Qwen/Qwen3-8B", gpu="H100", framework="fsdp", gpu_count=8, zero_stage=2)[
        "plans"
    ][0]
    assert "--config_file fsdp.yaml" in one["launch"]["command"]
    assert "fsdp_reshard_after_forward: false" in one["launch"]["files"]["fsdp.yaml"]
    assert "num_processes: 8" in one["launch"]["files"]["fsdp.yaml"]


def test_a_megatron_plan_carries_its_degrees_as_flags(plan):
    asked = {
        "tensor_parallel": 2,
        "pipeline_parallel": 4,
        "gpu_count": 16,
        "activation_checkpointing": "full",
    }
    command = plan(model="Qwen/Qwen3-8B", gpu="H100", framework="megatron", **asked)["plans"][0][
        "launch"
    ]["command"]
    for flags in (
        "--tensor-model-parallel-size 2",
        "--pipeline-model-parallel-size 4",
        "--nnodes 2",
        "--global-batch-size 128",
        "--use-distributed-optimizer",
        "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1",
    ):
        assert flags in command


def test_an_objective_decides_what_comes_first(plan):
    fastest = plan(model="Qwen/Qwen3-8B", gpu="H100", objective="fastest", max_gpu_count=32)[
        "plans"
    ]
    fewest = plan(model="Qwen/Qwen3-8B", gpu="H100", max_gpu_count=32)["plans"]
    cheapest = plan(
        model="Qwen/Qwen3-8B",
        gpu="H100",
        objective="cheapest",
        max_gpu_count=32,
        price_per_gpu_hour=2,
    )["plans"]
    assert fastest[0]["relative_throughput"] == max(one["relative_throughput"] for one in fastest)
    assert fewest[0]["gpu_count"] == min(one["gpu_count"] for one in fewest)
    assert cheapest[0]["cost_per_gpu_hour_of_work"] == min(
        one["cost_per_gpu_hour_of_work"] for one in cheapest
    )


def test_a_checkpoint_to_resume_from_is_fourteen_bytes_a_parameter_in_mixed_precision(plan):
    answer = plan(model="13b", framework="megatron", gpu="80GB", sequence_length=4096)
    for one in answer["plans"]:
        assert one["checkpoint_bytes"] == pytest.approx(14 * 13 * GB, rel=0.001)


def test_126_layers_are_parted_alike_or_with_fewer_at_the_ends_as_the_command_says(plan):
    answer = plan(
        model="meta-llama/Llama-3.1-405B", gpu="H100", sequence_length=8192, max_gpu_count=1024
    )
    assert answer["min_gpu_count"] == 112  # stages alike, on no power of two
    for one in answer["plans"]:
        is_uneven = 126 % one["settings"]["pipeline_parallel"] != 0
        for end in ("first", "last"):
            flag = f"--decoder-{end}-pipeline-num-layers "
            assert (flag in one["launch"]["command"]) == is_uneven


@pytest.mark.parametrize("counts", [{"gpu_count": 1}, {"max_gpu_count": 2}])
def test_adapters_on_one_card_are_planned_without_anything_that_shards(plan, counts):
    plans = plan(model="meta-llama/Llama-3.1-8B", gpu="RTX 4090", method="qlora", **counts)["plans"]
    assert {one["settings"]["framework"] for one in plans if one["gpu_count"] == 1} == {
        "transformers"
    }


def test_encoders_are_planned_without_megatron_whose_script_trains_decoders(plan):
    answer = plan(model="google-bert/bert-base-uncased", gpu="L40S", max_gpu_count=4)
    assert answer["plans"]
    assert "megatron" not in {one["settings"]["framework"] for one in answer["plans"]}


def test_a_card_without_bf16_is_planned_in_fp16(plan):
    answer = plan(model="meta-llama/Llama-3.2-1B", gpu="T4", method="qlora")
    assert {one["settings"]["precision"] for one in answer["plans"]} == {"mixed_fp16"}


def test_apples_cards_are_planned_without_what_does_not_run_on_them(plan):
    answer = plan(model="meta-llama/Llama-3.2-1B", gpu="Apple M3 Max", method="lora")
    assert {(one["settings"]["framework"], one["gpu_count"]) for one in answer["plans"]} == {
        ("transformers", 1)
    }


def test_the_summary_says_fewest_only_where_several_counts_were_tried(plan):
    several, exactly = (
        plan(model="Qwen/Qwen3-8B", gpu="H100", **counts)["summary"]
        for counts in ({}, {"gpu_count": 8})
    )
    assert "the fewest of the counts tried" in several
    assert "the fewest" not in exactly
    assert "trains by full fine-tuning on 8 x H100 SXM." in exactly


def test_who_names_no_method_reads_that_adapters_take_fewer_gpus(plan):
    unsaid, full, one_gpu = (
        plan(**asked)["summary"]
        for asked in (
            {"model": "Qwen/Qwen3-8B", "gpu": "H100"},
            {"model": "Qwen/Qwen3-8B", "gpu": "H100", "method": "full"},
            {"model": "Qwen/Qwen3-0.6B", "gpu": "H100"},
        )
    )
    assert "Adapters (method lora or qlora) take fewer." in unsaid
    assert "Adapters" not in full
    assert "Adapters" not in one_gpu


def test_where_nothing_fits_the_answer_says_what_to_try(plan):
    answer = plan(model="70b", gpu="24GB", max_gpu_count=2)
    assert (answer["plans"], answer["min_gpu_count"]) == ([], None)
    assert "LoRA or QLoRA: try offload" in answer["summary"]


@pytest.mark.parametrize(
    ("question", "field"),
    [
        ({"framework": "megatron", "tensor_parallel": 3, "gpu_count": 12}, "tensor_parallel"),
        ({"framework": "megatron", "pipeline_parallel": 64, "gpu_count": 64}, "pipeline_parallel"),
        ({"framework": "megatron", "expert_parallel": 2}, "expert_parallel"),
        ({"framework": "megatron", "zero_stage": 3}, "zero_stage"),
        ({"framework": "deepspeed", "tensor_parallel": 2}, "framework"),
        ({"framework": "megatron", "method": "qlora"}, "framework"),
        ({"gpu_count": 12, "tensor_parallel": 8, "framework": "megatron"}, "gpu_count"),
        ({"gpu_count": 7, "global_batch_size": 64, "framework": "fsdp"}, "global_batch_size"),
        ({"gpu_count": 32, "max_gpu_count": 16}, "max_gpu_count"),
        ({"gpu": "T4", "precision": "mixed_bf16"}, "precision"),
    ],
)
def test_what_cannot_run_is_refused_with_what_can(service, question, field):
    response = service.post(
        "/v1/training-plan", json={"model": "Qwen/Qwen3-8B", "gpu": "H100", **question}
    )
    assert response.status_code == 422, response.text
    assert response.json()["field"] == field
    assert response.json()["hint"]


def test_the_command_of_zero_plus_plus_carries_its_partition(train):
    answer = train(
        model="Qwen/Qwen3-8B",
        gpu="H100",
        gpu_count=16,
        framework="deepspeed",
        zero_stage=3,
        zero_hpz_partition_size=8,
    )
    assert '"zero_hpz_partition_size":8' in answer["launch"]["command"].replace(" ", "")
    assert "--deepspeed_config_file ds_config.json" in answer["launch"]["command"]


def test_any_method_lists_full_lora_and_qlora_each_with_fewer_cards_than_the_one_before(plan):
    answer = plan(model="meta-llama/Llama-2-70b-hf", gpu="H100", method="any", limit=12)
    least = {}
    for one in answer["plans"]:
        method = one["settings"]["method"]
        least[method] = min(one["gpu_count"], least.get(method, 10**6))
    assert list(least) == ["full", "lora", "qlora"]
    assert least["full"] > least["lora"] > least["qlora"]
    assert len(answer["plans"]) <= 12
    assert answer["min_gpu_count"] == least["qlora"]


@pytest.mark.parametrize(
    "question",
    [
        {},
        {"framework": "fsdp", "gpu_count": 8},
        {"method": "any", "limit": 6},
        {"method": "qlora", "lora_rank": 8, "lora_targets": ["q_proj", "v_proj"]},
        {"framework": "megatron", "activation_rule": "34sbh"},
    ],
)
def test_what_was_understood_is_a_question_with_the_same_plans(plan, question):
    first = plan(model="Qwen/Qwen3-8B", gpu="H100", **question)
    again = plan(**first["understood_as"])
    assert again["plans"] == first["plans"]
    assert again["understood_as"] == first["understood_as"]


def test_the_least_part_of_an_epoch_is_planned_and_a_smaller_one_refused(service):
    asked = {"model": "Qwen/Qwen3-8B", "gpu": "H100", "samples": 1}
    least = service.post("/v1/training-plan", json={**asked, "epochs": 1e-6})
    assert least.status_code == 200, least.text
    smaller = service.post("/v1/training-plan", json={**asked, "epochs": 5e-324})
    assert (smaller.status_code, smaller.json()["field"]) == (422, "epochs")
