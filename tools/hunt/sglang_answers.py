"""Ask an installed SGLang what it would allocate: its arguments, model classes and pools.

    python -m hunt.sglang_answers CASES.jsonl ANSWERS.jsonl

Runs under the Python that has SGLang (0.5.23), without a GPU. Weights are those of rank 0 at
construction. Source of what is called: sglang 0.5.23, srt/server_args.py (`resolve_once`),
srt/model_loader/loader.py (`_initialize_model`), srt/mem_cache/kv_cache_configurator.py
(`_resolve_memory_pool_config`)."""

import gc
import importlib
import json
import logging
import os
import re
import resource
import sys
import tempfile
import traceback
from pathlib import Path
from types import SimpleNamespace

os.environ.update(SGLANG_DISABLE_TVM_FFI="1", TOKENIZERS_PARALLELISM="false")

from hunt import stand_in

GIB = 2**30
SECONDS = 240
"""The longest that one case may take [s of the processor]."""

GPUS_BY_NAME = {
    name: stand_in.Gpu(title, mib * 2**20, capability, multiprocessors)
    for name, title, mib, capability, multiprocessors in (
        ("H100", "NVIDIA H100 80GB HBM3", 81559, (9, 0), 132),
        ("H200", "NVIDIA H200", 143771, (9, 0), 132),
        ("A100", "NVIDIA A100-SXM4-80GB", 81920, (8, 0), 108),
        ("B200", "NVIDIA B200", 183359, (10, 0), 148),
        ("L40S", "NVIDIA L40S", 46068, (8, 9), 142),
        ("RTX 4090", "NVIDIA GeForce RTX 4090", 24564, (8, 9), 128),
        ("RTX 5090", "NVIDIA GeForce RTX 5090", 32607, (12, 0), 170),
        ("T4", "Tesla T4", 15360, (7, 5), 40),
    )
}
"""Cards with what nvidia-smi prints of them."""

FLAGS = {
    "context_length": "context_length",
    "mem_fraction_static": "mem_fraction_static",
    "chunked_prefill_size": "chunked_prefill_size",
    "max_running_requests": "max_running_requests",
    "kv_cache_dtype": "kv_cache_dtype",
    "expert_parallel": "ep_size",
    "page_size": "page_size",
    "disable_cuda_graph": "disable_cuda_graph",
    "json_model_override_args": "json_model_override_args",
}
"""Fields of a case by the argument that they are."""
SHOWN = (
    "mem_fraction_static", "chunked_prefill_size", "max_prefill_tokens", "page_size",
    "attention_backend", "kv_cache_dtype", "disable_radix_cache", "moe_runner_backend",
    "disable_overlap_schedule", "swa_full_tokens_ratio", "mamba_full_memory_ratio",
    "mamba_ssm_dtype", "mamba_radix_cache_strategy", "max_running_requests", "quantization",
    "dtype",
)  # fmt: skip
"""Resolved arguments that an answer names."""

IMPORTED_ONCE = ("sglang.srt.models.registry", "sglang.srt.model_executor.model_runner")
"""Modules that are imported before the cases of a GPU, of which each else imports them anew."""


def answer(case: dict, folder: str) -> dict:
    """Return the resolved arguments, bytes by tensor group and pools of one case."""
    from sglang.srt import runtime_context
    from sglang.srt.arg_groups.overrides import resolved_view
    from sglang.srt.configs.model_config import ModelConfig
    from sglang.srt.server_args import ServerArgs

    arguments = ServerArgs(
        model_path=folder,
        skip_tokenizer_init=True,
        load_format="dummy",
        device="cuda",
        tp_size=case["tensor_parallel"],
        **{flag: case[field] for field, flag in FLAGS.items() if case.get(field) is not None},
    )
    arguments.resolve_once()
    _read_again()
    view = resolved_view(arguments)
    out = {"resolved": {name: _plain(getattr(view, name, None)) for name in SHOWN}}
    graphs = view.cuda_graph_config
    for phase in ("decode", "prefill"):
        of_phase = getattr(graphs, phase)
        out["resolved"][f"{phase}_graphs"] = [
            str(of_phase.backend), of_phase.max_bs, len(of_phase.bs or ())
        ]  # fmt: skip
    ranks = runtime_context.SpawnRanks(world_rank=0, gpu_id=0)
    runtime_context.publish(arguments, role="scheduler", ranks=ranks)
    groups = _groups(runtime_context.get_parallel(), case["tensor_parallel"])
    runtime_context.get_parallel().override_permanently(**groups)
    config = ModelConfig.from_server_args(arguments)
    model = _model(arguments, config)
    sizes = _sizes(model)
    loaded = sizes["parameter_bytes"] + sizes["buffer_bytes"]
    try:
        pools = _pools(case["free_gib"], loaded, model, config, arguments, groups)
    except Exception as error:
        pools = {"plan_error": f"{type(error).__name__}: {str(error)[:300]}", "place": _place()}
    return {"architecture": type(model).__name__, **out, **sizes, **pools}


def _read_again() -> None:
    """Read what a module in `IMPORTED_ONCE` read of the environment before the arguments set it."""
    from sglang.srt.environ import envs
    from sglang.srt.models import deepseek_v4

    deepseek_v4._FP8_WO_A_GEMM = envs.SGLANG_OPT_FP8_WO_A_GEMM.get()


def _plain(value: object) -> object:
    return value if isinstance(value, int | float | str | bool | None) else str(value)


def _groups(parallel, tensor: int) -> dict:  # noqa: ANN001
    sizes = {
        "world_group": tensor,
        "tp_group": tensor,
        "pp_group": 1,
        "shared_experts_tp_group": tensor,
        "attn_tp_group": parallel.attn_tp_size,
        "attn_cp_group": parallel.attn_cp_size,
        "moe_ep_group": parallel.moe_ep_size,
        "moe_tp_group": parallel.moe_tp_size,
        "moe_dp_group": parallel.moe_dp_size,
    }
    return {name: stand_in.Group(size) for name, size in sizes.items()}


def _model(arguments, config):  # noqa: ANN001, ANN202
    """Return the model on the meta device, with rotary tables as long as the context."""
    import torch
    from sglang.srt.configs.load_config import LoadConfig
    from sglang.srt.layers.dp_attention import initialize_dp_attention
    from sglang.srt.layers.moe import initialize_moe_config
    from sglang.srt.layers.quantization.fp4_utils import initialize_fp4_gemm_config
    from sglang.srt.layers.quantization.fp8_utils import initialize_fp8_gemm_config
    from sglang.srt.model_loader.loader import _get_quantization_config, _initialize_model
    from sglang.srt.model_loader.utils import set_default_torch_dtype
    from sglang.srt.utils import reserve_rope_cache_for_long_sequences

    initialize_moe_config()
    initialize_fp8_gemm_config()
    initialize_fp4_gemm_config()
    initialize_dp_attention(arguments)
    load = LoadConfig(load_format="dummy")
    with set_default_torch_dtype(config.dtype), torch.device("meta"), stand_in.CudaToMeta():
        model = _initialize_model(config, load, _get_quantization_config(config, load))
        reserve_rope_cache_for_long_sequences(model, config, logging.getLogger("hunt"))
    _narrow_scales(model)
    return model


def _narrow_scales(model) -> None:  # noqa: ANN001
    """Narrow the scales of MXFP4 experts that SGLang builds in float32 and keeps in 8 bit. Source:
    mxfp4_flashinfer_trtllm_moe.py, process_weights_after_loading."""
    import torch

    for module in model.modules():
        for name in ("w13_weight_scale_inv", "w2_weight_scale_inv"):
            scale = getattr(module, name, None)
            packed = getattr(getattr(module, "w13_weight", None), "dtype", None) is torch.int8
            if packed and scale is not None and scale.dtype is torch.float32:
                narrow = torch.empty_like(scale, dtype=torch.float8_e8m0fnu)
                setattr(module, name, torch.nn.Parameter(narrow, requires_grad=False))


def _sizes(model) -> dict:  # noqa: ANN001
    """Return the bytes of parameters and buffers, and of each kind of tensor over all layers."""
    seen, groups, totals = set(), {}, {"parameter": 0, "buffer": 0}
    for kind, tensors in (
        ("parameter", model.named_parameters()),
        ("buffer", model.named_buffers()),
    ):
        for name, tensor in tensors:
            if id(tensor) in seen:
                continue
            seen.add(id(tensor))
            size = tensor.numel() * tensor.element_size()
            totals[kind] += size
            group = f"{re.sub(r'[.][0-9]+[.]', '.#.', name)} {str(tensor.dtype)[6:]}"
            if kind == "parameter":
                groups[group] = groups.get(group, 0) + size
    return {
        "parameter_bytes": totals["parameter"],
        "buffer_bytes": totals["buffer"],
        "groups": groups,
    }


def _pools(free: float, loaded: int, model, config, arguments, groups: dict) -> dict:  # noqa: ANN001
    """Return what SGLang's planner divides: `free` [GiB] before loading, `loaded` bytes."""
    from sglang.srt import runtime_context
    from sglang.srt.configs.model_config import AttentionArch
    from sglang.srt.mem_cache import kv_cache_configurator, kv_cache_dtype
    from sglang.srt.model_executor.model_runner import ModelRunner
    from sglang.srt.model_executor.model_runner_components import (
        layer_setup,
        load_model_utils,
        spec_aux_hidden_state,
    )
    from sglang.srt.model_executor.pool_configurator import create_memory_pool_configurator
    from sglang.srt.speculative.spec_info import SpeculativeAlgorithm

    kv_cache_configurator.get_available_gpu_memory = lambda *a, **k: free - loaded / GIB
    speculative = runtime_context.get_spec()
    algorithm = SpeculativeAlgorithm.from_string(speculative.speculative_algorithm)
    requested = runtime_context.get_model().kv_cache_dtype
    resolved, dtype = kv_cache_dtype.configure_kv_cache_dtype(
        server_args_kv_cache_dtype=requested,
        model=model,
        model_dtype=config.dtype,
        is_draft_worker=False,
        is_dflash=False,
        speculative_draft_attention_backend=None,
        speculative_draft_kv_cache_dtype=speculative.speculative_draft_kv_cache_dtype,
    )
    runner = SimpleNamespace(
        device="cuda",
        gpu_id=0,
        pp_group=groups["pp_group"],
        model=model,
        model_config=config,
        server_args=arguments,
        kv_cache_dtype=dtype,
        kv_cache_dtype_str=resolved if resolved is not None else requested,
        dtype=config.dtype,
        page_size=runtime_context.get_schedule().page_size,
        sliding_window_size=load_model_utils.resolve_sliding_window_size(model, config),
        spec_algorithm=algorithm,
        is_draft_worker=False,
        token_to_kv_pool_allocator=None,
        req_to_token_pool=None,
        memory_pool_config=None,
        draft_model_idx=None,
        forward_stream=None,
        spec_aux_config=spec_aux_hidden_state.resolve_spec_aux_hidden_state_config(
            server_args=arguments,
            model_config=config,
            spec_algorithm=algorithm,
            is_draft_worker=False,
        ),
        is_hybrid_swa=config.is_hybrid_swa,
        is_hybrid_swa_compress=config.is_hybrid_swa_compress,
        use_mla_backend=config.attention_arch == AttentionArch.MLA,
        layer_info=layer_setup.resolve_layer_indices(
            model=model, model_config=config, is_draft_worker=False
        ),
    )
    ModelRunner.init_kv_cache_configurator(runner)
    planner = runner.kv_cache_configurator
    pool = planner._resolve_memory_pool_config(free)
    configurator = create_memory_pool_configurator(planner)
    return {
        "tokens": pool.max_total_num_tokens,
        "pool": {
            "full tokens": pool.full_max_total_num_tokens,
            "window tokens": pool.swa_max_total_num_tokens,
            "requests": pool.max_running_requests,
            "share": pool.mem_fraction_static,
            "cache": str(dtype)[6:],
            "class": type(configurator).__name__,
            **{
                name.strip("_"): value
                for name, value in vars(configurator).items()
                if isinstance(value, int | float) and not isinstance(value, bool)
            },
            **_states(planner, runtime_context),
        },
    }


def _states(planner, runtime_context) -> dict:  # noqa: ANN001
    hybrid = planner.mambaish_config
    if hybrid is None:
        return {}
    return {
        "slots": runtime_context.get_schedule().max_mamba_cache_size,
        "slots a request": planner._calculate_mamba_ratio(),
        "slot bytes": hybrid.mamba2_cache_params.mamba_cache_per_req,
    }


def _place() -> str:
    lines = [line.strip() for line in traceback.format_exc().splitlines()]
    files = [line.split("site-packages/")[-1] for line in lines if line.startswith("File")]
    return " / ".join(files)[-300:]


def _fork(task) -> bytes:  # noqa: ANN001
    """Return what `task` writes in a process of its own, as SGLang keeps state of the whole
    process."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        with os.fdopen(write, "wb") as file:
            file.write(task())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as file:
        text = file.read()
    os.waitpid(child, 0)
    return text


def _answered(case: dict) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(case["config"]))
        if case.get("quantization"):
            text = json.dumps(case["quantization"])
            (Path(folder) / "hf_quant_config.json").write_text(text)
        try:
            result = answer(case, folder)
        except Exception as error:
            result = {"error": f"{type(error).__name__}: {str(error)[:400]}", "place": _place()}
    return json.dumps(result, default=str).encode()


def _of_gpu(name: str, cases: list[dict], answers: Path) -> None:
    """Answer the cases of one gpu; what SGLang imports depends on it."""
    stand_in.install(GPUS_BY_NAME[name])
    import sglang.srt.layers.attention.dsa.dsa_indexer as indexer
    import sglang.srt.layers.attention.dsa.utils as sparse
    from sglang.srt.utils import common

    common.get_nvgpu_memory_capacity = lambda: float(GPUS_BY_NAME[name].total // 2**20)
    sparse.resolve_num_sms = indexer.resolve_num_sms = lambda: GPUS_BY_NAME[name].multiprocessors
    logging.disable(logging.CRITICAL)
    for module in IMPORTED_ONCE:
        importlib.import_module(module)
    gc.freeze()  # what is imported is garbage in no case
    for case in cases:
        text = _fork(lambda case=case: _answered(case))
        result = json.loads(text) if text else {"error": "crash"}
        with answers.open("a") as file:
            file.write(json.dumps({"id": case["id"], "result": result}) + "\n")


def main(questions: Path, answers: Path) -> None:
    """Answer every case of a file that is not answered yet, gpu by gpu."""
    answered = set()
    if answers.exists():
        answered = {json.loads(line)["id"] for line in answers.read_text().splitlines()}
    rows = map(json.loads, questions.read_text().splitlines())
    cases = [case for case in rows if case["id"] not in answered]
    for name in dict.fromkeys(case["card"] for case in cases):
        of_gpu = [case for case in cases if case["card"] == name]
        child = os.fork()
        if not child:
            try:
                _of_gpu(name, of_gpu, answers)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
