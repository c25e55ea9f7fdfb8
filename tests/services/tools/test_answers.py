"""Short answers: the figures of /v1 in GiB, and never long."""

import asyncio
import json
from itertools import product

import pytest

from fitgauge.engine.quantity import GIB
from fitgauge.services.recommend.schemas import RecommendRequest
from fitgauge.services.tools.errors import ToolCallError, UnknownToolError

LONGEST_TOKENS = 600
MODELS = ("Qwen/Qwen3-8B", "Qwen/Qwen3-32B", "openai/gpt-oss-120b", "deepseek-ai/DeepSeek-V3", "7b")
GPUS = ("RTX 4090", "T4", "H100", "8x H200", "MI300X", "M3 Ultra 512GB", "24GB")


def tokens(answer):
    """About 3.6 characters a token."""
    return len(json.dumps(answer, ensure_ascii=False, separators=(",", ":"))) / 3.6


def holds_no_null(node):
    if isinstance(node, dict):
        return all(map(holds_no_null, node.values()))
    if isinstance(node, list):
        return all(map(holds_no_null, node))
    return node is not None


@pytest.mark.parametrize(("model", "gpu"), [*product(MODELS, GPUS)])
def test_serving_is_answered_with_the_figures_of_check_fit(call, check_fit, model, gpu):
    short = call("check_fit", model=model, gpu=gpu)
    whole = check_fit(model=model, gpu=gpu, settings="auto")
    assert short["verdict"] == whole.verdict
    assert short["needs_gib"] == pytest.approx(
        whole.per_gpu.required_bytes.expected / GIB, abs=0.06
    )
    assert sum(short["parts_gib"].values()) == pytest.approx(short["needs_gib"], abs=0.01)
    assert short["gpu_count"] == whole.gpu.count
    assert ("command" in short) == (whole.launch is not None)
    assert f"{short['needs_gib']:,}" in short["answer"] or short["verdict"] == "unsupported"
    assert len(short["assumed"]) >= len(whole.assumed)
    assert holds_no_null(short)
    assert tokens(short) <= LONGEST_TOKENS


@pytest.mark.parametrize(
    "named",
    [
        {"method": "QLoRA"},
        {"use_case": "Fine-tuning"},
        {"task": "fine-tune with LoRA"},
        {"trainer": "Unsloth"},
    ],
)
def test_a_training_that_is_asked_of_check_fit_is_answered_as_one(call, named):
    question = {"model": "Qwen/Qwen3-8B", "gpu": "RTX 4090"}
    short = call("check_fit", **question, **named)
    assert "method" in short
    assert short["assumed"][0].startswith("answered by check_training_fit: ")
    assert "method" not in call("check_fit", **question, use_case="inference")


@pytest.mark.parametrize(
    ("model", "quantization"),
    [
        ("RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic", "fp8 (compressed-tensors)"),
        ("Qwen/Qwen3-32B-AWQ", "awq"),
        ("Qwen/Qwen3-8B", "bf16"),
    ],
)
def test_the_format_of_the_weights_is_one_to_send(call, model, quantization):
    question = {"model": model, "gpu": "4x H100"}
    short = call("check_fit", **question)
    assert short["quantization"] == quantization
    again = call("check_fit", **question, quantization=quantization)
    assert again["needs_gib"] == short["needs_gib"]


def test_an_answer_says_how_many_requests_fit(call):
    question = {"model": "Qwen/Qwen3-8B", "gpu": "RTX 4090"}
    most = call("check_fit", **question, concurrency="max")["max_concurrency"]
    assert call("check_fit", **question, concurrency=most)["verdict"] == "fits"
    assert call("check_fit", **question, concurrency=most + 1)["verdict"] != "fits"


def test_a_fix_sent_back_keeps_its_word(call):
    question = {"model": "Qwen/Qwen3-32B", "gpu": "RTX 4090", "options": "max_num_seqs=16"}
    fixes = call("check_fit", **question)["fixes"]
    assert fixes
    for fix in fixes:
        again = call("check_fit", **(question | fix["arguments"]))
        assert (again["verdict"], again["needs_gib"]) == (fix["verdict"], fix["needs_gib"])


def test_a_training_fix_sent_back_keeps_its_word(call):
    question = {"model": "70b", "gpu": "8x H100", "method": "full", "options": "optim=adamw"}
    fixes = call("check_training_fit", **question)["fixes"]
    assert fixes
    for fix in fixes:
        again = call("check_training_fit", **(question | fix["arguments"]))
        assert again["verdict"] == fix["verdict"]


def test_training_names_the_method_and_the_others(call):
    short = call("check_training_fit", model="Qwen/Qwen3-8B", gpu="L40S")
    assert short["method"] == "lora"
    assert set(short["others"]) == {"qlora", "full"}
    assert any("checkpointing" in text for text in short["assumed"])
    assert tokens(short) <= LONGEST_TOKENS


@pytest.mark.parametrize(
    ("arguments", "quantization"),
    [
        ({"model": "Qwen/Qwen3-8B"}, "bf16"),
        ({"model": "Qwen/Qwen3-32B-AWQ"}, "awq"),
        ({"model": "Qwen/Qwen3-8B", "engine": "ollama"}, "q4_k_m"),
        ({"model": "Qwen/Qwen3-8B", "quantization": "INT4"}, "int4"),
    ],
)
def test_the_format_of_the_weights_is_named(call, arguments, quantization):
    assert call("check_fit", gpu="RTX 4090", **arguments)["quantization"] == quantization


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("recommend_gpus", {"model": "Qwen/Qwen3-32B"}),
        ("recommend_gpus", {"model": "7b", "task": "fine-tuning", "method": "lora"}),
        ("list_models_that_fit", {"gpu": "RTX 3090"}),
        ("compare_fit", {"models": "Qwen/Qwen3-8B, Qwen/Qwen3-32B", "gpus": "4090, H100, T4, L4",
                         "quantizations": "as published, fp8, awq"}),
        ("plan_training", {"model": "7b", "gpu": "H100"}),
    ],
)  # fmt: skip
def test_a_list_is_short_and_counts_what_it_leaves_out(call, name, arguments):
    short = call(name, **arguments)
    assert short["options"]
    assert holds_no_null(short)
    assert tokens(short) <= LONGEST_TOKENS
    if name == "compare_fit":
        assert len(short["options"]) + short["more"] == 24


@pytest.mark.parametrize("task", ["serving", "training"])
def test_the_gpus_to_take_are_the_options_of_recommend(call, questions, task):
    short = call("recommend_gpus", model="Qwen/Qwen3-8B", task=task)
    request = RecommendRequest(model="Qwen/Qwen3-8B", task=task)
    whole = asyncio.run(questions.recommend_gpus(request))
    options = whole.options or whole.training_options
    assert [row["gpu"] for row in short["options"]] == [
        f"{option.gpu.count}x {option.gpu.name}" for option in options
    ]
    assert [len(row["role"].split(", ")) for row in short["options"]] == [
        len(option.roles) for option in options
    ]
    assert short["more"] == whole.total - len(options)


def test_what_all_cells_share_stands_once(call):
    short = call("compare_fit", models="Qwen/Qwen3-8B, 7b", gpus="4090")
    assert short["context_length"] == 8192
    assert all("context_length" not in row for row in short["options"])
    assert [row["model"] for row in short["options"]] == ["Qwen/Qwen3-8B", "7b"]


def test_a_table_names_formats_that_fit_where_nothing_does_as_published(call):
    question = {"models": "Qwen/Qwen3-32B", "gpus": "RTX 4090, RTX 5090"}
    answer = call("compare_fit", **question)["answer"]
    assert "In other formats: RTX 4090 in awq" in answer
    assert "other formats" not in call("compare_fit", **question, quantizations="fp8")["answer"]


def test_a_log_is_explained(call):
    log = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.5 GiB"
    short = call("explain_log", log=log, model="Qwen/Qwen3-8B", gpu="RTX 4090")
    assert short["answer"]
    assert tokens(short) <= LONGEST_TOKENS


def test_an_error_holds_the_next_call(call):
    with pytest.raises(ToolCallError) as raised:
        call("check_fit", model="Qwen/Qwen3-8B", gpu="RTX 4090", kv_cache_dtype="fp7")
    assert raised.value.answer.code == "unknown-kv-cache-dtype"
    with pytest.raises(ToolCallError) as raised:
        call("check_fit", model="Qwen/Qwen3-8B", gpu="RTX 4090", quantization="q4_k_x")
    send = raised.value.answer.send
    assert call("check_fit", **{"model": "Qwen/Qwen3-8B", "gpu": "RTX 4090"} | send)


def test_a_field_beyond_the_face_is_sent_in_options(call):
    with pytest.raises(ToolCallError) as raised:
        call("check_fit", model="7b", gpu="H100", options="max_num_seqs=8, tensor_parallel=5")
    send = raised.value.answer.send
    if isinstance(send, dict):
        assert set(send) <= {"model", "gpu", "gpu_count", "options"}


def test_the_time_and_the_disk_of_a_run_are_in_the_answer(call):
    answer = call(
        "check_training_fit",
        model="Qwen/Qwen3-8B",
        gpu="A100 80GB",
        options={"dataset_size": "10k", "num_train_epochs": 3, "lengths": {"1024": 10}},
    )
    assert "The run of 30,720,000 tokens takes" in answer["answer"]
    assert "on disk" in answer["answer"]


def test_a_load_and_a_promise_are_answered_with_a_speed(call, check_fit):
    options = "isl=2000, osl=200, ttft=500 ms, tps_per_user=20"
    arguments = {"model": "Qwen/Qwen3-8B", "gpu": "L40S", "concurrency": 8}
    short = call("check_fit", **arguments, options=options)
    speed = check_fit(
        **arguments,
        prompt_tokens=2000,
        output_tokens=200,
        max_seconds_to_first_token=0.5,
        min_tokens_per_second_per_request=20.0,
        settings="auto",
    ).speed
    assert short["tokens_per_second_per_request"] == pytest.approx(
        speed.tokens_per_second_per_request.expected, rel=0.01
    )
    assert short["seconds_to_first_token"] == pytest.approx(
        speed.seconds_to_first_token.expected, rel=0.05
    )
    assert all(f": {one.reached}" in short["answer"] for one in speed.targets)
    assert tokens(short) < 450
    unasked = call("check_fit", **arguments)
    assert "tokens_per_second_per_request" in unasked
    assert "seconds_to_first_token" not in unasked


def test_a_release_that_is_not_known_is_not_said_to_be_counted(call):
    arguments = {"model": "Qwen/Qwen3-8B", "gpu": "L40S"}
    assert "vLLM 9.9 (not known yet" in call("check_fit", **arguments, engine="vllm 9.9")["answer"]
    assert "not known" not in call("check_fit", **arguments, engine="vllm 0.25")["answer"]


def test_a_price_is_of_the_machines_that_are_paid(call):
    question = {"model": "Qwen/Qwen3-8B", "gpus": "8x H200", "options": "clouds=aws"}
    for one in call("recommend_gpus", **question)["options"]:
        is_whole = one["gpu"].startswith("8x")
        assert ("paid for all 8 GPUs" in one["rented_as"]) is not is_whole


def test_a_wait_that_is_asked_for_is_said_of_every_gpu_to_take(call):
    question = {"model": "Qwen/Qwen3-8B", "concurrency": 8}
    asked = call("recommend_gpus", **question, options="max_seconds_to_first_token=5")
    assert all(one["seconds_to_first_token"] <= 5 for one in asked["options"])
    assert "seconds_to_first_token" not in call("recommend_gpus", **question)["options"][0]


def test_fields_of_a_training_without_a_task_are_answered_with_the_task(call):
    with pytest.raises(ToolCallError) as caught:
        call("recommend_gpus", model="7b", method="lora")
    assert caught.value.answer.send == {"task": "training"}


@pytest.mark.parametrize("between", [", ", " + ", " and "])
def test_several_models_are_answered_with_how_to_ask_about_one_gpu(call, between):
    with pytest.raises(ToolCallError) as caught:
        call("check_fit", model=f"Qwen3-14B{between}bge-m3", gpu="A100 80GB")
    assert "other_memory_gib" in caught.value.answer.error
    assert caught.value.answer.send == {"model": "Qwen/Qwen3-14B"}


def test_an_unknown_tool_is_named(call):
    with pytest.raises(UnknownToolError):
        call("check")


def test_a_repository_of_gguf_files_is_served_by_an_engine_that_reads_them(call):
    short = call("check_fit", model="Qwen/Qwen3-32B-GGUF:Q4_K_M", gpu="RTX 4090")
    assert (short["verdict"], short["engine"]) == ("fits", "llama.cpp")
    assert short["quantization"] == "q4_k_m"


@pytest.mark.parametrize(
    ("tool", "sent"),
    [
        ("recommend_gpus", {"model": "Qwen/Qwen3-32B", "budget": "$0.01"}),
        ("check_fit", {"model": "Qwen/Qwen3-8B", "hardware": "abacus"}),
        (
            "check_training_fit",
            {"model": "7b", "gpu": "8x H100", "method": "ppo", "reward_model": "of equal size"},
        ),
    ],
)
def test_an_error_is_mended_by_its_arguments_whatever_the_name_that_was_sent(call, tool, sent):
    with pytest.raises(ToolCallError) as raised:
        call(tool, **sent)
    assert call(tool, **{**sent, **raised.value.answer.send})["answer"]


def test_what_is_offloaded_is_said_with_the_memory_of_the_machine(call):
    """Before the change that fits."""
    offloaded = {"model": "7b", "gpu": "RTX 4090", "method": "full", "offload": "cpu"}
    whole = call("check_training_fit", **offloaded)
    assert whole["answer"].endswith("It needs 138.2 GiB of host memory in addition.")
    small = call("check_training_fit", **offloaded, ram="32GB")
    assert small["verdict"] == "does_not_fit"
    assert "138.2 GiB of host memory in addition: the machine has 32 GiB. Fix: " in small["answer"]
    served = call("check_fit", model="70b", gpu="H100", options="cpu_offload_gib=80")
    assert served["answer"].endswith("It needs 80.0 GiB of host memory in addition.")


def test_what_a_method_needs_is_said_of_the_one_that_is_sent(call):
    for method, needs in (("qlora", "qlora"), ("full", "full"), (None, "lora")):
        short = call("check_training_fit", model="7b", method=method)
        assert short["needs_gib"] == short["needs_by_format"][needs]
        assert short["answer"].endswith(".")
        assert f"needs GiB: {short['needs_gib']:,} in {needs}, " in short["answer"]


def test_a_base_in_4_bit_is_said_of_lora(call):
    short = call(
        "check_training_fit", model="7b", gpu="RTX 4090", method="lora", quantization="4bit"
    )
    assert short["answer"].startswith("LoRA of 7b over a base in nf4 fits on one RTX 4090: ")
    assert "over a base" not in call("check_training_fit", model="7b", gpu="L4")["answer"]


def test_sizes_below_a_tenth_keep_two_decimals(call):
    log = "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 23.64 GiB"
    short = call("explain_log", log=f"{log} of which 3.75 MiB is free.")
    assert "an allocation of 0.02 GiB failed" in short["answer"]
