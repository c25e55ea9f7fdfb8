"""Arguments as agents send them: understood, or reported as ignored."""

import pytest

from fitgauge.errors import InvalidRequestError
from fitgauge.services.tools.aliases import (
    FIELDS,
    GPUS_PER_NODE,
    NODES,
    PARTS_OF_NAMES,
    SWITCHES,
    VALUES,
    plain,
)
from fitgauge.services.tools.arguments import parse
from fitgauge.services.tools.faces import TOOLS, option_keys
from fitgauge.services.tools.pairs import pairs
from fitgauge.services.tools.values import fields_of

ALL_FIELDS = {name for tool in TOOLS.values() for name in fields_of(tool.request)}
SWITCHED = {"max_num_seqs": 16, "enforce_eager": True}
SERVING = {"model": "Qwen/Qwen3-8B", "gpu": "RTX 4090"}


def fields(tool, **sent):
    return parse(TOOLS[tool], sent).fields


def more(tool, **sent):
    """Return the fields beyond model and gpu."""
    got = fields(tool, **SERVING, **sent)
    return {name: value for name, value in got.items() if name not in SERVING}


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ({"max_model_len": "16k"}, {"context_length": 16384}),
        ({"maxModelLen": 4096}, {"context_length": 4096}),
        ({"Context Length": 4096}, {"context_length": 4096}),
        ({"contextlenght": 4096}, {"context_length": 4096}),
        ({"batch_size": 8}, {"concurrency": 8}),
        ({"tp": "2"}, {"tensor_parallel": 2}),
        ({"num_gpus": 2}, {"gpu_count": 2}),
        ({"engine": "vLLM 0.8"}, {"engine": "vLLM", "engine_version": "0.8"}),
        ({"backend": "sglang"}, {"engine": "sglang"}),
        ({"quantisation": "AWQ"}, {"quantization": "AWQ"}),
        ({"load_in_4bit": True}, {"quantization": "4bit"}),
        ({"dtype": "int8"}, {"quantization": "int8"}),
        ({"dtype": "auto"}, {}),
        (
            {"options": "kv cache dtype fp8, max num seqs 16, enforce eager"},
            {"kv_cache_dtype": "fp8", **SWITCHED},
        ),
        ({"options": "max_num_seqs=16, enforce_eager"}, SWITCHED),
        ({"options": "--max-num-seqs 16 --enforce-eager"}, SWITCHED),
        ({"options": "kv_cache_dtype=fp8"}, {"kv_cache_dtype": "fp8"}),
        ({"options": "kv_cache_dtype=fp8 tp=2"}, {"kv_cache_dtype": "fp8", "tensor_parallel": 2}),
        ({"options": "tp=2,fp8"}, {"tensor_parallel": 2, "quantization": "fp8"}),
        (
            {"options": "enable_lora=true, max_loras=8, max_lora_rank=64"},
            {"lora_slots": 8, "lora_rank": 64},
        ),
        ({"options": "--enable-lora"}, {"lora_slots": 1}),
        ({"options": "block_size=16, swap_space=4"}, {}),
        ({"options": {"max_num_seqs": "16"}}, {"max_num_seqs": 16}),
        ({"options": '{"max_num_seqs": 16}'}, {"max_num_seqs": 16}),
        ({"options": "tp: 2; max_model_len: 8k"}, {"tensor_parallel": 2, "context_length": 8192}),
        ({"options": "tp=2, kv cache q8_0"}, {"tensor_parallel": 2, "kv_cache_dtype": "q8_0"}),
        ({"options": "fp8 kv cache"}, {"kv_cache_dtype": "fp8"}),
        ({"options": "tool_call_parser=hermes, n_gpu_layers=99"}, {}),
        ({"options": "ngl=20, n_cpu_moe=8"}, {"n_gpu_layers": 20, "n_cpu_moe": 8}),
        ({"rope_scaling": {"factor": 4}}, {"rope_scaling_factor": 4.0}),
        ({"concurrency": "max"}, {}),
        (
            {"options": "-c 32768 -ctk q8_0 -fa on"},
            {"context_length": 32768, "kv_cache_dtype": "q8_0"},
        ),
        (
            {"speculative_config": {"model": "0.6b", "num_speculative_tokens": 3}},
            {"draft_model": "0.6b", "speculative_tokens": 3},
        ),
        ({"cpu_offload_kv_gb": "64 GB"}, {"kv_offload_gib": 64.0}),
        ({"cpu_offload_draft_gb": 64}, {}),
        ({"system_ram_gb": 64}, {"host_memory_gib": 64.0}),
        ({"adapters": 3}, {"lora_slots": 3}),
        ({"lora_adapters": ["sql", "chat"]}, {"lora_slots": 2}),
        ({"context_length": 4096, "max_model_len": "8k-32k"}, {"context_length": 4096}),
        ({"options": "tp=2", "tensor_parallel": 4}, {"tensor_parallel": 2}),
        (
            {"input_tokens": "4k", "output_tokens": 500},
            {"prompt_tokens": 4000, "output_tokens": 500, "context_length": 4500},
        ),
        (
            {"input_length": 2048, "output_length": 512},
            {"prompt_tokens": 2048, "output_tokens": 512, "context_length": 2560},
        ),
        ({"gpus_per_node": "8", "nodes": 2}, {"gpu_count": 16}),
        ({"nodes": 2, "gpu_count": 16}, {"gpu_count": 16}),
        ({"options": {"OLLAMA_CONTEXT_LENGTH": 4096}}, {"context_length": 4096}),
        ({"options": ""}, {}),
        ({"options": None}, {}),
        ({"max_num_seqs": 16}, {"max_num_seqs": 16}),
        ({"gpu_count": 1, "num_gpus": 4}, {"gpu_count": 4}),
        ({"target_context_len": "16k"}, {"context_length": 16384}),
        ({"max_parallel_requests": 4}, {"concurrency": 4}),
        ({"max_users": 4}, {"concurrency": 4}),
        ({"user_id": "u-17", "gpu_id": 0}, {}),
        ({"kv_quantization": "fp8"}, {"kv_cache_dtype": "fp8"}),
        ({"concurrent_sessions": "4"}, {"concurrency": 4}),
        ({"parallelism": {"tensor": 2}}, {"tensor_parallel": 2}),
        ({"cpu_moe": True}, {"n_cpu_moe": 999}),
        ({"modelMaxLen": "8k"}, {"context_length": 8192}),
        ({"requests_per_user": 4, "num_models": 3, "total_requests": 1000}, {}),
    ],
)  # fmt: skip
def test_a_serving_call_is_understood(sent, expected):
    assert more("check_fit", **sent) == expected


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ({"batch_size": "4"}, {"micro_batch_size": 4}),
        ({"max_seq_length": 4096}, {"sequence_length": 4096}),
        ({"gradient_checkpointing": True}, {"activation_checkpointing": "full"}),
        ({"gradient_accumulation_steps": 8}, {"micro_batches": 8}),
        ({"trainer": "DeepSpeed ZeRO-3"}, {"framework": "deepspeed", "zero_stage": 3}),
        ({"method": "GRPO"}, {"algorithm": "grpo"}),
        ({"method": "LoRA (8-bit)"}, {"method": "LoRA", "quantization": "8-bit"}),
        ({"method": "LoRA r=32"}, {"method": "LoRA", "lora_rank": 32}),
        ({"method": "LoRA", "load_in_4bit": "true"}, {"method": "qlora"}),
        ({"attn_implementation": "flash_attention_2"}, {"attention": "flash"}),
        ({"bf16": True}, {"precision": "mixed_bf16"}),
        ({"block_size": 1024}, {"sequence_length": 1024}),
        ({"options": "precision=bf16"}, {"precision": "bf16"}),
        ({"use_liger_kernel": True}, {"kernels": "liger"}),
        ({"fsdp": True}, {"framework": "fsdp"}),
        ({"strategy": "FSDP"}, {"framework": "fsdp"}),
        ({"sharding_strategy": "DeepSpeed ZeRO-2"}, {"framework": "deepspeed", "zero_stage": 2}),
        ({"strategy": "DDP"}, {"zero_stage": 0}),
        ({"per_device_batch_size": 4}, {"micro_batch_size": 4}),
        ({"batch_size_per_device": 4}, {"micro_batch_size": 4}),
        ({"fsdp": "full_shard auto_wrap"}, {"framework": "fsdp"}),
        ({"tokens": "20B", "seq_len": 4096}, {"token_budget": 2e10, "sequence_length": 4096}),
        (
            {
                "deepspeed_config": {
                    "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}}
                }
            },
            {"framework": "deepspeed", "zero_stage": 3, "offload": "optimizer"},
        ),
        ({"freeze_vision_tower": True}, {"train_vision_tower": False}),
        ({"train_batch_size": 4}, {"micro_batch_size": 4}),
        (
            {"peft_config": {"r": 32, "lora_alpha": 64, "target_modules": "all-linear"}},
            {"lora_rank": 32, "lora_targets": "all_linear"},
        ),
        (
            {"options": "target_modules=q_proj,v_proj, flash_attention_2"},
            {"lora_targets": "q_proj,v_proj", "attention": "flash"},
        ),
    ],
)
def test_a_training_call_is_understood(sent, expected):
    assert more("check_training_fit", **sent) == expected


def test_an_alias_means_a_parameter_of_the_face_first():
    assert more("plan_training", batch_size=512) == {"global_batch_size": 512}
    assert more("plan_training", batch="256") == {"global_batch_size": 256}
    got = fields("compare_fit", model=["7b", "13b"], gpu="H100", context_length="32k", quant="awq")
    assert got == {
        "models": "7b, 13b", "gpus": "H100", "context_lengths": [32768], "quantizations": "awq"
    }  # fmt: skip
    got = fields("recommend_gpus", model="7b", budget="$3", use_case="Fine-tuning")
    assert got == {"model": "7b", "max_usd_per_hour": 3.0, "task": "training"}
    got = fields("recommend_gpus", model="7b", prompt_tokens=2000, output_tokens=300)
    assert got == {"model": "7b", "prompt_tokens": 2000, "context_length": 2300}


@pytest.mark.parametrize(
    ("task", "meant"),
    [
        ("fine-tune with QLoRA", {"task": "training", "method": "qlora"}),
        ("LoRA", {"task": "training", "method": "lora"}),
        ("full fine-tuning", {"task": "training", "method": "full"}),
        ("embeddings", {}),
        ("coding assistant", {"task": "serving"}),
    ],
)
def test_a_task_is_read_in_words(task, meant):
    assert fields("recommend_gpus", model="7b", task=task) == {"model": "7b"} | meant
    with pytest.raises(InvalidRequestError):
        fields("recommend_gpus", model="7b", task="training or serving")


@pytest.mark.parametrize("kinds", ["consumer", "Hopper", "gaming, Ada Lovelace"])
def test_kinds_of_gpus_may_be_sent_for_their_names(kinds):
    read = parse(TOOLS["recommend_gpus"], {"model": "7b", "gpu_type": kinds})
    assert read.fields == {"model": "7b", "kinds": kinds}
    assert fields("recommend_gpus", model="7b", gpus="consumer, L4")["gpus"] == "consumer, L4"


def test_what_trains_is_no_engine_of_a_log():
    read = parse(TOOLS["explain_log"], {"log": "CUDA out of memory.", "framework": "unsloth"})
    assert (set(read.fields), len(read.notes)) == ({"log"}, 1)


def test_a_model_may_be_the_command_that_starts_it():
    assert fields("check_fit", model="ollama run qwen3:30b") == {
        "model": "qwen3:30b", "engine": "ollama"
    }  # fmt: skip
    assert fields("check_fit", model="vllm serve Qwen/Qwen3-8B --max-model-len 4096") == {
        "model": "Qwen/Qwen3-8B", "engine": "vllm", "context_length": 4096
    }  # fmt: skip


@pytest.mark.parametrize(("key", "value"), [("ttft_ms", 500), ("ttft", "500ms"), ("ttft", 0.5)])
def test_a_time_is_in_the_unit_of_its_name(key, value):
    got = fields("recommend_gpus", model="7b", **{key: value})
    assert got["max_seconds_to_first_token"] == 0.5


@pytest.mark.parametrize(
    ("sent", "instead"),
    [
        ({"rps": 5}, "concurrency"),
        ({"latency_ms": 50}, "max_seconds_to_first_token"),
        ({"max_usd": 500}, "plan_training"),
        ({"dataset_tokens": "50M"}, "plan_training"),
        ({"task": "training", "tokens": "50M"}, "plan_training"),
    ],
)
def test_a_rate_is_answered_with_what_to_send(sent, instead):
    (note,) = parse(TOOLS["recommend_gpus"], {"model": "7b", **sent}).notes
    assert instead in note


def test_the_context_of_a_training_is_the_length_of_its_sequences():
    question = {"model": "7b", "task": "training"}
    assert fields("recommend_gpus", **question, max_length=4096) == {
        **question,
        "sequence_length": 4096,
    }


def test_engines_of_a_table_lose_their_releases():
    read = parse(TOOLS["compare_fit"], {**SERVING, "engines": ["vllm 0.9.2", "sglang==0.5.3"]})
    assert read.fields["engines"] == "vllm, sglang"
    assert any("newest" in note for note in read.notes)


def test_the_memory_of_a_gpu_belongs_to_its_name():
    assert fields("check_fit", model="7b", gpu="A100", vram=40)["gpu"] == "A100 40GB"
    assert fields("check_fit", model="7b", gpu="A100 80GB", vram=80)["gpu"] == "A100 80GB"
    assert fields("check_fit", model="7b", vram="24 GB")["gpu"] == "24 GB"
    assert fields("check_fit", model="7b", instance_type="g5.12xlarge")["gpu"] == "g5.12xlarge"


@pytest.mark.parametrize(
    ("name", "size", "model"),
    [
        ("Qwen3", "14B", "Qwen3 14B"),
        ("llama 3.1", 70, "llama 3.1 70B"),
        ("phi-4 14b", 14, "phi-4 14b"),
    ],
)
def test_the_size_of_a_model_belongs_to_its_name(name, size, model):
    assert fields("check_fit", model=name, model_size=size)["model"] == model
    assert fields("check_fit", model_size="7b")["model"] == "7b"


def test_a_name_may_say_that_it_is_a_list_or_a_specification():
    got = fields("compare_fit", model_list=["7b", "13b"], gpu_list=["L4", "T4"])
    assert got == {"models": "7b, 13b", "gpus": "L4, T4"}
    got = fields("check_fit", hf_model="7b", gpu_spec="2x L4")
    assert got == {"model": "7b", "gpu": "2x L4"}


def test_a_list_may_be_sent_as_its_json():
    assert fields("check_fit", model="7b", gpu='["L4", "L4"]')["gpu"] == "L4 + L4"
    assert fields("compare_fit", models='["7b", "13b"]', gpus="L4")["models"] == "7b, 13b"
    assert fields("explain_log", log="[rank0]: out of memory")["log"] == "[rank0]: out of memory"


@pytest.mark.parametrize("text", ["[" * 3_000, "{" * 3_000, "[" * 100_000, '{"gpu":' * 400])
def test_what_is_nested_too_deeply_is_refused(text):
    with pytest.raises(InvalidRequestError):
        fields("check_fit", model="7b", gpu=text)
    deep = "L4"
    for _ in range(800):
        deep = {"gpu": [deep]}
    for sent in ({"gpu": deep}, {"options": deep}):
        with pytest.raises(InvalidRequestError):
            fields("check_fit", model="7b", **sent)
    assert fields("check_fit", model="7b", options="[" * 100_000) == {"model": "7b"}


def test_a_name_of_many_units_means_nothing():
    name = "x" + "_gb" * 2_000
    (note,) = parse(TOOLS["check_fit"], {"model": "7b", name: 1}).notes
    assert note.startswith("ignored x_gb")
    with pytest.raises(InvalidRequestError):
        fields("check_fit", model="7b", options=f"{name}=1")


def test_options_of_many_words_are_read_in_one_pass():
    tried = []
    pairs_of = dict(pairs("word " * 20_000, lambda text, *_: bool(tried.append(text))))
    assert (len(pairs_of), len(tried) < 50) == (1, True)


def test_a_word_for_another_field_sets_what_the_tool_has_of_it():
    assert more("check_training_fit", task="pretraining") == {"method": "full"}
    assert more("check_training_fit", task="QLoRA") == {"method": "qlora"}
    assert more("check_training_fit", task="summarization") == {}


def test_an_object_of_a_gpu_holds_its_name_count_and_memory():
    sent = {"name": "A100", "count": 8, "memory_gb": 80, "architecture": "Ampere"}
    read = parse(TOOLS["check_fit"], {"model": "7b", "gpu": sent})
    assert read.fields == {"model": "7b", "gpu": "A100 80GB", "gpu_count": 8}
    assert read.notes == ["ignored gpu_architecture: no effect here"]
    assert fields("compare_fit", models="7b", gpus=[{"name": "L40S", "count": 2}, "H100"]) == {
        "models": "7b",
        "gpus": "L40S x2, H100",
    }


def test_several_machines_are_counted_before_the_machine():
    assert (
        fields("check_fit", model="7b", gpu="p5.48xlarge", num_nodes=2)["gpu"] == "2x p5.48xlarge"
    )


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ({"engine": "Ollama"}, {"engine": "Ollama", "n_gpu_layers": 2}),
        ({"engine": "vllm"}, {"engine": "vllm", "gpu_count": 2}),
        ({}, {"gpu_count": 2}),
    ],
)
def test_num_gpu_is_a_number_of_layers_where_ollama_serves(sent, expected):
    assert more("check_fit", **sent, options={"num_gpu": 2}) == expected


@pytest.mark.parametrize("key", ["temperature", "user_intent", "learning_rate", "zero_stage"])
def test_what_has_no_effect_is_reported(key):
    call = parse(TOOLS["check_fit"], {**SERVING, key: 3})
    assert [note for note in call.notes if key in note]
    assert set(call.fields) == set(SERVING)


def test_a_launch_command_is_read_and_arguments_go_before_it():
    sent = {
        "command": "vllm serve Qwen/Qwen3-14B --max-model-len 16384 -tp 2",
        "gpu": "2x L4",
        "context_length": 4096,
    }
    read = parse(TOOLS["check_fit"], sent)
    assert read.fields == {
        "model": "Qwen/Qwen3-14B", "gpu": "2x L4", "engine": "vllm", "context_length": 4096,
        "tensor_parallel": 2,
    }  # fmt: skip
    assert read.notes == ["command: tensor_parallel=2, model=Qwen/Qwen3-14B, engine=vllm"]
    assert more("check_fit", command="make coffee") == {}
    for command, is_said in (
        ("vllm serve Qwen/Qwen3-14B", True),
        ("llama-server -m Qwen/Qwen3-14B", False),
    ):
        notes = parse(TOOLS["check_fit"], {"command": command, "gpu": "L4"}).notes
        assert any("sets no context" in note for note in notes) == is_said


def test_of_two_values_the_exact_name_counts_and_the_other_is_reported():
    call = parse(TOOLS["check_fit"], {**SERVING, "max_model_len": 4096, "context_length": 8192})
    assert call.fields["context_length"] == 8192
    assert any("max_model_len" in note for note in call.notes)


def test_an_unknown_option_is_answered_with_the_keys():
    with pytest.raises(InvalidRequestError) as raised:
        parse(TOOLS["check_fit"], {**SERVING, "options": "frobnicate=1, max_num_seqs=3"})
    assert raised.value.send == {"options": "max_num_seqs=3"}
    assert all(key in raised.value.detail for key in option_keys(TOOLS["check_fit"]))


@pytest.mark.parametrize("name", [*TOOLS])
def test_a_required_argument_that_is_missing_comes_with_an_example(name):
    with pytest.raises(InvalidRequestError) as raised:
        parse(TOOLS[name], {})
    assert raised.value.code == "missing-field"
    assert parse(TOOLS[name], raised.value.send | dict(TOOLS[name].example))


@pytest.mark.parametrize("name", [*TOOLS])
def test_every_field_of_a_request_can_be_sent(name):
    tool = TOOLS[name]
    face = {parameter.name for parameter in tool.parameters}
    assert face | set(option_keys(tool)) | {"detail", "limit"} >= set(fields_of(tool.request))
    assert face <= set(fields_of(tool.request))


def test_every_alias_means_a_field_that_exists():
    targets = {name for names in FIELDS.values() for name in names}
    targets |= {name for row in SWITCHES.values() for name in row}
    targets |= {name for rows in VALUES.values() for row in rows.values() for name in row}
    assert targets - {*PARTS_OF_NAMES, GPUS_PER_NODE, NODES} <= ALL_FIELDS
    assert set(VALUES) <= ALL_FIELDS


def test_names_are_compared_without_case_and_separators():
    assert plain("Max-Model_len ") == "maxmodellen"


@pytest.mark.parametrize("tool", [tool for tool in TOOLS.values() if tool.options])
def test_the_options_that_a_tool_gives_as_examples_are_the_fields_they_name(tool):
    pairs = dict(pair.split("=") for pair in tool.options.split(", "))
    read = parse(tool, {**tool.example, "options": tool.options}).fields
    assert {name: str(read[name]).strip("[]") for name in pairs} == pairs


@pytest.mark.parametrize("formats", ["awq,fp8", "fp8,awq", "fp8, awq, bf16"])
def test_formats_of_a_list_are_all_its_values(formats):
    sent = {"models": "7b", "gpus": "H100", "options": f"quantizations={formats}, engines=vllm"}
    read = parse(TOOLS["compare_fit"], sent).fields
    assert (read["quantizations"], read["engines"]) == (formats, "vllm")


def test_a_plan_takes_the_trainer_that_the_fit_takes():
    assert fields("plan_training", **SERVING, trainer="axolotl")["trainer"] == "axolotl"


@pytest.mark.parametrize("between", [" vs ", " versus ", " or ", " and ", "; ", ", "])
def test_names_of_a_list_stand_apart_as_people_write_them(between):
    sent = {"models": f"qwen3 8b{between}llama 3.1 8b", "gpus": f"RTX 4090{between}2x L40S"}
    read = parse(TOOLS["compare_fit"], sent).fields
    assert (read["models"], read["gpus"]) == ("qwen3 8b, llama 3.1 8b", "RTX 4090, 2x L40S")


@pytest.mark.parametrize(
    ("word", "meant"),
    [("lowest latency", "fastest"), ("lowest price", "cheapest"), ("headroom", "most_headroom")],
)
def test_an_objective_is_read_as_it_is_meant(word, meant):
    read = parse(TOOLS["recommend_gpus"], {"model": "7b", "options": f"objective={word}"}).fields
    assert read["objective"] == meant
