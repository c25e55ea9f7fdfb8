"""explain_log: a text that says that memory ran out is answered with what took it and what to
change, whatever else it names."""

import asyncio
from collections.abc import Callable

import pytest

from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.explain_log.schemas import ExplainLogRequest, LogAnswer
from fitgauge.services.facade import Services

TORCH = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 270.00 MiB. GPU 0 has a total"
    " capacity of 23.52 GiB of which 156.94 MiB is free. Including non-PyTorch memory, this process"
    " has 23.30 GiB memory in use. Of the allocated memory 22.80 GiB is allocated by PyTorch, and"
    " 12.00 MiB is reserved by PyTorch but unallocated."
)
OLD_TORCH = (
    "RuntimeError: CUDA out of memory. Tried to allocate 258.00 MiB (GPU 0; 23.69 GiB total"
    " capacity; 20.75 GiB already allocated; 100.00 MiB free; 23.00 GiB reserved in total by"
    " PyTorch)"
)
MESSAGES = {
    "bare": ("CUDA out of memory", None),
    "bare error": ("RuntimeError: CUDA error: out of memory", None),
    "prose": ("I always get an out of memory error", None),
    "short": ("OOM", None),
    "hip": ("torch.OutOfMemoryError: HIP out of memory. Tried to allocate 1.50 GiB.", None),
    "tensorrt-llm's calls": (
        "[TensorRT-LLM][ERROR] CUDA runtime error in ::cudaMalloc(ptr, n): out of memory",
        "tensorrt-llm",
    ),
    "hip error": ("RuntimeError: HIP error: out of memory", None),
    "cublas": ("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", None),
    "torch": (TORCH, None),
    "old torch": (OLD_TORCH, None),
    "mps": (
        "RuntimeError: MPS backend out of memory (MPS allocated: 8.73 GB, other allocations: 345.67"
        " MB, max allowed: 9.07 GB). Tried to allocate 256.00 MB on private pool.",
        None,
    ),
    "vllm cache": (
        "ValueError: No available memory for the cache blocks. Try increasing"
        " `gpu_memory_utilization` when initializing the engine.",
        "vllm",
    ),
    "vllm context": (
        "ValueError: To serve at least one request with the model's max seq len (40960), (5.62 GiB"
        " KV cache is needed, which is larger than the available KV cache memory (2.11 GiB).",
        "vllm",
    ),
    "vllm taken": (
        "ValueError: Free memory on device (3.1/23.52 GiB) on startup is less than desired GPU"
        " memory utilization (0.9, 21.17 GiB). Decrease GPU memory utilization or reduce GPU memory"
        " used by other processes.",
        "vllm",
    ),
    "sglang": (
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
        "sglang",
    ),
    "llama.cpp": (
        "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 12345.00 MiB on device 0:"
        " cudaMalloc failed: out of memory\n"
        "alloc_tensor_range: failed to allocate CUDA0 buffer of size 12944670720",
        "llama.cpp",
    ),
    "llama.cpp cache": (
        "llama_init_from_model: failed to initialize the context: failed to allocate buffer for kv"
        " cache",
        "llama.cpp",
    ),
    "ollama": (
        "Error: llama runner process has terminated: cudaMalloc failed: out of memory",
        "ollama",
    ),
    "ollama host": (
        "Error: model requires more system memory (5.6 GiB) than is available (3.1 GiB)",
        "ollama",
    ),
    "tensorrt-llm": (
        "[TRT] [E] [resizingAllocator.cpp::allocate::74] Error Code 1: Cuda Runtime (out of"
        " memory)\n[TRT] [E] Requested amount of GPU memory (34359738368 bytes) could not be"
        " allocated.",
        "tensorrt-llm",
    ),
    "tgi": (
        "RuntimeError: Not enough memory to handle 4096 prefill tokens. You need to decrease"
        " `--max-batch-prefill-tokens`",
        "tgi",
    ),
    "mlx": (
        "libc++abi: terminating due to uncaught exception of type std::runtime_error:"
        " [metal::malloc] Attempting to allocate 38654705664 bytes which is greater than the"
        " maximum allowed buffer size of 28991029248 bytes.",
        "mlx",
    ),
    "deepspeed": (
        'File "/opt/deepspeed/runtime/zero/stage3.py", line 1991, in step\n' + TORCH,
        None,
    ),
    "killed": ("[12345.678] Out of memory: Killed process 4242 (python) total-vm:98765432kB", None),
}  # fmt: skip


@pytest.fixture
def explain(questions: Services) -> Callable[..., LogAnswer]:
    """Provide the answer to a text and fields."""
    return lambda log, **fields: asyncio.run(
        questions.explain_log(ExplainLogRequest(log=log, **fields))
    )


@pytest.mark.parametrize("name", MESSAGES)
def test_every_message_is_answered_without_a_model_or_a_gpu(explain, name):
    text, engine = MESSAGES[name]
    answer = explain(text)
    assert answer.engine == engine
    assert answer.outcome in ("oom", "kv_too_small")
    assert "model" in answer.missing
    assert answer.summary
    assert len(answer.fixes) >= 3
    assert len({fix.change for fix in answer.fixes}) == len(answer.fixes)


def test_an_engine_that_is_sent_decides_whose_lines_a_wrapped_engine_printed(explain):
    text = f"source=sched.go\nllama_model_load: error\n{MESSAGES['llama.cpp'][0]}"
    assert explain(text).engine == "llama.cpp"
    assert explain(text, engine="ollama").engine == "ollama"


@pytest.mark.parametrize("name", MESSAGES)
def test_every_message_is_answered_with_a_model_and_a_gpu(explain, name):
    text, _ = MESSAGES[name]
    mac = name in ("mlx", "mps")
    answer = explain(
        text, model="Qwen/Qwen3-32B", gpu="M3 Max 36GB" if mac else "RTX 4090",
        engine="mlx" if name == "mps" else None,
    )  # fmt: skip
    assert not answer.missing
    assert answer.model.id == "Qwen/Qwen3-32B"
    assert any(part.basis == "estimate" and part.name == "weights" for part in answer.memory)


def test_the_logs_own_figures_come_first(explain):
    memory = explain(TORCH).memory
    assert [(part.name, part.basis) for part in memory[:1]] == [("pytorch_tensors", "log")]
    assert memory[0].bytes == round(22.80 * 2**30)


def test_weights_that_cannot_fit_are_named(explain):
    """A failed allocation of 0.26 GiB is not what is wrong where 61 GiB of weights load."""
    answer = explain(TORCH, model="Qwen/Qwen3-32B", gpu="RTX 4090", engine="vllm")
    largest = next(part for part in answer.memory if part.basis == "estimate")
    assert largest.name == "weights"
    assert largest.bytes > 60 * 2**30
    assert "weights" in " ".join(answer.causes)


def test_what_fits_when_estimated_again_comes_with_its_command(explain, questions):
    command = "vllm serve Qwen/Qwen3-8B --max-model-len 40960 --max-num-seqs 64"
    answer = explain(MESSAGES["vllm cache"][0], command=command, gpu="RTX 4090")
    assert answer.understood_as["context_length"] == 40960
    assert answer.understood_as["max_num_seqs"] == 64
    fitting = [fix for fix in answer.fixes if fix.verdict == "fits"]
    assert any("vllm serve" in fix.command for fix in fitting if fix.command)
    fix = next(fix for fix in fitting if fix.command and "vllm serve" in fix.command)
    request = {
        "model": "Qwen/Qwen3-8B", "gpu": "RTX 4090", "engine": "vllm", "context_length": 40960,
        "max_num_seqs": 64, **fix.request,
    }  # fmt: skip
    _, fit = asyncio.run(questions.check_fit(FitRequest(**request)))
    assert fit.verdict == "fits"


@pytest.mark.parametrize(
    ("command", "engine", "understood"),
    [
        (
            "python -m sglang.launch_server --model Qwen/Qwen3-8B --tp 2 --context-length 4096",
            "sglang",
            {"tensor_parallel": 2, "context_length": 4096},
        ),
        (
            "llama-server -hf Qwen/Qwen3-8B -c 16384 -np 2 -ub 256",
            "llama.cpp",
            {"context_length": 8192, "max_num_seqs": 2, "max_batched_tokens": 256},
        ),
        ("mlx_lm.server --model Qwen/Qwen3-8B", "mlx", {}),
        (
            "text-generation-launcher --model-id Qwen/Qwen3-8B --max-total-tokens 4096",
            "tgi",
            {"context_length": 4096},
        ),
        ("trtllm-serve Qwen/Qwen3-8B --tp_size 2", "tensorrt-llm", {"tensor_parallel": 2}),
    ],
)
def test_a_launch_command_stands_for_what_the_log_leaves_out(explain, command, engine, understood):
    gpu = "M3 Max 36GB" if engine == "mlx" else "RTX 4090"
    answer = explain("CUDA out of memory", command=command, gpu=gpu)
    assert (answer.engine, answer.model.id) == (engine, "Qwen/Qwen3-8B")
    assert understood.items() <= answer.understood_as.items()


def test_a_server_that_was_given_no_context_made_room_for_the_models_maximum(explain):
    text = MESSAGES["vllm cache"][0]
    for fields in ({"command": "vllm serve Qwen/Qwen3-8B"}, {"model": "Qwen/Qwen3-8B"}):
        answer = explain(text, gpu="RTX 4090", **fields)
        assert answer.understood_as["context_length"] == 40960
        assert any("context_length" in (fix.request or {}) for fix in answer.fixes)


def test_what_others_hold_is_counted_against_every_change(explain):
    text = MESSAGES["vllm taken"][0]
    answer = explain(text, model="Qwen/Qwen3-8B", gpu="RTX 4090")
    others = next(part for part in answer.memory if part.name == "other_processes")
    assert others.bytes == pytest.approx((23.52 - 3.1) * 2**30, abs=2**20)
    assert answer.fixes[0].command == "nvidia-smi"
    assert not any(
        fix.verdict == "fits" and fix.required_bytes > 3.2 * 2**30 for fix in answer.fixes
    )


def test_fragmentation_is_given_back_first(explain):
    text = TORCH.replace("12.00 MiB is reserved", "6.00 GiB is reserved")
    assert "expandable_segments" in explain(text).fixes[0].command


@pytest.mark.parametrize(
    "call, first",
    [
        ("self._optimizer_step(sub_group_id)", "QLoRA"),
        ("loss = self.loss_function(logits, labels)", "Liger"),
        ("return torch._C._nn.cross_entropy_loss(", "Liger"),
        ("hidden = self.mlp(hidden)", "Checkpoint activations"),
    ],
)
def test_what_asked_for_the_memory_of_a_training_decides_what_to_change(explain, call, first):
    answer = explain(f'  File "/x/train.py", line 3\n    trainer.train()\n    {call}\n{TORCH}')
    assert first in answer.fixes[0].change
    assert ("Checkpoint activations" in [fix.change for fix in answer.fixes]) == (first != "QLoRA")


def test_what_a_training_does_already_is_not_advised(explain):
    call = '  File "/x/site-packages/unsloth/models/_utils.py", line 1\n    trainer.train()\n'
    changes = [fix.change for fix in explain(f"{call}{TORCH}").fixes]
    assert changes
    assert "Checkpoint activations" not in changes


def test_a_training_run_is_estimated_as_one(explain):
    command = (
        "trl sft --model_name_or_path Qwen/Qwen3-8B --per_device_train_batch_size 4 --max_length"
        " 4096 --gradient_checkpointing true"
    )
    answer = explain("loss.backward()\n" + TORCH, command=command, gpu="RTX 4090")
    assert answer.engine is None
    assert answer.understood_as["micro_batch_size"] == 4
    assert answer.understood_as["sequence_length"] == 4096
    assert {part.name for part in answer.memory if part.basis == "estimate"} > {
        "weights",
        "gradients",
    }
    assert any(fix.verdict == "fits" and fix.request for fix in answer.fixes)


STEP = "  torch/optim/adamw.py in _init_group\n    optimizer.step()\n"


@pytest.mark.parametrize(
    ("text", "understood"),
    [
        ("  Number of trainable parameters = 8,190,735,360\n", {"method": "full"}),
        (
            "trainable params: 43,646,976 || all params: 8,234,382,336 || trainable%: 0.53\n",
            {"method": "lora"},
        ),
        (STEP, {"method": "full"}),
        ("  peft/tuners/lora/bnb.py in forward\n    MatMul4Bit.apply\n", {"method": "qlora"}),
        (
            "  Instantaneous batch size per device = 4\n  Gradient Accumulation steps = 8\n",
            {"micro_batch_size": 4, "micro_batches": 8},
        ),
    ],
)
def test_a_log_of_a_training_tells_its_method_and_batch(explain, text, understood):
    answer = explain(f"{text}trainer.train()\n{TORCH}", model="Qwen/Qwen3-8B", gpu="A100 80GB")
    assert understood.items() <= answer.understood_as.items()


def test_what_is_taken_for_the_method_of_a_training_is_said(explain):
    answer = explain(f"trainer.train()\n{TORCH}", model="Qwen/Qwen3-8B", gpu="A100 80GB")
    assert "(no method is named; full fine-tuning: " in answer.summary
    told = f"Number of trainable parameters = 8,190,735,360\ntrainer.train()\n{TORCH}"
    assert "no method" not in explain(told, model="Qwen/Qwen3-8B", gpu="A100 80GB").summary


def test_a_base_that_the_tensors_of_a_step_do_not_hold_is_smaller(explain):
    """TRL's own base is in fp32, 30 GiB of it, where the GPU holds 22 GiB of tensors at most."""
    text = "trainable params: 43,646,976\n  trl/trainer/sft_trainer.py in train\n"
    answer = explain(text + TORCH, model="Qwen/Qwen3-8B", gpu="RTX 4090")
    weights = next(part for part in answer.memory if part.name == "weights")
    assert weights.bytes < 24 * 2**30


@pytest.mark.parametrize(
    "command",
    [
        "trl sft --model_name_or_path Qwen/Qwen3-8B --optim adamw_apex_fused",
        "accelerate launch sft_train.py --model_name_or_path Qwen/Qwen3-8B --zero_stage 9",
        "vllm serve Qwen/Qwen3-8B --tensor-parallel-size 7",
        "vllm serve Qwen/Qwen3-8B --quantization turbo9 --max-model-len 99999999999",
    ],
)
def test_what_cannot_be_of_a_command_is_left_out(explain, command):
    answer = explain(TORCH, command=command, gpu="RTX 4090")
    assert answer.outcome == "oom"
    assert answer.model.id == "Qwen/Qwen3-8B"
    assert answer.fixes


def test_a_launch_that_cannot_be_is_answered_in_general(explain):
    answer = explain(TORCH, model="Qwen/Qwen3-8B", gpu="RTX 4090", gpu_count=7, engine="tgi")
    assert answer.outcome == "oom"
    assert answer.fixes


def test_a_name_in_the_log_that_is_unknown_is_missing(explain):
    answer = explain("CUDA out of memory", command="vllm serve nobody/nothing", gpu="RTX 4090")
    assert answer.missing == ["model"]
    answer = explain(
        "Device 0: NVIDIA Abacus 9, compute capability 8.0\ncudaMalloc failed: out of memory",
        model="Qwen/Qwen3-8B",
    )
    assert answer.missing == ["gpu"]


def test_harmless_words_of_a_served_log_are_no_failure(explain):
    log = (
        "INFO 04-19 11:05:16 [core.py:107] Initializing a V1 LLM engine (v0.19.0) with config:"
        " model='Qwen/Qwen3-8B', max_seq_len=8192\n"
        "INFO [x.py] Lower max_num_seqs to avoid out of memory errors\n"
        "INFO 04-19 11:05:50 [gpu_model_runner.py:4837] Model loading took 15.27 GiB memory\n"
        "INFO 04-19 11:07:19 [kv_cache_utils.py] GPU KV cache size: 418,688 tokens"
    )
    answer = explain(log, gpu="H100")
    assert answer.outcome == "served"
    assert not answer.fixes


def test_a_format_that_no_log_names_is_the_engines_usual_one_and_said(explain):
    """16-bit weights of 50 GiB were assumed, which nobody loads on a GPU of 24 GB."""
    log = "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 24000.00 MiB on device 0: failed"
    answer = explain(f"{log}: out of memory", model="google/gemma-3-27b-it", gpu="RTX 3090")
    assert answer.understood_as["quantization"] == "q4_k_m"
    assert "log-without-format" in [note.code for note in answer.warnings]


@pytest.mark.parametrize(("size", "form"), [(15317, None), (8137, "q8_0"), (4693, "q4_k_m")])
def test_a_format_that_no_log_names_is_the_one_of_the_weights_size(explain, size, form):
    log = f"load_tensors:        CUDA0 model buffer size = {size:>8.2f} MiB"
    answer = explain(log, model="meta-llama/Llama-3.1-8B-Instruct", gpu="RTX 3090")
    assert answer.understood_as["quantization"] == (form or "as published")
    (note,) = [note for note in answer.warnings if note.code == "log-without-format"]
    assert "nearest in size" in note.message


def test_a_format_that_the_launch_names_holds_for_the_model_that_a_caller_names(explain):
    log = "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 24000.00 MiB on device 0: failed"
    command = "llama-server -hf ggml-org/gemma-3-27b-it-GGUF:Q5_K_M -c 65536"
    answer = explain(
        f"{log}: out of memory", model="google/gemma-3-27b-it", gpu="RTX 3090", command=command
    )
    assert answer.understood_as["quantization"] == "q5_k_m"
    assert "log-without-format" not in [note.code for note in answer.warnings]


@pytest.mark.parametrize("name", MESSAGES)
def test_no_message_says_both_that_weights_are_too_many_and_that_all_fits(explain, name):
    """The estimate and the verdict were of two formats."""
    text, _ = MESSAGES[name]
    gpu = "M3 Max 36GB" if name in ("mlx", "mps") else "RTX 4090"
    said = " ".join(explain(text, model="Qwen/Qwen3-32B", gpu=gpu).causes)
    assert not ("alone" in said and "By the estimate it fits" in said)


@pytest.mark.parametrize(("allocated", "is_advised"), [("22.80", False), ("12.00", True)])
def test_others_are_looked_for_where_memory_is_not_all_of_the_process(
    explain, allocated, is_advised
):
    log = TORCH.replace("22.80", allocated).replace("23.30 GiB memory", "memory")
    first = explain(f"INFO [gpu_model_runner.py:1] vLLM API server\n{log}").fixes[0]
    assert (first.command == "nvidia-smi") == is_advised


def test_a_model_is_read_of_the_arguments_of_old_releases(explain):
    log = "api_server.py:529] args: Namespace(model='Qwen/Qwen3-8B', max_model_len=None)\n"
    answer = explain(f"INFO vLLM API server version 0.6.3.post1\n{log}{TORCH}", gpu="RTX 4090")
    assert (answer.model.id, answer.understood_as["context_length"]) == ("Qwen/Qwen3-8B", 40960)


def test_a_file_of_llama_cpp_is_named_by_its_path(explain):
    log = (
        "llama_model_loader: loaded meta data with 43 key-value pairs and 579 tensors from"
        " /models/gpt-oss-20b-mxfp4-00001-of-00002.gguf (version GGUF V3 (latest))\n"
        "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 11530.07 MiB on device 0:"
        " cudaMalloc failed: out of memory"
    )
    assert explain(log, gpu="RTX 3060 8GB").model.id == "openai/gpt-oss-20b"


def test_a_run_of_deepspeed_says_its_gpus_and_what_it_offloads(explain):
    world = "eyJsb2NhbGhvc3QiOiBbMCwgMSwgMiwgM119"  # {"localhost": [0, 1, 2, 3]}
    command = (
        f"deepspeed.launcher.launch --world_info={world} train.py --model_name_or_path"
        " Qwen/Qwen3-8B --deepspeed ds_z2_offload.json --bf16 True --max_length 2048"
    )
    answer = explain(f"{command}\n{OLD_TORCH}")
    understood = answer.understood_as
    assert (answer.gpu.count, understood["zero_stage"], understood["offload"]) == (
        4, 2, "optimizer"
    )  # fmt: skip


def test_settings_in_yaml_below_a_traceback_name_the_run(explain):
    settings = "base_model: Qwen/Qwen3-8B\nadapter: lora\nsequence_len: 8192\nmicro_batch_size: 4\n"
    answer = explain(f"trainer.train()\n{TORCH}\n{settings}")
    assert (answer.model.id, answer.understood_as["sequence_length"]) == ("Qwen/Qwen3-8B", 8192)


def test_the_settings_that_deepspeed_prints_name_the_run(explain):
    printed = (
        "[INFO] [config.py:1001:print]   zero_optimization_stage ...... 3\n"
        "[INFO] [config.py:1001:print]   train_micro_batch_size_per_gpu  4\n"
        "[INFO] [config.py:1001:print]   world_size ................... 8\n"
    )
    answer = explain(f"{printed}{TORCH}", model="Qwen/Qwen3-8B")
    understood = answer.understood_as
    assert answer.gpu.count == 8
    assert [understood[name] for name in ("framework", "zero_stage", "micro_batch_size")] == [
        "deepspeed", 3, 4
    ]  # fmt: skip


def test_the_context_that_fits_is_the_logs_own(explain):
    log = (
        "INFO vLLM API server version 0.11.0\nValueError: To serve at least one request with the"
        " models's max seq len (40960), (6.25 GiB KV cache is needed, which is larger than the"
        " available KV cache memory (4.31 GiB). Based on the available memory, the estimated"
        " maximum model length is 28224."
    )
    assert explain(log, model="").fixes[0].command == "--max-model-len 28224"


def test_other_processes_are_not_named_where_this_one_holds_the_gpu(explain):
    message = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a"
    message += " total capacity of 79.11 GiB of which 1.10 GiB is free. Including non-PyTorch"
    first = "nvidia-smi"
    alone = explain(f"{message} memory, this process has 78.00 GiB memory in use.").fixes
    shared = explain(f"{message} memory, this process has 40.00 GiB memory in use.").fixes
    assert [fix.command == first for fix in (alone[0], shared[0])] == [False, True]


def test_a_server_that_runs_out_with_its_cache_in_place_takes_too_large_a_share(explain):
    log = (
        "server_args=ServerArgs(model_path='Qwen/Qwen3-32B', tp_size=2, mem_fraction_static=0.85)\n"
        "[TP0] KV Cache is allocated. #tokens: 42318, K size: 2.58 GB, V size: 2.58 GB\n"
        "[TP0] Capture cuda graph failed: CUDA out of memory. Tried to allocate 594.00 MiB. GPU 0"
        " has a total capacity of 44.39 GiB of which 310.31 MiB is free.\n"
    )
    assert explain(log).fixes[0].command == "--mem-fraction-static 0.8"


def test_memory_that_runs_out_while_graphs_are_captured_is_a_matter_of_the_share(explain):
    log = (
        "server_args=ServerArgs(model_path='Qwen/Qwen3-32B', tp_size=1, mem_fraction_static=0.92)\n"
        "Exception: Capture cuda graph failed: CUDA out of memory. Tried to allocate 600.00 MiB."
        " GPU 0 has a total capacity of 79.11 GiB of which 310 MiB is free."
    )
    assert "--mem-fraction-static 0.8" in explain(log=log, gpu="H100").fixes[0].command
