"""Commands of model servers within questions."""

import pytest


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


def test_a_release_that_is_named_is_judged(ask):
    answer = ask("will qwen3 8b fit on a 3090 with vLLM 0.11.0?").answer
    assert answer["understood_as"]["engine_version"] == "0.11.0"


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


def test_flags_without_their_program_are_read(ask):
    text = (
        "vLLM on 2x A10G with --enable-lora --max-loras 8 --max-lora-rank 32, base is Llama 3.1 8B"
    )
    answer = ask(f"{text}. How many tokens of KV cache are left?")
    assert answer.operation == "check_fit"
    assert (answer.understood.lora_slots, answer.understood.lora_rank) == (8, 32)
    answer = ask("Scout in int4 on 2 H200 with --enable-expert-parallel?").understood
    assert answer.expert_parallel == 2
    asked = ask("what --max-num-seqs is safe for qwen3 8b on an L4?").answer["summary"]
    assert "requests at once at most" in asked


def test_what_a_command_keeps_in_host_memory_must_be_there(ask):
    answer = ask("gpt-oss-120b on a 4090 with 32 GB RAM, --n-cpu-moe 36").answer
    assert answer["verdict"] == "does_not_fit"
    assert "the machine has 32 GiB" in answer["summary"]
