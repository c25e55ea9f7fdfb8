"""POST /v1/ask: what a question asks for is said first, and the command holds it."""

import asyncio
import re

import pytest

from fitgauge.catalog.catalog import bundled
from fitgauge.catalog.snapshot import Snapshot
from fitgauge.errors import InvalidRequestError
from fitgauge.services.ask.schemas import AskRequest
from fitgauge.services.ask.service import AskService


def test_how_fast_is_answered_first(ask):
    of_mac = ask("how many tokens/s will I get with llama 3.3 70b q4 on M3 Ultra?")
    assert re.match(r"About \d+ tokens/s \(", of_mac.answer["summary"])
    of_other = ask("M4 Max 128GBでgpt-oss-120bは何トークン/秒？")
    assert of_other.answer["summary"].startswith("About ")
    texts = ask("how long will it take to embed 10 million passages with bge-m3 on a T4").answer
    texts = texts["summary"]
    assert texts.startswith("About ")
    assert "texts a second of 8,192 tokens each" in texts
    assert "10,000,000 of them take about" in texts


def test_the_faster_of_two_is_told_of_one_each(ask):
    answer = ask("how many tokens per second for llama 8b on h100 vs a100").answer
    assert answer["objective"] == "fastest"
    assert {option["gpu"]["count"] for option in answer["options"]} == {1}
    assert answer["options"][0]["gpu"]["name"] == "H100 SXM"


def test_the_longest_context_that_is_asked_for_is_said_first_and_started(ask):
    answer = ask("What context length can I get with Qwen2.5-32B-Instruct-AWQ on a 4090?").answer
    longest = answer["limits"]["max_context_length"]
    assert answer["summary"].startswith(f"{longest:,} tokens of context at most. ")
    assert f"--max-model-len {longest} " in answer["launch"]["command"]
    assert answer["verdict"] == "fits"


def test_the_most_users_that_are_asked_for_are_said_first_and_started(ask):
    answer = ask("How many users can one H200 handle with Llama 3.1 70B FP8 at 8k tokens?").answer
    most = answer["limits"]["max_concurrency"]
    assert most > 1
    assert answer["summary"].startswith(f"{most} requests at once at most. ")
    assert answer["understood_as"]["concurrency"] == most
    assert answer["verdict"] == "fits"


def test_the_largest_batch_that_is_asked_for_is_said_first_and_started(ask):
    answer = ask("what batch size fits for qlora 13b on a 16GB T4 at 1024 tokens").answer
    most = answer["limits"]["max_micro_batch_size"]
    assert most > 1
    assert answer["summary"].startswith(f"{most} sequences in a micro-batch at most. ")
    assert f"--per_device_train_batch_size {most} " in answer["launch"]["command"]


@pytest.mark.parametrize(
    "text",
    [
        "how long sequences can I use for qlora of Qwen3-8B on a 4090?",
        "sequence length max for qlora Qwen3-8B on a 4090",
    ],
)
def test_the_longest_sequences_that_are_asked_for_are_said_first_and_started(ask, text):
    answer = ask(text).answer
    longest = answer["limits"]["max_sequence_length"]
    assert answer["summary"].startswith(f"{longest:,} tokens in a sequence at most. ")
    assert f"--max_length {longest} " in answer["launch"]["command"]


def test_the_most_is_asked_for_in_other_languages(ask):
    text = "Quantos usuários simultâneos uma A100 80GB aguenta com llama 3 8b?"
    assert "requests at once at most. " in ask(text).answer["summary"]


def test_the_most_of_each_of_several_formats_is_said_first(ask):
    answer = ask("awq vs fp8 for llama 3.3 70b on 2 x l40s - how many users each?").answer
    assert answer["summary"].startswith("Requests at once at most: awq ")
    assert ", fp8 " in answer["summary"].partition(". ")[0]


def test_the_copies_that_are_asked_for_are_said_first(ask):
    text = "We have 16 H100s. How many replicas of Qwen3-235B-A22B-FP8 with 32k context fit?"
    answer = ask(text).answer
    each = answer["limits"]["min_gpu_count"]
    assert answer["summary"].startswith(f"{16 // each} copies at most, each on {each} GPUs. ")
    alone = ask(text.replace("16", "2")).answer["summary"]
    assert alone.startswith(f"No copy fits: one takes {each} GPUs. ")


def test_an_out_of_memory_of_a_training_is_not_told_by_what_serving_needs(ask):
    text = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.96 GiB. GPU 0 has a total"
        " capacity of 23.64 GiB of which 1.12 GiB is free. Including non-PyTorch memory, this"
        " process has 22.51 GiB memory in use. -- lora training llama-3.1-8b"
    )
    answer = ask(text)
    assert answer.operation == "explain_log"
    assert "weights" not in answer.answer["summary"]
    answer = ask(text.replace("lora training", "unsloth lora on a 4090,")).answer
    assert answer["understood_as"]["trainer"] == "unsloth"
    assert answer["model"]["id"] == "meta-llama/Llama-3.1-8B-Instruct"


def test_a_gpu_that_is_unknown_is_answered_by_its_memory(ask):
    answer = ask("Could an M4000 8GB run a 7B?")
    assert answer.understood.gpu == "8GB"
    assert answer.missing == ["gpu: M4000 is not in the catalog; the answer is of any GPU of 8GB."]


def test_where_nothing_fits_no_most_is_said(ask):
    answer = ask("What max context does Llama 3.1 70B have on a 3060 12GB?").answer
    assert answer["verdict"] == "does_not_fit"
    assert "at most" not in answer["summary"].partition(":")[0]


@pytest.mark.parametrize(
    ("text", "begins"),
    [
        (
            "What is the KV cache size of Llama 3.1 70B at 128k?",
            "The KV cache takes 40.00 GiB for 131,072 tokens, about 320 KiB a token. ",
        ),
        (
            "How big is the kv cache of llama 3.1 70b at 128k on 4x H100?",
            "The KV cache takes 40.00 GiB over 4 GPUs for 131,072 tokens, about 320 KiB a token. ",
        ),
    ],
)
def test_the_size_of_the_cache_that_is_asked_for_is_said_first(ask, text, begins):
    assert ask(text).answer["summary"].startswith(begins)


@pytest.mark.parametrize(
    ("text", "begins"),
    [
        ("M1 Max 64GB llama 70b q4 tokens per second", "About "),
        ("how many embeddings per second with bge-large on an L4", "About "),
        ("will llama 8b run on a 3090, I saw 70 tokens per second", "meta-llama/"),
    ],
)
def test_a_speed_is_said_first_where_it_is_asked_for_and_not_told(ask, text, begins):
    assert ask(text).answer["summary"].startswith(begins)


def test_four_bits_of_qlora_are_those_that_it_quantizes_to(ask):
    answer = ask("axolotl QLoRA of Mistral-7B-v0.1, load_in_4bit: true, on a 3090").answer
    assert answer["understood_as"]["quantization"].startswith("nf4")
    assert "adapter: qlora" in answer["launch"]["command"]


def test_memory_that_others_hold_is_not_there_for_the_model(ask):
    text = "nvidia-smi shows 12GB used on my 3090, does llama 3.1 8b still fit?"
    assert ask(text).answer["verdict"] == "does_not_fit"
    assert ask(text.replace("12GB used", "driver 580")).answer["verdict"] == "fits"


@pytest.mark.parametrize(
    ("text", "gib"),
    [
        ("gemma 3 12b q4 on a 4090 that already uses 6GB for another model", 6),
        ("gemma 3 12b q4 with only 10GB of VRAM free on my 4090", 13.6),
        ("1200MiB are already in use by my desktop, phi-4 q4_k_m on a 4070?", 1.2),
        ("OOM with gemma 3 12b on a 4090: 23.5 GB used", None),
        ("| N/A 34C | 6144MiB / 24564MiB | a 4090: does gemma 3 12b q4 run?", 6),
        ("OOM with gemma 3 12b on a 4090: | N/A 34C | 23100MiB / 24564MiB |", None),
        ("GPU 0 has 23.6 GiB of which 43.75 MiB is free: gemma 3 12b on a 4090", None),
    ],
)
def test_what_others_hold_is_read_as_used_or_as_free(ask, text, gib):
    read = ask(text).understood.other_memory_gib
    assert read is None if gib is None else read == pytest.approx(gib, abs=0.1)


def test_a_log_without_model_is_read_as_a_log(ask):
    text = (
        "To serve at least one request with the models's max seq len (40960), (10.00 GiB KV cache"
        " is needed, which is larger than the available KV cache memory (3.32 GiB)."
    )
    answer = ask(text)
    assert answer.operation == "explain_log"
    assert "the KV cache does not" in answer.answer["summary"]


def test_the_longest_sequence_that_is_asked_for_is_said_first_and_started(ask):
    answer = ask("longest sequence I can train Qwen3-4B with LoRA on a 4080?").answer
    longest = answer["understood_as"]["sequence_length"]
    assert answer["summary"].startswith(f"{longest:,} tokens in a sequence at most. ")
    assert f"--max_length {longest} " in answer["launch"]["command"]
    longer = ask(f"train Qwen3-4B with LoRA on a 4080 at {longest + 512} tokens").answer
    assert (answer["verdict"], longer["verdict"]) == ("fits", "tight")


def test_methods_side_by_side_are_each_answered(ask):
    answer = ask("QLoRA vs LoRA vs full for Qwen3-8B on a 4090?")
    methods = [one["understood_as"]["method"] for one in answer.answers]
    assert methods == ["qlora", "lora", "full"]
    assert answer.answer["understood_as"]["method"] == "qlora"


def test_a_budget_to_buy_is_said_not_to_be_used(ask):
    missing = ask("budget 5000€, which GPUs should we buy for Llama 3.3 70B?").missing
    assert any("to buy is not known here" in one for one in missing)
    missing = ask("budget of $3 per hour, which GPUs for Llama 3.3 70B?").missing
    assert not any("to buy is not known here" in one for one in missing)


def test_an_engine_that_takes_a_share_takes_of_what_others_leave(ask):
    answer = ask("80 GB left on an H200 after another model. Does gemma 3 27b bf16 fit?").answer
    assert answer["verdict"] == "fits"
    assert "--gpu-memory-utilization 0.55" in answer["launch"]["command"]


def test_the_most_users_are_said_first_in_german(ask):
    text = "Wie viele gleichzeitige Nutzer schafft eine L40S mit Llama 3.1 8B bei 8k Kontext?"
    assert "requests at once at most. " in ask(text).answer["summary"]


def test_gpus_side_by_side_are_told_by_their_speed_in_one_format(ask):
    text = "what's better for qwen3 coder 30b a3b: 2x 5060 ti 16gb or 1x 3090?"
    first, *_ = ask(text).answer["summary"].split(". 1")
    assert first.startswith("Tokens a second of one request, weights q5_k_m: 1 x RTX 3090 about ")
    assert "), 2 x RTX 5060 Ti 16GB about " in first


def test_formats_side_by_side_are_told_without_speeds(ask):
    summary = ask("compare bf16 and fp8 for qwen3 14b on a 4090").answer["summary"]
    assert summary.startswith("1 of 2 fit")


def test_models_on_one_gpu_that_is_not_named_are_added_up(ask):
    answer = ask("How much VRAM for whisper large v3 + llama 3.1 8b on the same gpu?")
    first, second = (
        one["needs"][0]["required_bytes"]["expected"] / 2**30 for one in answer.answers
    )
    total = f"{first:.1f} + {second:.1f} = {first + second:.1f} GiB"
    assert answer.answer["summary"].startswith(f"At once they need {total}. ")


def test_the_longest_context_below_the_usual_one_is_the_answer_too(ask):
    answer = ask("How much context can I get with mistral small 3.2 q4 on 16gb?").answer
    tokens = answer["understood_as"]["context_length"]
    assert (answer["verdict"], tokens < 8192) == ("fits", True)
    assert answer["summary"].startswith(f"{tokens:,} tokens of context at most. ")
    assert f" -c {tokens} " in answer["launch"]["command"]


def test_the_flag_of_the_context_is_its_name_too(ask):
    answer = ask("What max_model_len should I set for Qwen3-30B-A3B-FP8 on an L40S?").answer
    tokens = answer["understood_as"]["context_length"]
    assert answer["summary"].startswith(f"{tokens:,} tokens of context at most. ")
    assert f"--max-model-len {tokens}" in answer["launch"]["command"]


def test_an_engine_that_serves_is_no_trainer(ask):
    missing = ask("Can an M4 Max 128GB do LoRA on a 32B model with mlx?").missing
    assert missing == ["engine: mlx serves; training is estimated in PyTorch."]


def test_a_list_for_unlike_gpus_is_of_the_first(ask):
    answer = ask("I have a 3090, a 3060 12gb and a 2070 super. What can I run?")
    assert answer.answer["gpu"]["name"] == "RTX 3090"
    assert answer.missing == [
        "gpus: the list is of 3090 alone; name a model to divide it over all."
    ]


def test_weights_in_host_memory_are_in_the_command(ask):
    answer = ask("vllm with cpu offload 10GB: does qwen3 14b fp16 work on a 4090?").answer
    assert "--cpu-offload-gb 10" in answer["launch"]["command"]


def test_an_error_of_blocks_is_told_what_it_means(ask):
    text = (
        "ValueError: The output_size of gate's and up's weight = 192 is not divisible by weight"
        " quantization block_n = 128. Qwen3-30B-A3B-FP8 on 4x 3090 tp 4"
    )
    assert any("send a smaller `tensor_parallel`" in one for one in ask(text).missing)


def test_the_most_of_the_one_row_that_fits_is_said_with_its_name(ask):
    answer = ask("H100 NVL vs H100 SXM: Llama 3.3 70B FP8 at 16k, how many users each?").answer
    assert [row["verdict"] for row in answer["items"]].count("fits") == 1
    assert answer["summary"].startswith("Requests at once at most: 1 x H100 NVL ")


def test_the_most_is_of_the_same_weights_in_a_format_that_fits(ask):
    answer = ask("How much context can Qwen3-32B have on one 4090?").answer
    assert answer["summary"].startswith("To fit, use Qwen/Qwen3-32B-AWQ")
    assert answer["verdict"] == "fits"
    assert (
        f"--max-model-len {answer['limits']['max_context_length']} " in answer["launch"]["command"]
    )


def test_the_most_context_of_two_gpus_is_told_of_one_format_of_each(ask):
    text = "4090 or 2x 3060 12GB for qwen3 30b a3b with as much context as possible?"
    lead = ask(text).answer["summary"].partition(". ")[0]
    assert lead.startswith("Tokens of context at most: 1 x RTX 4090 ")
    assert ", 2 x RTX 3060 12GB " in lead


def test_what_a_month_costs_is_said_first(ask):
    answer = ask("what does it cost per month to host gpt-oss-20b on AWS?").answer
    hourly = min(one["cost"]["usd_per_hour_low"] for one in answer["options"])
    assert answer["summary"].startswith(f"From {hourly * 730:,.0f} USD a month ")


def test_more_than_a_model_reads_is_answered_with_what_it_reads(ask):
    answer = ask("how many 4090 for llama 2 7b at 32k context")
    assert answer.answer["understood_as"]["context_length"] == 4096
    assert "exceeds the 4,096 tokens" in answer.missing[0]


def test_a_log_is_explained_with_the_command_above_it(ask):
    text = (
        "./llama-server -m Qwen3-32B-Q5_K_M.gguf -c 40960 -ngl 99 --host 0.0.0.0 --port 8080\n"
        "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 10240.00 MiB on device 0:"
        " cudaMalloc failed: out of memory\nthis is on a 3090. why does it not start?"
    )
    answer = ask(text)
    assert answer.operation == "explain_log"
    assert "kv_cache 10.00 GiB" in answer.answer["summary"]
    assert "First: offload" in answer.answer["summary"]


def test_the_most_requests_are_said_where_the_usual_engine_is_tight(ask):
    answer = ask("how many users can a 4060 Ti 16GB serve with gpt-oss-20b at 8k?").answer
    assert answer["verdict"] == "fits"
    assert " requests at once at most. " in answer["summary"]


def test_too_little_memory_of_the_machine_is_said_first(ask):
    answer = ask("64gb of ram and a 4070 for qwen3 235b q2 with experts on cpu, ok?").answer
    assert answer["verdict"] == "does_not_fit"
    assert answer["summary"].startswith("In host memory it would take ")
    assert ", and 64 GiB do not hold that. " in answer["summary"]


def test_how_many_gpus_it_takes_is_said_where_none_of_a_table_fits(ask):
    answer = ask("2 x MI300X vs 4 x H100 for llama 3.1 405b fp8?").answer
    lead = answer["summary"].partition(". ")[0]
    least = ask("llama 3.1 405b fp8 on 4 x H100?").answer["limits"]["min_gpu_count"]
    assert lead.startswith("It takes ")
    assert lead.endswith(f" or {least} x H100 SXM")


def test_how_many_gpus_it_takes_is_said_of_the_weights_as_published(ask):
    """Not of the smallest of the formats that the table adds where those do not fit."""
    answer = ask("H200 or H100 for deepseek v3?").answer
    lead = answer["summary"].partition(". ")[0]
    least = ask("deepseek v3 on an H100?").answer["limits"]["min_gpu_count"]
    assert lead.endswith(f" {least} x H100 SXM") or f" {least} x H100 SXM or " in lead


def test_a_degree_that_divides_nothing_is_answered_by_another(ask):
    answer = ask("vLLM TP=3 on 3x 3090 with Qwen2.5-32B AWQ?")
    assert answer.missing[0].startswith("tensor_parallel: `tensor_parallel` 3 does not divide")
    assert answer.answer["verdict"] == "fits"
    assert "--pipeline-parallel-size 3" in answer.answer["launch"]["command"]


def test_copies_with_a_gpu_of_their_own_share_none(ask):
    answer = ask("two replicas of qwen2.5 7b, one L4 each, 8 users per replica at 4k")
    assert answer.missing == []
    assert answer.answer["understood_as"]["gpu_memory_utilization"] > 0.9


def test_the_largest_batch_is_of_a_method_that_fits(ask):
    answer = ask("LoRA of Mistral Nemo at 4096 tokens on a 4090, which batch size?").answer
    assert answer["verdict"] == "fits"
    assert answer["summary"].startswith("To fit, ")
    assert " in a micro-batch at most. " in answer["summary"]


def test_a_setting_that_is_wrong_is_named_and_left_out(ask):
    answer = ask("qwen2.5 32b awq with a 0.5b draft on an A6000 at 8k")
    assert answer.missing[0].startswith("draft_model: ")
    assert len(answer.missing) == 1
    assert answer.answer["verdict"] == "fits"


def test_several_models_without_a_comparison_are_one_load(ask):
    answer = ask("can a 12GB 3060 hold whisper large v3 turbo, piper and qwen3 4b awq").answer
    assert answer["summary"].startswith("At once they fit on 1 x RTX 3060 12GB: ")


def test_a_list_of_models_says_that_it_is_in_no_order_of_skill(ask):
    said = [note for note in ask("best coding model for a 4090?").missing if "good at" in note]
    assert len(said) == 1
    assert not ask("which models fit on a 4090?").missing


def test_what_errors_say_to_send_is_sent_a_few_times_at_most():
    """Two refusals that send each other are an advice, not a circle."""
    calls = []

    async def refuse(request):
        calls.append(request.engine)
        other = "vllm" if request.engine == "sglang" else "sglang"
        raise InvalidRequestError(
            "Not here.", hint="Send it.", field="engine", send={"engine": other}, code="unsupported"
        )

    service = AskService(Snapshot(), bundled(), {"check_fit": refuse})
    request = AskRequest(question="qwen3 8b on a 4090 with vllm?")
    answer = asyncio.run(service.answer(request))
    assert answer.answer is None
    assert answer.missing
    assert len(calls) <= 5


def test_memory_of_the_machine_that_is_offered_is_used(ask):
    answer = ask("qwen3 30b a3b q4_k_m on a 3060 12gb with 64GB of RAM").answer
    assert answer["summary"].startswith("As asked it does not fit. To fit, offload ")
    assert answer["verdict"] == "fits"
    assert "--n-cpu-moe" in answer["launch"]["command"]


def test_the_layers_that_are_asked_for_are_those_of_the_command(ask):
    answer = ask("how many layers of llama 3.3 70b q4_k_m fit a 16gb 4080 with 64gb ram?").answer
    layers = answer["launch"]["command"].partition("-ngl ")[2].split()[0]
    assert f" {layers} layers on the GPU. " in answer["summary"]


@pytest.mark.parametrize(
    "text, form, held",
    [
        ("no GPU, 1 TB RAM. can I run deepseek v3 q4?", "q4_k_m", "hold that"),
        ("cpu only with 256gb ram, which quant of qwen3 235b a22b?", "q8_0", "hold that"),
        ("can llama 3.3 70b run on cpu with 16gb of ram", "q2_k", "do not hold that"),
        ("will an iphone run gemma 3n?", "q4_k_m", "tokens of context."),
    ],
)
def test_a_machine_without_a_gpu_is_answered_by_its_own_memory(ask, text, form, held):
    answer = ask(text).answer
    assert answer["summary"].startswith("Without a GPU ")
    assert held in answer["summary"]
    assert [need["name"] for need in answer["needs"]] == [form]
    assert answer["smallest"] == []


def test_a_training_that_the_machine_is_too_small_for_does_not_fit(ask):
    text = "zero3 offload, full finetune of llama 3.1 8b on a 4090 with {} GB of system ram"
    small, large = ask(text.format(32)), ask(text.format(256))
    assert (small.answer["verdict"], large.answer["verdict"]) == ("does_not_fit", "fits")
    assert " does not fit " in small.answer["summary"].partition(";")[0]
    assert small.answer["summary"].endswith("the machine has 32 GiB.")
    assert small.answer["launch"] is None


def test_copies_are_counted_and_one_is_started(ask):
    answer = ask("can 8x L40S host 3 replicas of Qwen3-32B-FP8?").answer
    each = answer["limits"]["min_gpu_count"]
    assert answer["summary"].startswith(f"{8 // each} copies at most, each on {each} GPU. ")
    assert answer["gpu"]["count"] == each


def test_the_speeds_of_two_models_are_said_first(ask):
    answer = ask("which is faster on a 4090, gemma 3 12b q8 or qwen3 14b q6?").answer
    assert answer["summary"].startswith("Tokens a second of one request: ")
    assert [row["quantization"] for row in answer["items"]] == ["q8_0", "q6_k"]


def test_a_log_of_a_training_that_is_told_is_answered_by_its_estimate(ask):
    log = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total"
    )
    log += " capacity of 23.64 GiB of which 1.20 GiB is free.\n"
    told = ask(log + "full finetune of qwen2.5 1.5b bs 8 seq 2048 w/ trl. why??")
    assert told.operation == "check_training_fit"
    assert told.answer["summary"].partition("; to fit, ")[1]
    untold = ask(log + "It was a full finetune of qwen2.5 1.5b with trl, and I see no reason. why?")
    assert untold.operation == "explain_log"


def test_a_bare_batch_size_that_is_asked_for_is_answered_with_the_largest(ask):
    answer = ask("training a 350M model from scratch on a 3090, batch size?").answer
    most = answer["limits"]["max_micro_batch_size"]
    assert answer["summary"].startswith(f"{most} sequences in a micro-batch at most. ")


def test_the_most_users_keep_the_speed_that_is_wanted(ask):
    text = "how many users can one L40S serve, mixtral 8x7b awq, 4k tokens each{}"
    fewer = ask(text.format(", at least 15 tok/s per user")).answer
    most = fewer["understood_as"]["concurrency"]
    assert fewer["summary"].startswith(f"{most} requests at once at most at that speed. ")
    assert fewer["speed"]["targets"][0]["reached"] in ("yes", "likely")
    assert most < ask(text.format("?")).answer["understood_as"]["concurrency"]


def test_what_goes_on_with_an_earlier_question_is_told_what_to_send(ask):
    (sentence,) = ask("same as before but with the 70b").missing
    assert sentence.startswith("question: name the model and the GPU in one")
    assert not ask("hello").missing


def test_the_tokens_that_the_cache_has_room_for_are_said(ask):
    answer = ask("deepseek-ai/DeepSeek-V3.1 with sglang on 8xH200, how many tokens of kv?").answer
    assert f"There is room for {answer['limits']['kv_cache_tokens']:,} tokens" in answer["summary"]


def test_models_that_share_a_gpu_are_added_up_where_none_is_named(ask):
    answer = ask("minimum gpu for whisper large v3 plus llama 3.1 8b on the same card?").answer
    assert answer["summary"].startswith("At once they need ")


@pytest.mark.parametrize(
    "text",
    [
        "what's the longest doc I can feed to llama 3.1 8b q4 on a 12gb 4070 with ollama",
        "q8 of llama 3.1 8b on a mac mini m4 pro 24gb, tok/s and ctx",
    ],
)
def test_the_longest_text_is_the_longest_context(ask, text):
    answer = ask(text).answer
    longest = answer["understood_as"]["context_length"]
    assert answer["summary"].startswith(f"{longest:,} tokens of context at most. ")


def test_copies_that_are_named_by_their_model_share_a_gpu(ask):
    answer = ask("serve 4x llama-3.1-8b copies on one H200?").answer
    assert answer["understood_as"]["gpu_memory_utilization"] == 0.23


def test_models_for_a_machine_without_a_gpu_are_files(ask):
    answer = ask("cpu only, 48gb ram, which model is best")
    assert {row["engine"] for row in answer.answer["items"]} == {"llama.cpp"}
    assert answer.missing[0].startswith("gpu: none; the list is of what as much memory holds")


def test_the_most_requests_a_second_are_said_first(ask):
    text = "How many requests per second for Mistral 7B on an L40S with 1k in and 200 out?"
    summary = ask(text).answer["summary"]
    assert re.match(r"About [\d.]+ requests a second end with \d+ at once, each ", summary)
    texts = ask("B200 for bge-reranker-v2-m3 at 500 queries/s?").answer["summary"]
    assert re.match(r"About \d+ texts a second of ", texts)


def test_models_on_one_gpu_are_added_up_on_each_that_is_named(ask):
    text = "Whisper large v3 and Llama 3.1 8B at the same time: an L4 or an A10G?"
    summary = ask(text).answer["summary"]
    sums = re.findall(r"(do not fit|fit) on 1 x (L4|A10G): [\d.]+ \+ [\d.]+ = [\d.]+ of ", summary)
    assert sums == [("do not fit", "L4"), ("do not fit", "A10G")]


def test_layers_are_asked_for_in_other_languages(ask):
    text = "4080 und 64 GB RAM, wie viele Layer von Llama 3.3 70B Q4 passen auf die GPU?"
    answer = ask(text).answer
    layers = answer["launch"]["command"].partition("-ngl ")[2].split()[0]
    assert f"{layers} layers on the GPU. " in answer["summary"]


@pytest.mark.parametrize(
    ("text", "lead"),
    [
        ("how far can I push the number of users of qwen2.5 7b on an L4?", "requests at once"),
        ("4090 한 장으로 EXAONE 3.5 32B Q4 몇 토큰까지 컨텍스트 가능해?", "tokens of context"),
    ],
)
def test_the_most_is_said_however_it_is_asked_for(ask, text, lead):
    assert f" {lead} at most. " in ask(text).answer["summary"]


def test_how_far_a_setting_goes_is_answered_beyond_the_one_that_is_told(ask):
    text = "Mistral Small 24B q4 on a 7900 XTX, 16k works. How far can I push the context?"
    answer = ask(text).answer
    longest = answer["limits"]["max_context_length"]
    assert longest > 16384
    assert answer["summary"].startswith(f"{longest:,} tokens of context at most. ")
    text = "LoRA of Llama-3.1-8B, bs 8, 4k seq on an A100 40GB. How low to go with the batch size?"
    assert re.search(r"\d sequences in a micro-batch at most", ask(text).answer["summary"])


def test_requests_over_a_time_are_a_rate(ask):
    asked = "llama 3.1 8b on an H100 at 300 req/min, 1k prompt, 200 output tokens?"
    assert ask(asked).answer["summary"].startswith("5 requests a second are up to ")
    of_gpus = ask("what GPU for llama 3.1 8b at 300 req/min?").answer["summary"]
    assert of_gpus.startswith("Not read: llama 3.1 8b at 300 req/min")


def test_why_no_cell_of_a_table_runs_is_said(ask):
    text = "minimax m2.5 nvfp4 with 200k context on 2x RTX PRO 6000: sglang or vllm?"
    assert "exceeds the 196,608 tokens" in ask(text).answer["summary"]


def test_two_models_on_one_gpu_are_added_up(ask):
    text = "I want to host two models on one A100: Qwen3-8B and bge-reranker-v2-m3. OK?"
    assert ask(text).answer["summary"].startswith("At once they fit on 1 x A100")


def test_what_is_left_out_of_a_question_that_nothing_answers_is_said_first(ask):
    answer = ask("what do I need for 2000 tok/s per user on qwen3 32b?").answer
    assert answer["summary"].startswith("No option for Qwen/Qwen3-32B satisfies ")


def test_a_speed_that_nothing_tells_is_said_not_to_be_estimated(ask):
    answer = ask("how fast is gpt-oss-120b on an M3 Max 96GB with mlx?").answer
    assert answer["summary"].startswith("How fast it is there is not estimated. ")
