"""What a question says and the answer leaves out is said before the answer."""

import pytest

from counted_calls import calls


@pytest.mark.parametrize(
    ("text", "unread"),
    [
        (
            "which is the fastest model I can run on a 5080 with at least 30 t/s?",
            "with at least 30 t/s",
        ),
        ("h100 or 2x l40s for serving llama 3.1 8b with 3 loras, 50 users?", "3.1 8b with 3 loras"),
        ("Does Qwen3 8B run on a 4090 when Gemma 3 27B needs so much?", "Gemma 3 27B"),
        ("8x a800 80g for Qwen2.5 72B lora? Would 4090s do too, or an L4?", "L4"),
    ],
)
def test_what_is_left_out_is_said_first(ask, text, unread):
    answer = ask(text)
    assert unread in answer.not_understood
    assert answer.answer["summary"].startswith(f"Not read: {'; '.join(answer.not_understood)}. ")


@pytest.mark.parametrize(
    ("text", "unread"),
    [
        ("Qwen3 8B in FP8 on an H100 at 262000?", ["on an H100 at 262000"]),
        ("Will 2x24GB beat 1x48GB for llama 3.3 70b q4?", ["2x24GB beat 1x48GB for llama 3.3"]),
        ("One L40S. Qwen3-8B for chat and bge-reranker-v2-m3. OK?", ["bge-reranker-v2-m3"]),
        ("qwen3 32b fp8 on an L40S with --frobnicate-cache 5", ["--frobnicate-cache 5"]),
        ("llama 8b on an L4, 900 users a day, works?", ["900 users a day"]),
    ],
)
def test_every_number_name_and_flag_is_used_or_named(ask, text, unread):
    assert ask(text).not_understood == unread


@pytest.mark.parametrize(
    "text",
    [
        "40 users of llama 8b on an L40S, 10 % of them online",
        "2台8卡A100 40G全参数微调Qwen3-14B可以吗",
        "Can I use 2x A10G with --enable-lora --max-loras 8 --max-lora-rank 32 for Llama 3.1 8B?",
        "gpt-oss-20b on a 4090, 64GB DDR5, Ryzen 9 7950X, Windows 11?",
        "how long to embed 10 million passages with bge-m3 on a T4?",
        "50 users on an H100 or an L40S with Qwen3 8B?",
        "Moving from Mixtral 8x7B to Qwen3-30B-A3B on my A6000, does it fit?",
        "Any model better than gpt-oss-20b that I can fit in 24GB?",
        "Can I fine-tune Qwen3 8B on g5.xlarge instead of p4d.24xlarge?",
        "Can I fine-tune Qwen3 8B on g5.xlarge instead of relying on p4d.24xlarge?",
        "Will the LLaVA dataset do for a LoRA of Qwen3 8B on a 4090?",
        "Qwen3 8B with exl2 4.0bpw on a 3060 12GB?",
    ],
)
def test_nothing_is_said_of_what_is_used_or_not_asked_about(ask, text):
    assert ask(text).not_understood == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("which used gpu for qwen3 32b q4?", "used"),
        ("what's the lowest power gpu for mistral small 24b q4", "lowest power"),
        ("do I need nvlink for 2x3090 with llama 70b q4?", "nvlink"),
        ("best model for roleplay on a 4070?", "search"),
        ("does gemma 27b q4 fit on a 5070 ti super?", "gpu"),
        ("what gpu do I need to finetune mistral nemo with unsloth", "trainer"),
        ("gpu for qwen3 8b, бюджет 60 тысяч рублей", "60000 рублей"),
    ],
)
def test_what_no_request_has_a_field_for_is_named(ask, text, words):
    assert any(
        line.startswith(f"{words}: ") or words in line.split(":")[0] for line in ask(text).missing
    )


def test_the_smallest_gpu_is_the_one_with_least_memory(ask):
    answer = ask("what is the smallest card for whisper large v3?").answer
    assert answer["objective"] == "smallest"
    assert answer["summary"].startswith("The least memory ")


def test_a_format_that_gpus_support_is_a_choice_of_gpus(ask):
    answer = ask("which gpu with nvfp4 support should I rent for gpt-oss-120b?")
    assert answer.understood.kinds == ["blackwell"]
    assert answer.understood.quantization is None


def test_a_second_replica_has_its_part_of_the_gpu(ask):
    answer = ask("can we add a second replica of qwen3 8b on our h100?").answer
    assert answer["understood_as"]["gpu_memory_utilization"] == 0.46


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "vllm serve Qwen/Qwen3-8B --tensor-parallel-size 3 on 2x 4090",
            "`tensor_parallel` 3 does not divide 32 heads; without it: Qwen/Qwen3-8B fits",
        ),
        ("lora of llama 3.1 8b on 2x A100, tp 3", "; without it: meta-llama/Llama-3.1-8B"),
    ],
)
def test_what_is_refused_is_said_before_the_answer_without_it(ask, text, words):
    assert words in ask(text).answer["summary"]


@pytest.mark.parametrize("word", ["8k", "8 users", "fp8", "--max-a-b 3", "2x 4090,"])
def test_the_work_grows_as_the_question_does(ask, word):
    few, many = (f"qwen3 8b on a 4090 with {f'{word} ' * count}" for count in (60, 180))
    ask(few), ask(many)
    assert calls(lambda: ask(many)) < 4 * calls(lambda: ask(few))
