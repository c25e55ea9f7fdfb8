"""POST /v1/ask: the answer is that of the operation, for what the text says and nothing else."""

import asyncio

import msgspec
import pytest

from fitgauge.errors import QueueFullError
from fitgauge.services.ask.schemas import AskRequest
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.models_for_gpu.schemas import ModelsForGpuRequest
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
    "words",
    [
        "text only",
        "no vision",
        "nur Text",
        "纯文本",
        '--limit-mm-per-prompt \'{"image":0,"video":0}\'',
    ],
)
def test_a_model_that_also_sees_is_served_for_text_alone(ask, words):
    asked = "vllm serve Qwen/Qwen3.6-27B-AWQ --max-model-len 32768"
    whole = ask(f"{asked} {words} on a 4090")
    answer = whole.answer
    assert answer["understood_as"]["language_model_only"] is True
    assert whole.understood.language_model_only is True
    assert "--language-model-only" in answer["launch"]["command"]
    assert "language_model_only" not in ask(f"{asked} on a 4090").answer["understood_as"]


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


def test_a_list_of_models_to_train_is_not_one_of_models_to_serve(ask, questions):
    answer = ask("What is the largest model I can qlora on a 4090 with 4k context?")
    assert answer.operation == "list_models_that_fit"
    request = ModelsForGpuRequest(
        gpu="4090",
        task="training",
        method="qlora",
        sequence_length=4096,
        objective="largest",
        limit=10,
    )
    listed = msgspec.to_builtins(asyncio.run(questions.list_models_that_fit(request)))
    assert answer.answer["items"] == listed["items"]
    assert answer.answer["items"]


def test_a_cloud_s_machines_are_ordered_by_price(ask):
    answer = ask("which AWS instance serves qwen3 32b?").answer
    offers = {rental["cloud"] for item in answer["items"] for rental in item["cost"]["rentals"]}
    prices = [item["cost"]["usd_per_hour_low"] for item in answer["items"]]
    assert offers == {"aws"}
    assert prices == sorted(prices)


def test_full_precision_is_as_published(ask):
    answer = ask("a 32b model in full precision: how many H100?").answer
    assert {item["quantization"] for item in answer["items"]} == {"as published"}


def test_models_at_once_on_one_gpu_are_added(ask):
    text = "Can I run Qwen/Qwen3-Embedding-8B and Qwen/Qwen3-Reranker-4B together on one L4?"
    assert ask(text).answer["summary"].startswith("At once they do not fit on 1 x L4")


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


def test_several_models_are_all_answered(ask):
    answer = ask("llama 3.1 8b or qwen3 14b for qlora on a 4090?")
    assert answer.operation == "check_training_fit"
    assert answer.missing == []
    assert [one["model"]["id"] for one in answer.answers] == [
        "meta-llama/Llama-3.1-8B-Instruct",
        "Qwen/Qwen3-14B",
    ]
    assert answer.answer == answer.answers[0]


def test_one_model_has_one_answer(ask):
    assert ask("qwen3 14b qlora on a 4090?").answers is msgspec.UNSET


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


def test_a_command_without_a_context_is_judged_with_the_whole_one_that_it_starts_with(ask):
    answer = ask("vllm serve Qwen/Qwen3-0.6B on a 4090?").answer
    assert answer["understood_as"]["context_length"] == answer["model"]["max_context_length"]
    answer = ask("OOM with vllm serve meta-llama/Llama-3.1-8B-Instruct on a 3090, why?").answer
    started, fits, *_ = answer["summary"].split("; ")
    assert started.startswith("As started, with the model's whole context of 131,072 tokens, it do")
    longest = answer["understood_as"]["context_length"]
    assert fits.startswith(f"with {longest:,} tokens it fits.")
    assert longest == answer["limits"]["max_context_length"] > 16384
    assert f"--max-model-len {longest}" in answer["launch"]["command"]
    answer = ask("llama-server -hf bartowski/Qwen_Qwen3-8B-GGUF:Q4_K_M on a 4090?").answer
    assert "As started" not in answer["summary"]


def test_a_command_that_needs_other_settings_is_told_so(ask):
    asked = "vllm serve Qwen/Qwen3-32B-AWQ --max-model-len {} on a 4090?"
    answer = ask(asked.format(8192)).answer
    assert answer["summary"].startswith("As started it does not fit. Qwen/Qwen3-32B-AWQ fits on")
    assert ask(asked.format(512)).answer["summary"].startswith("Qwen/Qwen3-32B-AWQ fits on")


def test_the_tool_that_trains_is_the_one_that_is_named(ask):
    command = ask("Can I QLoRA qwen3 8b with unsloth on a T4?").answer["launch"]["command"]
    assert "FastLanguageModel" in command


def test_tokens_of_prompts_and_completions_are_those_of_sampling(ask):
    answer = ask("GRPO of qwen3 4b on an H100, prompts of 2k tokens, completions of 1k tokens")
    understood = answer.answer["understood_as"]
    assert (understood["prompt_length"], understood["completion_length"]) == (2048, 1024)
    assert understood["sequence_length"] == 3072


def test_which_format_to_take_is_a_table_of_formats_from_the_widest(ask):
    answer = ask("Which quant of qwen3-32b should I take for a 24GB card?")
    formats = [row["quantization"] for row in answer.answer["items"]]
    assert formats.index("q8_0") < formats.index("q4_k_m") < formats.index("q2_k")
    fitting = [row["quantization"] for row in answer.answer["items"] if row["verdict"] == "fits"]
    assert fitting[0] in answer.answer["summary"]
    assert answer.missing == []
    fit = ask(f"qwen3-32b {fitting[0]} on 24GB").answer
    assert answer.launch.command == fit["launch"]["command"]


@pytest.mark.parametrize("gpus", ["a 3090 and a 4090 together", "RTX 3090 + RTX 4090"])
def test_gpus_of_several_kinds_are_divided_over_by_the_engine_that_can(ask, gpus):
    answer = ask(f"will qwen3 32b fit on {gpus}?")
    assert answer.answer["understood_as"]["engine"] == "llama.cpp"
    assert [line.partition(":")[0] for line in answer.missing] == ["engine"]
    plain = ask(f"will qwen3 32b in q6 fit on {gpus}?")
    assert plain.answer["understood_as"]["engine"] == "llama.cpp"
    assert plain.missing == []


def test_a_table_in_which_nothing_fits_is_one_of_formats(ask):
    answer = ask("RTX 5070 Ti or RTX 3090 for Qwen3 32B?")
    fitting = [row for row in answer.answer["items"] if row["verdict"] == "fits"]
    assert {row["gpu"] for row in fitting} == {"RTX 5070 Ti", "RTX 3090"}
    assert [line.partition(":")[0] for line in answer.missing] == ["quantization"]
    named = ask("RTX 5070 Ti or RTX 3090 for Qwen3 32B in bf16?")
    assert {row["quantization"] for row in named.answer["items"]} == {"bf16"}


def test_models_on_one_gpu_are_added_up(ask):
    answer = ask("can I serve llama3 8b and qwen3 8b on the same 4090?").answer
    needs = sum(row["required_bytes"]["expected"] for row in answer["items"])
    assert answer["summary"].startswith("At once they do not fit on 1 x RTX 4090: ")
    assert f" = {needs / 2**30:.1f} of " in answer["summary"]
    small = ask("can I serve qwen3 0.6b and qwen3 1.7b on the same H100?").answer
    assert small["summary"].startswith("At once they fit on ")
    apart = ask("compare llama3 8b and qwen3 8b on a 4090").answer
    assert "At once" not in apart["summary"]


def test_engines_side_by_side_are_rows(ask):
    answer = ask("vllm vs llama.cpp for qwen3 14b on a 4080").answer
    assert [row["engine"] for row in answer["items"]] == ["vllm", "llama.cpp"]
    assert "llama.cpp" in answer["summary"]


def test_the_cheaper_of_two_is_told_with_its_price(ask):
    answer = ask("which is cheaper for llama 3.3 70b: 2x A100 80GB or 4x L40S?")
    assert answer.operation == "recommend_gpus"
    assert answer.answer["objective"] == "cheapest"
    assert answer.answer["summary"].startswith("The cheapest ")


def test_both_halves_of_disaggregated_serving_are_answered(ask, questions):
    text = "qwen3 32b: prefill on 2x H100, decode on 4x H200, 32k context, 32 users"
    answer = ask(text)
    requests = [
        FitRequest(
            model="qwen3 32b", gpu="2x H100", context_length=32768, disaggregation="prefill"
        ),
        FitRequest(
            model="qwen3 32b",
            gpu="4x H200",
            context_length=32768,
            concurrency=32,
            disaggregation="decode",
        ),
    ]
    for one, request in zip(answer.answers, requests, strict=True):
        assert one == msgspec.to_builtins(asyncio.run(questions.check_fit(request))[1])
        assert f"({request.disaggregation})" in one["summary"]


def test_the_servers_of_a_half_share_its_requests(ask):
    answer = ask("1P3D with 8xH100 each for deepseek r1 in sglang, 90 requests")
    prefill, decode = (one["understood_as"] for one in answer.answers)
    assert (prefill["disaggregation"], decode["disaggregation"]) == ("prefill", "decode")
    assert (prefill["concurrency"], decode["concurrency"]) == (1, 30)
    assert any("3 decode servers" in line for line in answer.missing)


def test_no_gpus_are_out_of_range(ask):
    answer = ask("does qwen3 8b fit on 0x 4090?")
    assert answer.answer is None
    assert answer.missing == ["gpu_count: 0 is out of range."]


def test_a_gpu_that_is_not_known_is_named(ask):
    answer = ask("gpt2 on gtx 1050")
    assert answer.answer is None
    assert answer.missing[0].startswith("gpu: Unknown accelerator 'gtx 1050'.")


def test_the_largest_of_a_family_is_searched_for_in_the_list(ask):
    models = [row["model"] for row in ask("largest qwen for a 3090?").answer["items"]]
    assert models
    assert all("qwen" in model.lower() for model in models)


def test_distillation_is_said_not_to_be_estimated(ask):
    text = "I want to distill a 70B teacher model into an 8B student on 8xH100, memory?"
    answer = ask(text)
    assert any("distillation is not estimated" in note for note in answer.missing)
    assert answer.operation == "check_training_fit"
    assert answer.understood.model == "8b"


def test_formats_of_a_cache_side_by_side_have_an_answer_each(ask):
    answer = ask("Llama 3.3 70B AWQ on 2x A6000: fp8 or fp16 kv cache at 32k?")
    caches = [one["understood_as"]["kv_cache_dtype"] for one in answer.answers]
    assert [cache.split()[0] for cache in caches] == ["f8_e4m3", "f16"]
    assert answer.understood.quantization == "awq"


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
        (
            "train gemma 3 270m on cpu?",
            "on cpu: runs without a GPU of their own are not estimated.",
        ),
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


def test_a_release_that_is_named_is_judged(ask):
    answer = ask("will qwen3 8b fit on a 3090 with vLLM 0.11.0?").answer
    assert answer["understood_as"]["engine_version"] == "0.11.0"


def test_host_memory_that_is_offered_without_a_size_is_said(ask):
    answer = ask("is my 4080 16gb enough for gemma3 27b if I offload to ram?")
    (note,) = answer.missing
    assert note.startswith("host_memory_gib: taken as 64")
    assert "GiB in host memory it does" in answer.answer["summary"]


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
    assert "GiB in host memory it does" in answer.answer["summary"]


@pytest.mark.parametrize(
    ("written", "form"),
    [("1.58bit", "iq1_s"), ("1.73-bit", "iq1_m"), ("2.51 bit", "q2_k"), ("4.5-bit", "q4_k_m")],
)
def test_a_fraction_of_bits_is_the_file_whose_type_has_about_as_many(ask, written, form):
    answer = ask(f"DeepSeek R1 {written} on a mac studio 512gb")
    assert answer.understood.quantization == form
    assert any("mix types in a way of their own" in note for note in answer.missing)


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        ("llama-server -hf ggml-org/gpt-oss-120b-GGUF -c 8192 -ngl 12 on a 4090", "-ngl 12"),
        ("gpt-oss-120b on a 4090 with -ngl 12", "-ngl 12"),
        ("gpt-oss-120b on a 4090 in llama.cpp, 12 layers on the GPU", "-ngl 12"),
        ("gpt-oss-120b on 24gb with --n-cpu-moe 30", "--n-cpu-moe 30"),
    ],
)
def test_layers_that_a_question_keeps_in_host_memory_are_judged(ask, text, flags):
    answer = ask(text).answer
    assert answer["verdict"] == "fits"
    assert answer["launch"]["command"].endswith(flags)
    assert "GiB of host memory" in answer["summary"]


def test_tensors_that_a_command_keeps_in_host_memory_by_other_names_are_named(ask):
    answer = ask("llama-server -hf ggml-org/gpt-oss-20b-GGUF -c 8192 -ot attn=CPU on a 4090")
    assert any("`-ot` is not read" in note for note in answer.missing)
