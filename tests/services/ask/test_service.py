"""POST /v1/ask: the answer is that of the operation, for what the text says and nothing else."""

import asyncio

import msgspec
import pytest

from fitgauge.errors import QueueFullError
from fitgauge.services.ask.schemas import AskRequest
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.recommend.schemas import RecommendRequest


def test_the_answer_is_that_of_check_fit(ask, questions):
    answer = ask("Will Qwen3 8B fit on 2x RTX 3090 with 16k context for 4 users?")
    request = FitRequest(
        model="Qwen3 8B", gpu="RTX 3090", gpu_count=2, context_length=16384, concurrency=4
    )
    assert answer.operation == "check_fit"
    assert answer.missing == []
    assert answer.answer == msgspec.to_builtins(asyncio.run(questions.check_fit(request))[1])


@pytest.mark.parametrize(
    "text", ["smallest GPU for gemma 3 12b text only", "how much vram for gemma 3 12b, text only"]
)
def test_gpus_are_listed_for_text_alone(ask, text):
    whole = ask(text)
    assert whole.missing == []
    assert whole.understood.language_model_only is True
    assert whole.answer["understood_as"]["language_model_only"] is True


@pytest.mark.parametrize(
    "words, cache",
    [
        ("turboquant kv", "turboquant_4bit_nc"),
        ("TurboQuant 3-bit cache", "turboquant_3bit_nc"),
        ("turboquant k8v4", "turboquant_k8v4"),
        ("--kv-cache-dtype turboquant_k3v4_nc", "turboquant_k3v4_nc"),
        ("4bit kv cache", "int4_per_token_head"),
    ],
)
def test_formats_of_a_cache_are_read_by_their_family(ask, words, cache):
    answer = ask(f"Qwen/Qwen3-8B on a 4090 with {words}, 16k context, vLLM").answer
    assert answer["understood_as"]["kv_cache_dtype"] == cache


@pytest.mark.parametrize("words", ["6bit mlx", "mlx q6", "6-bit MLX"])
def test_bits_of_an_engine_with_formats_of_its_own_are_those(ask, words):
    answer = ask(f"qwen3 32b {words} on m4 max 64gb").answer
    assert answer["verdict"] == "fits"
    assert answer["understood_as"]["quantization"] == "int6"


def test_a_question_about_gpus_for_training_recommends_for_training(ask, questions):
    answer = ask("How many A100 80GB do I need to fine-tune a 7b with LoRA?")
    request = RecommendRequest(
        model="7b", task="training", method="lora", gpus=["A100 80GB"], limit=10
    )
    assert answer.operation == "recommend_gpus"
    assert answer.answer == msgspec.to_builtins(asyncio.run(questions.recommend_gpus(request)))


@pytest.mark.parametrize(
    "text, operation, field",
    [
        ("Can I LoRA a 7b on a 4090?", "check_training_fit", "verdict"),
        ("Which models run on a 3060 12GB?", "list_models_that_fit", "items"),
        ("Compare Qwen3 8B and Qwen3 32B on a 4090", "compare_fit", "items"),
        ("Which parallelism layout to train Qwen3 8B on 8 H100?", "plan_training", "plans"),
    ],
)
def test_every_operation_answers(ask, text, operation, field):
    answer = ask(text)
    assert answer.operation == operation
    assert answer.answer
    assert answer.answer[field]


@pytest.mark.parametrize(
    "gpus",
    [
        "RTX 4090 + RTX 3060 12GB",
        "1x4090 1x3060",
        "36gb of vram (4090+3060)",
        "a 4090 in one pc and a 3060 12gb in another together",
    ],
)
def test_gpus_of_several_kinds_are_one_machine(ask, gpus):
    answer = ask(f"will qwen3 32b fit on {gpus} with llama.cpp?")
    assert answer.operation == "check_fit"
    assert [rank["gpu"] for rank in answer.answer["ranks"]] == ["RTX 4090", "RTX 3060 12GB"]


def test_what_is_missing_is_named_by_its_field(ask):
    answer = ask("Does it fit on a 4090?")
    assert answer.operation == "check_fit"
    assert answer.answer is None
    assert [line.partition(":")[0] for line in answer.missing] == ["model"]


def test_an_unknown_model_is_an_advice_and_no_error(ask):
    answer = ask("Can I run acme/unheard-of-7b on a 4090?")
    assert answer.answer is None
    assert len(answer.missing) == 1


def test_an_engine_that_no_estimate_covers_is_understood_and_named(ask):
    answer = ask("Does Qwen3 8B fit on a 4090 with lmdeploy?")
    assert answer.understood.engine == "lmdeploy"
    assert answer.answer
    assert [line.partition(":")[0] for line in answer.missing] == ["engine"]


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        (
            "Plan the cheapest full finetune of gemma 2 9b on up to 8 A100 80GB",
            {"objective": "cheapest", "max_gpu_count": 8},
        ),
        (
            "Plan the fastest full finetune of gemma 2 9b on 8 A100 80GB",
            {"objective": "fastest", "gpu_count": 8},
        ),
    ],
)
def test_a_plan_has_the_order_and_the_most_gpus_that_a_text_says(ask, text, fields):
    answer = ask(text)
    assert answer.operation == "plan_training"
    assert answer.answer["understood_as"].items() >= fields.items()


def test_a_plan_of_preferences_says_that_it_is_of_supervised_training(ask):
    answer = ask("Plan DPO of Qwen3-8B with full finetuning on 8 H100")
    assert answer.operation == "plan_training"
    assert any(one.startswith("algorithm: ") for one in answer.missing)


def test_completions_beside_grpo_are_sampled_by_the_engine_that_a_text_names(ask):
    words = "GRPO with TRL on Qwen3-1.7B LoRA, one 4090, vllm colocate, completions 1024"
    read = ask(words).answer["understood_as"]
    fields = {"algorithm": "grpo", "rollout_engine": "vllm", "completion_length": 1024}
    assert read.items() >= fields.items()
    assert read["sequence_length"] == 1024 + 512


def test_an_algorithm_is_sent_as_one(ask):
    answer = ask("Does GRPO of Qwen2.5 1.5B Instruct fit on an H100?")
    assert answer.understood.method == "grpo"
    assert answer.answer["understood_as"]["algorithm"] == "grpo"


def test_a_question_about_something_else_has_no_operation(ask):
    answer = ask("Who wrote the moonlight sonata?")
    assert answer.operation is None
    assert answer.answer is None
    assert msgspec.to_builtins(answer.understood) == {}


def test_settings_of_another_operation_are_not_understood(ask):
    answer = ask("Can I fine-tune a 7b on a 4090 for 300 users?")
    assert answer.operation == "check_training_fit"
    assert any("300" in text for text in answer.not_understood)


def test_a_full_queue_is_an_error(questions, monkeypatch):
    async def full(request):
        raise QueueFullError("full", retry_after_seconds=1.0)

    service = questions._ask
    monkeypatch.setattr(service, "_answers", {**service._answers, "check_fit": full})
    with pytest.raises(QueueFullError):
        asyncio.run(questions.ask(AskRequest(question="does a 7b fit on a 4090?")))


def test_a_cloud_s_machines_are_ordered_by_price(ask):
    answer = ask("which AWS instance serves qwen3 32b?").answer
    offers = {rental["cloud"] for item in answer["items"] for rental in item["cost"]["rentals"]}
    prices = [item["cost"]["usd_per_hour_low"] for item in answer["items"]]
    assert offers == {"aws"}
    assert prices == sorted(prices)


def test_full_precision_is_as_published(ask):
    answer = ask("a 32b model in full precision: how many H100?").answer
    assert {item["quantization"] for item in answer["items"]} == {"as published"}


def test_sampling_by_an_engine_on_the_same_gpus_is_counted(ask):
    beside = ask("GRPO on Qwen3-8B with 2x H100 using TRL and vllm colocate").answer
    alone = ask("GRPO on Qwen3-8B with 2x H100 using TRL").answer
    assert "--use_vllm" in beside["launch"]["command"]
    needs = [one["per_gpu"]["required_bytes"]["expected"] for one in (beside, alone)]
    assert needs[0] > needs[1]


def test_a_free_notebook_has_its_gpu(ask):
    answer = ask("llama 3.2 3b qlora on free colab")
    assert answer.answer["gpu"]["name"] == "T4"
    assert any("1 x T4, which Colab" in note for note in answer.missing)


def test_a_number_out_of_range_is_named(ask):
    answer = ask("Does a 7b fit on 9000x 4090?")
    assert answer.answer is None
    assert answer.missing == ["gpu_count: 9000 is out of range."]


@pytest.mark.parametrize(
    ("text", "engine"),
    [("on ktransformers", "llama.cpp"), ("in LM Studio", "llama.cpp"), ("with lmdeploy", "vllm")],
)
def test_an_engine_without_estimates_is_said_with_the_one_that_answers(ask, text, engine):
    answer = ask(f"does qwen3 8b fit on a 3090 {text}?")
    assert len(answer.missing) == 1
    assert answer.answer["understood_as"]["engine"] == engine


@pytest.mark.parametrize(("text", "count"), [("TPU v5e-8", 8), ("v5e-4", 4), ("TPU v5e - 8", None)])
def test_the_number_after_a_tpu_is_that_of_its_chips(ask, text, count):
    understood = ask(f"llama 3.1 8b on {text}").understood
    assert msgspec.to_builtins(understood).get("gpu_count") == count


def test_exl2_is_said_to_be_of_another_engine(ask):
    answer = ask("llama 3 70b exl2 on 2x 3090")
    assert any("ExLlama" in line and "awq" in line for line in answer.missing)


def test_a_model_in_its_own_script_is_read(ask):
    answer = ask("一张4090能跑通义千问14B吗")
    assert answer.answer["model"]["id"] == "Qwen/Qwen3-14B"


def test_a_cache_in_a_format_of_llama_cpp_is_answered_by_it(ask):
    answer = ask("qwen3 8b on a 3090 with q8_0 kv cache?")
    assert answer.answer["understood_as"]["engine"] == "llama.cpp"


def test_a_price_an_hour_is_no_repository(ask):
    answer = ask("$2/hour budget, which gpu for llama 3.3 70b in fp8?")
    assert answer.understood.max_usd_per_hour == 2


def test_the_whole_context_is_that_of_the_model(ask):
    answer = ask("will qwen3 8b fit on an H100 with its full context?").answer
    assert answer["understood_as"]["context_length"] == answer["model"]["max_context_length"]


def test_the_tool_that_trains_is_the_one_that_is_named(ask):
    command = ask("Can I QLoRA qwen3 8b with unsloth on a T4?").answer["launch"]["command"]
    assert "FastLanguageModel" in command


def test_tokens_of_prompts_and_completions_are_those_of_sampling(ask):
    answer = ask("GRPO of qwen3 4b on an H100, prompts of 2k tokens, completions of 1k tokens")
    understood = answer.answer["understood_as"]
    assert (understood["prompt_length"], understood["completion_length"]) == (2048, 1024)
    assert understood["sequence_length"] == 3072


def test_no_gpus_are_out_of_range(ask):
    answer = ask("does qwen3 8b fit on 0x 4090?")
    assert answer.answer is None
    assert answer.missing == ["gpu_count: 0 is out of range."]


def test_a_gpu_that_is_not_known_is_named(ask):
    answer = ask("gpt2 on gtx 1050")
    assert answer.answer is None
    assert answer.missing[0].startswith("gpu: Unknown accelerator 'gtx 1050'.")


def test_a_teacher_that_is_named_by_its_size_is_estimated(ask):
    text = "I want to distill a 70B teacher model into an 8B student on 8xH100, memory?"
    answer = ask(text)
    assert answer.understood.flags == {"teacher_model": "70b"}
    assert answer.operation == "check_training_fit"
    assert answer.understood.model == "8b"


@pytest.mark.parametrize("words", ["2 requests per second", "2 req/s", "2 rps"])
def test_requests_a_second_are_answered_by_how_many_run_at_once(ask, words):
    answer = ask(f"llama 3.1 8b fp8 on an H100 at {words}, 1k in 200 out").answer
    load = answer["speed"]["load"]
    seconds = answer["speed"]["seconds_to_first_token"]["expected"] + (
        load["output_tokens"] / answer["speed"]["tokens_per_second_per_request"]["expected"]
    )
    assert answer["summary"].startswith(f"2 requests a second are up to {load['concurrency']} at")
    assert load["concurrency"] / seconds >= 2 > load["concurrency"] / 2 / seconds


def test_more_requests_a_second_than_a_gpu_ends_are_said_to_be_too_many(ask):
    answer = ask("Qwen3 8B on an L4 at 50 req/s, 1k in 200 out, enough?").answer
    assert answer["summary"].startswith("50 requests a second are too many: about ")
    assert answer["verdict"] == "fits"


def test_requests_a_second_without_a_gpu_are_said_to_need_one(ask):
    missing = ask("which GPU for llama 3.1 8b at 10 requests per second?").missing
    assert missing == ["10 requests a second: name a GPU to see how many run at once."]


@pytest.mark.parametrize("text, name", [("can I run foobar 13b on a 3090", "foobar")])
def test_a_name_before_a_size_that_is_not_known_is_said(ask, text, name):
    assert ask(text).missing == [f"model: {name} is not known; the answer is of any 13b."]


@pytest.mark.parametrize("word", ["a dense", "my quantized", "qlora", "running", "the other"])
def test_words_before_a_size_that_name_no_model_are_not_named(ask, word):
    assert ask(f"does {word} 13b fit on an A100 80GB").missing == []


@pytest.mark.parametrize(
    "text, note",
    [
        (
            "can a 1660 super do stable diffusion and a 3b llm",
            "model: stable diffusion generates images: not estimated.",
        ),
        ("train gemma 3 270m on cpu?", "gpu: runs without one are not estimated."),
    ],
)
def test_what_is_not_estimated_is_said_beside_the_answer(ask, text, note):
    answer = ask(text)
    assert answer.answer is not None
    assert [one for one in answer.missing if one.startswith(note)]


def test_where_weights_are_not_published_those_that_fit_are_listed(ask):
    answer = ask("can I run chatgpt on an RTX 3070 with 32 GB of RAM?")
    assert answer.operation == "list_models_that_fit"
    assert answer.answer["items"]
    assert answer.missing[0].startswith("model: chatgpt has no published weights")
    assert answer.missing[1].startswith("host_memory_gib:")


def test_more_gpus_than_a_list_of_options_goes_to_are_counted_by_the_fit(ask):
    answer = ask("How many L40S do I need for DeepSeek-V3 FP8 with 128k context?")
    assert answer.operation == "check_fit"
    assert answer.answer["verdict"] == "fits"
    assert answer.answer["gpu"]["count"] == answer.answer["limits"]["min_gpu_count"] > 16


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("full fine-tune llama 3 8b on 8 H100, global batch size 128, seq 4096", 16),
        ("pretrain a 1.3B model on 8 A100 80GB, batch size 512", 64),
        ("lora qwen3 8b on a 4090 with gradient accumulation 8 batch 2", 8),
    ],
)
def test_the_command_accumulates_to_the_batch_of_a_step(ask, text, passes):
    answer = ask(text)
    assert answer.not_understood == []
    assert f"--gradient_accumulation_steps {passes} " in answer.answer["launch"]["command"]


def test_a_second_model_without_a_name_is_said_to_be_left_out(ask):
    (said,) = ask("Can I serve both a 7B chat model and a reranker on a single A10G?").missing
    assert said.startswith("and a reranker: ")


def test_host_memory_that_is_offered_without_a_size_is_said(ask):
    answer = ask("is my 4080 16gb enough for gemma3 27b if I offload to ram?")
    (note,) = answer.missing
    assert note.startswith("host_memory_gib: taken as 64")
    assert "GiB of host memory in addition." in answer.answer["summary"]


@pytest.mark.parametrize(
    ("text", "read"),
    [("ExLlamaV3 70B 4.0bpw 2x3090 32k", "4.0bpw"), ("exl2 70B 4.0bpw on 2x3090", "exl2")],
)
def test_bits_of_exllama_are_answered_by_a_file_of_as_many(ask, text, read):
    answer = ask(text)
    assert answer.understood.quantization == read
    assert answer.answer["understood_as"]["quantization"] == "q3_k_m"
    assert any("GGUF file of about as many bits" in note for note in answer.missing)


def test_host_memory_that_is_asked_for_is_said_to_be_taken_as_enough(ask):
    answer = ask("how much RAM do I need for Qwen3-Coder-480B Q4 with a 5090")
    assert any(note.startswith("host_memory_gib: taken as enough") for note in answer.missing)
    assert "GiB of host memory in addition." in answer.answer["summary"]


@pytest.mark.parametrize(
    ("written", "form"),
    [("1.58bit", "iq1_s"), ("1.73-bit", "iq1_m"), ("2.51 bit", "q2_k"), ("4.5-bit", "q4_k_m")],
)
def test_a_fraction_of_bits_is_the_file_whose_type_has_about_as_many(ask, written, form):
    answer = ask(f"DeepSeek R1 {written} on a mac studio 512gb")
    assert answer.understood.quantization == form
    assert any("mix types in a way of their own" in note for note in answer.missing)
