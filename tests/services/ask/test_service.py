"""POST /v1/ask: the answer is that of the operation, for what the text says and nothing else."""

import asyncio

import msgspec
import pytest

from fitgauge.errors import QueueFullError
from fitgauge.services.ask.schemas import AskRequest
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.models_for_gpu.schemas import ModelsForGpuRequest
from fitgauge.services.recommend.schemas import RecommendRequest


@pytest.fixture(scope="module")
def ask(questions):
    return lambda text: asyncio.run(questions.ask(AskRequest(question=text)))


def test_the_answer_is_that_of_check_fit(ask, questions):
    answer = ask("Will Qwen3 8B fit on 2x RTX 3090 with 16k context for 4 users?")
    request = FitRequest(
        model="Qwen3 8B", gpu="RTX 3090", gpu_count=2, context_length=16384, concurrency=4
    )
    assert answer.operation == "check_fit"
    assert answer.missing == []
    assert answer.answer == msgspec.to_builtins(asyncio.run(questions.check_fit(request))[1])


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


@pytest.mark.parametrize("gpus", ["RTX 4090 + RTX 3060 12GB", "1x4090 1x3060"])
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
        gpu="4090", task="training", method="qlora", sequence_length=4096, limit=10
    )
    listed = msgspec.to_builtins(asyncio.run(questions.list_models_that_fit(request)))
    assert answer.answer["items"] == listed["items"]
    assert answer.answer["items"]


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
    assert answer.answer["model"]["id"] == "Qwen/Qwen-14B-Chat"


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


def test_which_format_to_take_is_a_table_of_formats_from_the_widest(ask):
    answer = ask("Which quant of qwen3-32b should I take for a 24GB card?")
    formats = [row["quantization"] for row in answer.answer["items"]]
    assert formats.index("q8_0") < formats.index("q4_k_m") < formats.index("q2_k")
    fitting = [row["quantization"] for row in answer.answer["items"] if row["verdict"] == "fits"]
    assert fitting[0] in answer.answer["summary"]
    assert answer.missing == [f"quantization: name one, such as {fitting[0]}, for its command."]


def test_the_largest_of_a_family_is_searched_for_in_the_list(ask):
    models = [row["model"] for row in ask("largest qwen for a 3090?").answer["items"]]
    assert models
    assert all("qwen" in model.lower() for model in models)
