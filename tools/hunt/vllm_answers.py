"""Ask an installed vLLM what it would allocate: its model classes, KV cache specs and planner.

    python -m hunt.vllm_answers CASES.jsonl ANSWERS.jsonl

Runs under the Python that has vLLM (0.33), without a GPU. Weights are those at construction.
Source of what is called: vllm 0.33.0, v1/worker/gpu/attn_utils.py, v1/core/kv_cache_planning.py,
v1/core/kv_cache_utils.py."""

import gc
import json
import os
import re
import signal
import sys
import tempfile
from pathlib import Path

from hunt import stand_in

H100 = stand_in.Gpu("NVIDIA H100 80GB HBM3", int(79.18 * 2**30), (9, 0), 132)
stand_in.install(H100)

import torch
import vllm.platforms as platforms
from vllm.platforms import cuda
from vllm.platforms.interface import DeviceCapability


class FakeCuda(cuda.NonNvmlCudaPlatform):
    """vLLM's platform in front of the GPU that is not there."""

    @classmethod
    def get_device_capability(cls, device_id=0):  # noqa: ANN001, ANN206
        """Return Hopper's."""
        return DeviceCapability(*H100.capability)

    @classmethod
    def has_device_capability(cls, capability, device_id=0):  # noqa: ANN001, ANN206
        """Compare with Hopper's."""
        least = capability if isinstance(capability, tuple) else divmod(capability, 10)
        return tuple(least) <= H100.capability

    @classmethod
    def get_device_name(cls, device_id=0) -> str:  # noqa: ANN001
        """Return the name."""
        return H100.name

    @classmethod
    def get_device_total_memory(cls, device_id=0) -> int:  # noqa: ANN001
        """Return the bytes."""
        return H100.total

    @classmethod
    def import_kernels(cls) -> None:
        """Load none."""

    @classmethod
    def num_compute_units(cls, device_id=0) -> int:  # noqa: ANN001
        """Return the multiprocessors."""
        return H100.multiprocessors

    @classmethod
    def is_fully_connected(cls, *_) -> bool:  # noqa: ANN002
        """Say that all GPUs have NVLink."""
        return True

    @classmethod
    def device_count(cls) -> int:
        """Return as many as any case has."""
        return 16


platforms._current_platform = FakeCuda()

import vllm.distributed.parallel_state as parallel
import vllm.model_executor.models.registry as registry

registry._run_in_subprocess = lambda task: task()
from vllm.config import (
    get_cached_compilation_config,
    get_layers_from_vllm_config,
    set_current_vllm_config,
)
from vllm.engine.arg_utils import EngineArgs
from vllm.model_executor.layers.attention_layer_base import AttentionLayerBase
from vllm.model_executor.layers.rotary_embedding import _ROPE_DICT
from vllm.model_executor.model_loader.utils import initialize_model
from vllm.model_executor.models.transformers.fuser import get_fusers
from vllm.usage.usage_lib import UsageContext
from vllm.utils.torch_utils import set_default_torch_dtype
from vllm.v1.attention.backends.utils import get_supported_kv_cache_layouts, resolve_kv_cache_layout
from vllm.v1.core.kv_cache_planning import get_global_kv_cache_groups, get_kv_cache_configs
from vllm.v1.core.kv_cache_utils import generate_scheduler_kv_cache_config, get_kv_cache_capacity
from vllm.v1.core.single_type_kv_cache_manager import register_all_kvcache_specs
from vllm.v1.worker.gpu.attn_utils import get_kv_cache_spec
from vllm.v1.worker.workspace import init_workspace_manager

FLAGS = {"kv_cache_dtype": "kv_cache_dtype", "expert_parallel": "enable_expert_parallel"}
SECONDS = 120
"""The longest that one case may take [s of the processor, whatever else the machine does]."""


def answer(case: dict, folder: str) -> dict:
    """Return bytes by rank and tensor group, KV specs and tokens of one case."""
    tensor, pipeline = case["tensor_parallel"], case.get("pipeline_parallel", 1)
    arguments = {
        "model": folder,
        "skip_tokenizer_init": True,
        "tensor_parallel_size": tensor,
        "pipeline_parallel_size": pipeline,
        "max_model_len": case["context_length"],
        "load_format": "dummy",
        **{flag: case[field] for field, flag in FLAGS.items() if case.get(field)},
    }
    headless = case["architecture"].endswith("Model")
    if headless and case["architecture"] in registry._EMBEDDING_MODELS:
        arguments["runner"] = "pooling"  # as modules.json in the repository has vLLM do
    if tensor * pipeline > 1:
        arguments["distributed_executor_backend"] = "mp"
    ranks, specs = [], []
    for rank in range(pipeline):
        config = EngineArgs(**arguments).create_engine_config(UsageContext.OPENAI_API_SERVER)
        _set_groups(tensor, pipeline, rank)
        _ROPE_DICT.clear()
        get_cached_compilation_config.cache_clear()
        get_fusers.cache.clear()  # by class alone: another model's sizes would be matched
        init_workspace_manager(torch.device("meta"))
        with (
            set_current_vllm_config(config),
            set_default_torch_dtype(config.model_config.dtype),
            torch.device("meta"),
            stand_in.CudaToMeta(),
        ):
            model = initialize_model(vllm_config=config)
            ranks.append(_sizes(model))
            platforms._current_platform.update_block_size_for_backend(config)
            specs.append(get_kv_cache_spec(config))
            plan = (
                _plan(config, specs, int(case["pool_gib"] * 2**30)) if rank == pipeline - 1 else {}
            )
    return {
        "architecture": type(model).__name__,
        "max_num_seqs": config.scheduler_config.max_num_seqs,
        "max_batched_tokens": config.scheduler_config.max_num_batched_tokens,
        "ranks": ranks,
        **plan,
    }


def _set_groups(tensor: int, pipeline: int, rank: int) -> None:
    sizes = {"_TP": tensor, "_EP": tensor, "_ETP": tensor, "_WORLD": tensor * pipeline}
    for name in (
        "_WORLD", "_TP", "_EP", "_ETP", "_DP", "_DCP", "_PCP", "_EPLB", "_INNER_DP_WORLD", "_NODE",
    ):  # fmt: skip
        if hasattr(parallel, name):
            setattr(parallel, name, stand_in.Group(sizes.get(name, 1)))
    parallel._PP = stand_in.Group(pipeline, rank, ends=True)


def _sizes(model: torch.nn.Module) -> dict:
    """Return the bytes of parameters and buffers, and of each kind of tensor over all layers; a
    buffer that is a view of a parameter takes none."""
    seen, groups = set(), {}
    parameters = {id(tensor) for tensor in model.parameters()}
    totals = {"parameter": 0, "buffer": 0}
    for kind, tensors in (
        ("parameter", model.named_parameters()),
        ("buffer", model.named_buffers()),
    ):
        for name, tensor in tensors:
            if id(tensor) in seen or id(tensor._base) in parameters:
                continue
            seen.add(id(tensor))
            size = tensor.numel() * tensor.element_size()
            totals[kind] += size
            group = re.sub(r"\.\d+\.", ".#.", name)
            groups[group] = groups.get(group, 0) + size
    return {
        "parameter_bytes": totals["parameter"],
        "buffer_bytes": totals["buffer"],
        "groups": groups,
    }


def _plan(config, specs: list, pool: int) -> dict:  # noqa: ANN001
    """Return KV specs, groups and the tokens of a pool."""
    if not any(specs):
        return {"kv_layers": 0}
    kinds: dict[str, int] = {}
    for stage in specs:
        for spec in stage.values():
            kind = f"{type(spec).__name__} block {spec.block_size} page {spec.page_size_bytes}"
            if getattr(spec, "sliding_window", None):
                kind += f" window {spec.sliding_window}"
            kinds[kind] = kinds.get(kind, 0) + 1
    register_all_kvcache_specs(config)
    layers = get_layers_from_vllm_config(config, AttentionLayerBase).values()
    backends = {layer.get_attn_backend() for layer in layers}
    resolve_kv_cache_layout(
        config,
        [[layout.name for layout in get_supported_kv_cache_layouts(backends)]],
        [spec for stage in specs for spec in stage.values()],
    )
    groups = get_global_kv_cache_groups(config, specs)
    config.adjust_dcp_kv_cache_interleave_size(groups)
    out = {"kv_layers": sum(map(len, specs)), "kv_specs": kinds}
    try:
        configs = get_kv_cache_configs(config, specs, [pool] * len(specs), groups)
        tokens, _ = get_kv_cache_capacity(config, generate_scheduler_kv_cache_config(configs))
    except ValueError as error:
        return {**out, "kv_error": str(error)[:300]}
    return {**out, "kv_tokens": tokens}


def _too_long(*_: object) -> None:
    raise TimeoutError(f"more than {SECONDS} s")


def main(cases: Path, answers: Path) -> None:
    """Answer every case of a file that is not answered yet."""
    signal.signal(signal.SIGPROF, _too_long)
    environment = dict(os.environ)
    answered = set()
    if answers.exists():
        answered = {json.loads(line)["id"] for line in answers.read_text().splitlines()}
    for line in cases.read_text().splitlines():
        case = json.loads(line)
        if case["id"] in answered:
            continue
        for name in os.environ.keys() - environment.keys():
            del os.environ[name]  # what vLLM sets for one model holds for no other
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "config.json").write_text(json.dumps(case["config"]))
            try:
                result = answer(case, folder)
            except Exception as error:
                result = {"error": f"{type(error).__name__}: {str(error)[:400]}"}
        signal.setitimer(signal.ITIMER_PROF, 0)
        with answers.open("a") as file:
            file.write(json.dumps({"id": case["id"], "result": result}) + "\n")
        gc.collect()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
