"""How to start what was estimated: the command with the settings that the answer is about, flags
only where they differ.

Flags read in: vllm/engine/arg_utils.py (0.33); sglang 0.5.23 srt/arg_groups/fields; TensorRT-LLM
1.2 tensorrt_llm/commands/serve.py and llmapi/llm_args.py; llama.cpp tools/server/README.md;
ollama envconfig/config.go; text-generation-inference 3.3 launcher/src/main.rs; mlx-lm 0.32
server.py; transformers 5.23 modeling_utils.py, from_pretrained. What has no flag is in
`UNCARRIED`."""

import shlex
from typing import NamedTuple

from msgspec import json, structs

from fitgauge.engine.model.spec import Model
from fitgauge.engine.quantization.requested import UNQUANTIZED, canonical_name
from fitgauge.engine.serving.llamacpp.offload import Offload, offloaded
from fitgauge.engine.serving.workload import EngineName, Workload
from fitgauge.engine.weights.sharding import ShardedWeights
from fitgauge.services.common.schemas import FitRequest

_ONLINE: dict[EngineName, dict[str, str]] = {
    "vllm": {"fp8": "fp8", "nf4": "bitsandbytes"},
    "sglang": {"fp8": "fp8", "nf4": "bitsandbytes"},
    "tgi": {
        "fp8": "fp8",
        "int8": "bitsandbytes",
        "nf4": "bitsandbytes-nf4",
        "fp4": "bitsandbytes-fp4",
    },
    "transformers": {
        "int8": "load_in_8bit=True",
        "nf4": "load_in_4bit=True, bnb_4bit_quant_type='nf4'",
        "fp4": "load_in_4bit=True",
    },
}
"""What an engine quantizes while it loads, and how it is told; other formats need a checkpoint
that holds them."""

_CACHE_FLAGS: dict[EngineName, dict[str, str]] = {
    "vllm": {"F8_E4M3": "fp8", "F8_E5M2": "fp8_e5m2", "BF16": "bfloat16", "F16": "float16"},
    "sglang": {"F8_E4M3": "fp8_e4m3", "F8_E5M2": "fp8_e5m2", "BF16": "bf16"},
    "tgi": {"F8_E4M3": "fp8_e4m3fn", "F8_E5M2": "fp8_e5m2"},
    "tensorrt-llm": {"F8_E4M3": "fp8"},
}
"""What an engine calls a format of the cache; it takes no others."""

UNCARRIED: dict[EngineName, tuple[tuple[str, str], ...]] = {
    "tensorrt-llm": (("data_parallel", "start as many servers"),),
    "llama.cpp": (("data_parallel", "start as many servers"),),
    "ollama": (
        ("data_parallel", "start as many servers"),
        ("max_batched_tokens", "send num_batch in the options of a request"),
        (
            "cpu_offload_gib",
            (
                "Ollama keeps on the host what does not fit; num_gpu in the options of a request"
                " sets the layers on the GPU"
            ),
        ),
    ),
    "transformers": (
        ("data_parallel", "start as many processes"),
        (
            "kv_cache_dtype",
            "the cache has the format of the activations, unless generate is given another cache",
        ),
    ),
    "tgi": (("data_parallel", "start as many servers"),),
    "mlx": (
        ("data_parallel", "start as many servers"),
        ("context_length", "the server sets no bound"),
        ("kv_cache_dtype", "mlx_lm.generate has --kv-bits, the server has not"),
    ),
}
"""Settings of a question that an engine's command line has no word for, and what to do instead."""

_TENSORRT_FILE = "trtllm.json"
"""JSON is YAML too."""

_TGI_OWN_PREFILL = (3,)
"""From here on the launcher works out max_batch_prefill_tokens from the card; the estimate's own
has to be said."""

_TGI_REQUESTS, _MLX_REQUESTS = 128, 32
"""max_concurrent_requests and decode-concurrency where they are not said."""

Flags = list[object]


class _Start(NamedTuple):
    """What is started. pool_tokens: of a pool given outright. offload: what llama.cpp keeps on
    the host."""

    model: Model
    request: FitRequest
    workload: Workload
    pool_tokens: int | None
    offload: Offload | None

    @property
    def revision(self) -> str | None:
        """The revision asked for."""
        pinned = self.model.revision and self.model.source == "hub" and "@" in self.request.model
        return self.model.revision if pinned else None

    @property
    def cache(self) -> str | None:
        """What the engine calls the format of the cache; None for its own choice."""
        return _CACHE_FLAGS[self.workload.engine].get(self.workload.cache_dtype)


def launch_command(
    model: Model,
    request: FitRequest,
    workload: Workload,
    *,
    pool_tokens: int | None = None,
    laid: ShardedWeights | None = None,
) -> str:
    """Return the command line of the engine asked for. pool_tokens: of a pool given outright,
    which some engines take in tokens; laid: the weights, of which llama.cpp's are counted in
    layers where some stay on the host."""
    if model.source == "size":
        model = structs.replace(model, id="MODEL")
    offload = None
    if laid is not None and workload.cpu_offload_bytes and workload.engine == "llama.cpp":
        offload = offloaded(
            laid, model.spec.layers, workload.cpu_offload_bytes * workload.pipeline_parallel
        )
    start = _Start(model, request, workload, pool_tokens, offload)
    config = _tensorrt_config(start) if workload.engine == "tensorrt-llm" else {}
    command = shlex.join(str(flag) for flag in _COMMANDS[workload.engine](start))
    if not config:
        return command
    return (
        f"echo {shlex.quote(json.encode(config).decode())} > {_TENSORRT_FILE} && {command}"
        f" --extra_llm_api_options {_TENSORRT_FILE}"
    )


def unsupported_flags(request: FitRequest, workload: Workload) -> list[str]:
    """Return what was asked for and is not in the command, a sentence each, with what to do
    instead."""
    said = []
    for name, instead in UNCARRIED.get(workload.engine, ()):
        asked = getattr(request, name)
        if asked and asked != "auto" and not (name == "data_parallel" and asked == 1):
            said.append(f"{workload.engine}'s command has no flag for {name}: {instead}.")
    formats = _CACHE_FLAGS.get(workload.engine)
    if formats is not None and workload.cache_dtype not in ("auto", *formats):
        known = ", ".join(dict.fromkeys(formats.values()))
        said.append(
            f"{workload.engine}'s command has no flag for a cache in {request.kv_cache_dtype}: it"
            f" takes {known}."
        )
    return said


def _vllm(start: _Start) -> Flags:
    model, request, workload = start.model, start.request, start.workload
    flags: Flags = ["vllm", "serve", model.id, "--max-model-len", workload.context_length]
    flags += _given(
        ("--revision", start.revision),
        ("--tensor-parallel-size", _degree(workload.tensor_parallel)),
        ("--pipeline-parallel-size", _degree(workload.pipeline_parallel)),
        ("--data-parallel-size", _degree(workload.data_parallel)),
    )
    if workload.expert_parallel > 1:
        flags.append("--enable-expert-parallel")
    flags += _given(
        ("--quantization", _online(request, workload.engine)),
        ("--kv-cache-dtype", start.cache),
        ("--gpu-memory-utilization", request.gpu_memory_utilization),
        ("--max-num-seqs", request.max_num_seqs),
        ("--max-num-batched-tokens", request.max_batched_tokens),
        ("--cpu-offload-gb", request.cpu_offload_gib or None),
        ("--kv-cache-memory-bytes", workload.cache_pool_bytes),
    )
    if workload.lora_slots:
        flags += [
            "--enable-lora",
            "--max-loras",
            workload.lora_slots,
            "--max-lora-rank",
            workload.lora_rank,
        ]
    if workload.speculative_tokens:
        drafts = {"model": request.draft_model} if request.draft_model else {"method": "mtp"}
        flags += [
            "--speculative-config",
            json.encode({**drafts, "num_speculative_tokens": workload.speculative_tokens}).decode(),
        ]
    return [*flags, "--enforce-eager"] if workload.enforce_eager else flags


def _sglang(start: _Start) -> Flags:
    model, request, workload = start.model, start.request, start.workload
    flags: Flags = [
        "python",
        "-m",
        "sglang.launch_server",
        "--model-path",
        model.id,
        "--context-length",
        workload.context_length,
    ]
    flags += _given(
        ("--revision", start.revision),
        ("--tp", _degree(workload.tensor_parallel)),
        ("--pp", _degree(workload.pipeline_parallel)),
        ("--dp", _degree(workload.data_parallel)),
        ("--ep", _degree(workload.expert_parallel)),
        ("--quantization", _online(request, workload.engine)),
        ("--kv-cache-dtype", start.cache),
        ("--mem-fraction-static", request.gpu_memory_utilization),
        ("--max-running-requests", request.max_num_seqs),
        ("--chunked-prefill-size", request.max_batched_tokens),
        ("--cpu-offload-gb", request.cpu_offload_gib or None),
        ("--max-total-tokens", start.pool_tokens),
    )
    if model.spec.task == "encode":
        flags.append("--is-embedding")
    return [*flags, "--disable-cuda-graph"] if workload.enforce_eager else flags


def _tensorrt_llm(start: _Start) -> Flags:
    request, workload = start.request, start.workload
    flags: Flags = ["trtllm-serve", start.model.id, "--max_seq_len", workload.context_length]
    return flags + _given(
        ("--revision", start.revision),
        ("--tp_size", _degree(workload.tensor_parallel)),
        ("--pp_size", _degree(workload.pipeline_parallel)),
        ("--ep_size", _degree(workload.expert_parallel)),
        ("--kv_cache_free_gpu_memory_fraction", request.gpu_memory_utilization),
        ("--max_batch_size", request.max_num_seqs),
        ("--max_num_tokens", request.max_batched_tokens),
    )


def _tensorrt_config(start: _Start) -> dict[str, object]:
    """Return what trtllm-serve reads from a file alone. A kv_cache_config there replaces that of
    the flags, so it repeats their share."""
    workload, config = start.workload, dict[str, object]()
    cache = {
        name: value
        for name, value in (("dtype", start.cache), ("max_tokens", start.pool_tokens))
        if value is not None
    }
    if cache:
        config["kv_cache_config"] = {
            **cache,
            "free_gpu_memory_fraction": workload.gpu_memory_utilization,
        }
    return config | {"cuda_graph_config": None} if workload.enforce_eager else config


def _llamacpp(start: _Start) -> Flags:
    """Without -ngl llama-server keeps on the host by itself what does not fit (--fit)."""
    model, request, workload, offload = start.model, start.request, start.workload, start.offload
    flags: Flags = [
        "llama-server",
        "-hf",
        _gguf_name(model, request),
        "-c",
        workload.context_length * workload.concurrency,
    ]
    if offload is not None:
        flags += ["-ngl", model.spec.layers + 1 - offload.layers if offload.layers else "all"]
        flags += _given(("--n-cpu-moe", offload.experts or None))
    elif not workload.cpu_offload_bytes:
        flags += ["-ngl", "all"]
    cache = None if workload.cache_dtype == "auto" else workload.cache_dtype.lower()
    parallel = request.max_num_seqs or (
        workload.concurrency if workload.concurrency > workload.max_num_seqs else None
    )
    return flags + _given(
        ("--cache-type-k", cache),
        ("--cache-type-v", cache),
        ("--parallel", parallel),
        ("--ubatch-size", request.max_batched_tokens),
    )


def _ollama(start: _Start) -> Flags:
    """Ollama takes the fewest cards that hold a model, unless it is told to spread it."""
    workload = start.workload
    settings: Flags = [f"OLLAMA_CONTEXT_LENGTH={workload.context_length}"]
    parallel = max(workload.concurrency, workload.max_num_seqs)
    if parallel > 1:
        settings.append(f"OLLAMA_NUM_PARALLEL={parallel}")
    if workload.pipeline_parallel > 1:
        settings.append("OLLAMA_SCHED_SPREAD=1")
    if workload.cache_dtype != "auto":
        settings += [
            "OLLAMA_FLASH_ATTENTION=1",
            f"OLLAMA_KV_CACHE_TYPE={workload.cache_dtype.lower()}",
        ]
    return ["env", *settings, "ollama", "serve"]


def _transformers(start: _Start) -> Flags:
    """Return layers are spread over the cards by device_map; tensor parallelism is a process a
    card (tp_plan)."""
    model, ranks = start.model, start.workload.tensor_parallel
    imported, config, asked = (
        f"{_auto_class(model)} as M",
        "",
        _online(start.request, start.workload.engine),
    )
    if asked:
        imported, config = (
            f"{imported}, BitsAndBytesConfig as B",
            f", quantization_config=B({asked})",
        )
    if start.revision:
        config += f", revision={start.revision!r}"
    spread = "tp_plan='auto'" if ranks > 1 else "device_map='auto'"
    load = (
        f"from transformers import {imported}; M.from_pretrained({model.id!r}, dtype='auto',"
        f" {spread}{config})"
    )
    launcher: Flags = ["torchrun", "--nproc-per-node", ranks, "--no-python"] if ranks > 1 else []
    return [*launcher, "python", "-c", load]


def _auto_class(model: Model) -> str:
    """Return the class of transformers that loads the whole model. Source: transformers 5.23,
    models/auto/modeling_auto.py."""
    if model.spec.task == "encode":
        return "AutoModel"
    if model.spec.task == "encoder_decoder":
        return (
            "AutoModelForSpeechSeq2Seq"
            if model.spec.model_type == "whisper"
            else "AutoModelForSeq2SeqLM"
        )
    return "AutoModelForImageTextToText" if model.spec.sees_images else "AutoModelForCausalLM"


def _tgi(start: _Start) -> Flags:
    request, workload = start.request, start.workload
    flags: Flags = [
        "text-generation-launcher",
        "--model-id",
        start.model.id,
        "--max-total-tokens",
        workload.context_length,
    ]
    own = workload.version >= _TGI_OWN_PREFILL
    requests = workload.requests_per_replica
    flags += _given(
        ("--revision", start.revision),
        ("--num-shard", _degree(workload.tensor_parallel)),
        ("--quantize", _online(request, workload.engine)),
        ("--kv-cache-dtype", start.cache),
        ("--cuda-memory-fraction", request.gpu_memory_utilization),
        (
            "--max-batch-prefill-tokens",
            workload.max_batched_tokens if own else request.max_batched_tokens,
        ),
        ("--max-batch-total-tokens", start.pool_tokens),
        ("--max-concurrent-requests", requests if requests > _TGI_REQUESTS else None),
    )
    return [*flags, "--cuda-graphs", 0] if workload.enforce_eager else flags


def _mlx(start: _Start) -> Flags:
    workload = start.workload
    flags: Flags = ["mlx_lm.server", "--model", start.model.id]
    flags += _given(
        ("--prefill-step-size", start.request.max_batched_tokens),
        (
            "--decode-concurrency",
            (
                workload.requests_per_replica
                if workload.requests_per_replica > _MLX_REQUESTS
                else None
            ),
        ),
    )
    return (
        ["mlx.launch", "--hostfile", "hosts.json", *flags, "--pipeline"]
        if workload.pipeline_parallel > 1
        else flags
    )


_COMMANDS = {
    "vllm": _vllm, "sglang": _sglang, "tensorrt-llm": _tensorrt_llm, "llama.cpp": _llamacpp,
    "ollama": _ollama,
    "transformers": _transformers, "tgi": _tgi, "mlx": _mlx,
}  # fmt: skip


def _given(*pairs: tuple[str, object]) -> Flags:
    """Return the flags that have a value."""
    return [part for flag, value in pairs if value is not None for part in (flag, value)]


def _degree(ranks: int) -> int | None:
    return ranks if ranks > 1 else None


def _online(request: FitRequest, engine: EngineName) -> str | None:
    return (
        _ONLINE.get(engine, {}).get(canonical_name(request.quantization))
        if request.quantization
        else None
    )


def loads_asked_format(request: FitRequest, engine: EngineName) -> bool:
    """Return whether the command loads the weights in the format asked for, and not as they are
    published."""
    asked = request.quantization
    return (
        asked is None
        or canonical_name(asked) in UNQUANTIZED
        or _online(request, engine) is not None
    )


def _gguf_name(model: Model, request: FitRequest) -> str:
    """Return a repository with the quantization after a colon, as llama-server's -hf takes it."""
    return (
        f"{model.id}:{request.quantization.strip().upper()}" if request.quantization else model.id
    )
