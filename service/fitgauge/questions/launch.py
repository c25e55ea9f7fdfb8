"""How to start what was estimated: the command with the settings that the answer is about, flags only where they differ."""

import shlex

from msgspec import json, structs

from fitgauge.engine.architecture import Model, Part
from fitgauge.engine.what_if import PLAIN, canonical
from fitgauge.engine.workload import EngineName, Workload
from fitgauge.questions.schemas import FitRequest

_ONLINE: dict[EngineName, dict[str, str]] = {
    "vllm": {"fp8": "fp8", "nf4": "bitsandbytes"},
    "sglang": {"fp8": "fp8", "nf4": "bitsandbytes"},
    "tgi": {"fp8": "fp8", "int8": "bitsandbytes", "nf4": "bitsandbytes-nf4", "fp4": "bitsandbytes-fp4"},
    "transformers": {"int8": "load_in_8bit=True", "nf4": "load_in_4bit=True, bnb_4bit_quant_type='nf4'", "fp4": "load_in_4bit=True"},
}
"""What an engine quantizes while it loads, and how it is told; other formats need a checkpoint that holds them."""

_CACHE_FLAGS = {"F8_E4M3": "fp8", "F8_E5M2": "fp8_e5m2"}
_SGLANG_CACHE_FLAGS = {"F8_E4M3": "fp8_e4m3", "F8_E5M2": "fp8_e5m2"}

Flags = list[object]


def launch_command(model: Model, request: FitRequest, workload: Workload) -> str:
    """The command line of the engine asked for."""
    if model.source == "size":
        model = structs.replace(model, id="MODEL")
    return shlex.join(str(flag) for flag in _COMMANDS[workload.engine](model, request, workload))


def _vllm(model: Model, request: FitRequest, workload: Workload) -> Flags:
    flags: Flags = ["vllm", "serve", model.id, "--max-model-len", workload.context_length]
    if model.revision and model.source == "hub" and "@" in request.model:
        flags += ["--revision", model.revision]
    flags += _given(
        ("--tensor-parallel-size", _degree(workload.tensor_parallel)),
        ("--pipeline-parallel-size", _degree(workload.pipeline_parallel)),
        ("--data-parallel-size", _degree(workload.data_parallel)),
    )
    if workload.expert_parallel > 1:
        flags.append("--enable-expert-parallel")
    flags += _given(
        ("--quantization", _online(request, workload.engine)),
        ("--kv-cache-dtype", _CACHE_FLAGS.get(workload.cache_dtype)),
        ("--gpu-memory-utilization", request.gpu_memory_utilization),
        ("--max-num-seqs", request.max_num_seqs),
        ("--max-num-batched-tokens", request.max_batched_tokens),
        ("--cpu-offload-gb", request.cpu_offload_gib or None),
        ("--kv-cache-memory-bytes", workload.cache_pool_bytes),
    )
    if workload.lora_slots:
        flags += ["--enable-lora", "--max-loras", workload.lora_slots, "--max-lora-rank", workload.lora_rank]
    if workload.speculative_tokens:
        drafts = {"model": request.draft_model} if request.draft_model else {"method": "mtp"}
        flags += ["--speculative-config", json.encode({**drafts, "num_speculative_tokens": workload.speculative_tokens}).decode()]
    return [*flags, "--enforce-eager"] if workload.enforce_eager else flags


def _sglang(model: Model, request: FitRequest, workload: Workload) -> Flags:
    flags: Flags = ["python", "-m", "sglang.launch_server", "--model-path", model.id, "--context-length", workload.context_length]
    flags += _given(
        ("--tp", _degree(workload.tensor_parallel)),
        ("--pp", _degree(workload.pipeline_parallel)),
        ("--dp", _degree(workload.data_parallel)),
        ("--ep", _degree(workload.expert_parallel)),
        ("--quantization", _online(request, workload.engine)),
        ("--kv-cache-dtype", _SGLANG_CACHE_FLAGS.get(workload.cache_dtype)),
        ("--mem-fraction-static", request.gpu_memory_utilization),
        ("--max-running-requests", request.max_num_seqs),
        ("--chunked-prefill-size", request.max_batched_tokens),
        ("--cpu-offload-gb", request.cpu_offload_gib or None),
    )
    return [*flags, "--disable-cuda-graph"] if workload.enforce_eager else flags


def _tensorrt_llm(model: Model, request: FitRequest, workload: Workload) -> Flags:
    flags: Flags = ["trtllm-serve", model.id, "--max_seq_len", workload.context_length]
    return flags + _given(
        ("--tp_size", _degree(workload.tensor_parallel)),
        ("--pp_size", _degree(workload.pipeline_parallel)),
        ("--ep_size", _degree(workload.expert_parallel)),
        ("--kv_cache_free_gpu_memory_fraction", request.gpu_memory_utilization),
        ("--max_batch_size", request.max_num_seqs),
        ("--max_num_tokens", request.max_batched_tokens),
    )


def _llamacpp(model: Model, request: FitRequest, workload: Workload) -> Flags:
    """Without -ngl llama-server keeps on the host by itself what does not fit (--fit)."""
    flags: Flags = ["llama-server", "-hf", _gguf_name(model, request), "-c", workload.context_length * workload.concurrency]
    if not workload.cpu_offload_bytes:
        flags += ["-ngl", "all"]
    cache = None if workload.cache_dtype == "auto" else workload.cache_dtype.lower()
    parallel = request.max_num_seqs or (workload.concurrency if workload.concurrency > workload.max_num_seqs else None)
    return flags + _given(
        ("--cache-type-k", cache),
        ("--cache-type-v", cache),
        ("--parallel", parallel),
        ("--ubatch-size", request.max_batched_tokens),
    )


def _ollama(model: Model, request: FitRequest, workload: Workload) -> Flags:
    settings: Flags = [f"OLLAMA_CONTEXT_LENGTH={workload.context_length}"]
    if workload.concurrency > 1:
        settings.append(f"OLLAMA_NUM_PARALLEL={workload.concurrency}")
    if workload.cache_dtype != "auto":
        settings += ["OLLAMA_FLASH_ATTENTION=1", f"OLLAMA_KV_CACHE_TYPE={workload.cache_dtype.lower()}"]
    return ["env", *settings, "ollama", "serve"]


def _transformers(model: Model, request: FitRequest, workload: Workload) -> Flags:
    imported, config, asked = f"{_auto_class(model)} as M", "", _online(request, workload.engine)
    if asked:
        imported, config = f"{imported}, BitsAndBytesConfig as B", f", quantization_config=B({asked})"
    load = f"from transformers import {imported}; M.from_pretrained({model.id!r}, dtype='auto', device_map='auto'{config})"
    return ["python", "-c", load]


def _auto_class(model: Model) -> str:
    """The class of transformers that loads the whole model. Source: transformers 5.23, models/auto/modeling_auto.py."""
    if model.spec.task == "encode":
        return "AutoModel"
    if model.spec.task == "encoder_decoder":
        return "AutoModelForSpeechSeq2Seq" if model.spec.model_type == "whisper" else "AutoModelForSeq2SeqLM"
    seeing = any(block.part is Part.VISION for block in model.spec.blocks)
    return "AutoModelForImageTextToText" if seeing else "AutoModelForCausalLM"


def _tgi(model: Model, request: FitRequest, workload: Workload) -> Flags:
    flags: Flags = ["text-generation-launcher", "--model-id", model.id, "--max-total-tokens", workload.context_length]
    return flags + _given(
        ("--num-shard", _degree(workload.tensor_parallel)),
        ("--quantize", _online(request, workload.engine)),
        ("--kv-cache-dtype", {"F8_E4M3": "fp8_e4m3fn", "F8_E5M2": "fp8_e5m2"}.get(workload.cache_dtype)),
        ("--cuda-memory-fraction", request.gpu_memory_utilization),
        ("--max-batch-prefill-tokens", request.max_batched_tokens),
    )


def _mlx(model: Model, request: FitRequest, workload: Workload) -> Flags:
    return ["mlx_lm.server", "--model", model.id]


_COMMANDS = {
    "vllm": _vllm, "sglang": _sglang, "tensorrt-llm": _tensorrt_llm, "llama.cpp": _llamacpp, "ollama": _ollama,
    "transformers": _transformers, "tgi": _tgi, "mlx": _mlx,
}  # fmt: skip


def _given(*pairs: tuple[str, object]) -> Flags:
    """The flags that have a value."""
    return [part for flag, value in pairs if value is not None for part in (flag, value)]


def _degree(ranks: int) -> int | None:
    return ranks if ranks > 1 else None


def _online(request: FitRequest, engine: EngineName) -> str | None:
    return _ONLINE.get(engine, {}).get(canonical(request.quantization)) if request.quantization else None


def loads_asked_format(request: FitRequest, engine: EngineName) -> bool:
    """Whether the command loads the weights in the format asked for, and not as they are published."""
    asked = request.quantization
    return asked is None or canonical(asked) in PLAIN or _online(request, engine) is not None


def _gguf_name(model: Model, request: FitRequest) -> str:
    """A repository with the quantization after a colon, as llama-server's -hf takes it."""
    return f"{model.id}:{request.quantization.strip().upper()}" if request.quantization else model.id
