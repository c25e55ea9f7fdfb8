"""A GPU that is not there, for an engine's classes to be built on PyTorch's meta device.

    python -m hunt.stand_in > driver.c

Runs under the Python that has the engine, never in the service. Import it before anything of the
engine, and `install` a gpu."""

import logging
import os
import warnings
from types import SimpleNamespace
from typing import NamedTuple

os.environ.update(
    VLLM_LOGGING_LEVEL="ERROR", HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1",
    CUDA_VISIBLE_DEVICES="", VLLM_USE_DEEP_GEMM="0", VLLM_NO_USAGE_STATS="1", DO_NOT_TRACK="1",
)  # fmt: skip
warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)

import torch  # noqa: E402


class Gpu(NamedTuple):
    """What a GPU says of itself."""

    name: str
    total: int
    """Bytes."""
    capability: tuple[int, int]
    multiprocessors: int


_REFUSED = """
CtxGetCurrent CtxGetLimit CtxSetLimit CtxSetCurrent DevicePrimaryCtxGetState
DevicePrimaryCtxRetain FuncGetAttribute FuncSetAttribute FuncSetCacheConfig GetProcAddress_v2
LaunchCooperativeKernel LaunchKernel LaunchKernelEx LinkAddData_v2 LinkComplete LinkCreate_v2
MemAddressFree MemAddressReserve MemAlloc_v2 MemCreate MemFree_v2 MemGetAllocationGranularity
MemMap MemRelease MemSetAccess MemUnmap MemcpyDtoH_v2 MemcpyHtoD_v2 MemsetD8_v2
ModuleGetFunction ModuleLoad ModuleLoadData ModuleLoadDataEx ModuleUnload
OccupancyMaxActiveBlocksPerMultiprocessor OccupancyMaxActiveClusters PointerGetAttribute
StreamGetCtx TensorMapEncodeIm2col TensorMapEncodeTiled
"""
_ANSWERED = """
int cuInit(int f){return 0;} int cuDeviceGet(int*d,int o){*d=o;return 0;}
int cuCtxGetDevice(int*d){*d=0;return 0;} int cuDeviceGetCount(int*n){*n=1;return 0;}
int cuDeviceGetAttribute(int*v,int a,int d){*v=132;return 0;}
int cuDriverGetVersion(int*v){*v=13000;return 0;}
int cuGetErrorString(int e,const char**s){*s="no device";return 0;}
"""


def driver_source() -> str:
    """Return the C source of a driver library with which extension modules load; every use
    of a device fails."""
    return _ANSWERED + "".join(f"int cu{name}(){{return 100;}}\n" for name in _REFUSED.split())


class Handle:
    """A stream or an event that does nothing."""

    cuda_stream = 0
    device = torch.device("cuda")

    def __init__(self, *_, **__) -> None: ...  # noqa: ANN002, ANN003

    def __enter__(self):  # noqa: ANN204
        return self

    def __exit__(self, *_) -> bool:  # noqa: ANN002
        return False

    def __getattr__(self, name):  # noqa: ANN001, ANN204
        return lambda *a, **k: None


def install(gpu: Gpu) -> None:
    """Have torch.cuda describe a gpu and do nothing."""
    properties = SimpleNamespace(
        total_memory=gpu.total,
        name=gpu.name,
        major=gpu.capability[0],
        minor=gpu.capability[1],
        multi_processor_count=gpu.multiprocessors,
        warp_size=32,
        gcnArchName="",
        is_integrated=0,
        uuid="0",
        shared_memory_per_block_optin=232448,
        shared_memory_per_multiprocessor=233472,
        regs_per_multiprocessor=65536,
        max_threads_per_multi_processor=2048,
        L2_cache_size=50 * 2**20,
    )
    major, minor = gpu.capability
    for name, value in {
        "is_available": lambda: True,
        "device_count": lambda: 16,
        "current_device": lambda: 0,
        "get_device_properties": lambda *a, **k: properties,
        "get_device_capability": lambda *a, **k: gpu.capability,
        "get_device_name": lambda *a, **k: gpu.name,
        "get_arch_list": lambda: [f"sm_{major}{minor}"],
        "set_device": lambda *a, **k: None,
        "mem_get_info": lambda *a, **k: (gpu.total, gpu.total),
        "memory_allocated": lambda *a, **k: 0,
        "memory_reserved": lambda *a, **k: 0,
        "empty_cache": lambda *a, **k: None,
        "synchronize": lambda *a, **k: None,
        "is_initialized": lambda: False,
        "_lazy_init": lambda *a, **k: None,
        "Stream": Handle,
        "Event": Handle,
        "stream": lambda *a, **k: Handle(),
        "current_stream": lambda *a, **k: Handle(),
        "default_stream": lambda *a, **k: Handle(),
    }.items():
        setattr(torch.cuda, name, value)


class ProcessGroup:
    """What PyTorch would hold of a group of ranks."""

    group_name = "fake"

    def __init__(self, ranks: int) -> None:
        self.ranks = ranks

    def size(self) -> int:
        """Return the ranks."""
        return self.ranks

    def rank(self) -> int:
        """Return this rank's number."""
        return 0


class Group:
    """One rank of a group that never talks. `ends`: a pipeline, which has a first and a last."""

    unique_name = "fake"
    use_custom_op_call = False
    device = torch.device("meta")
    device_communicator = mq_broadcaster = ca_comm = pynccl_comm = None
    qr_comm = pymscclpp_comm = torch_symm_mem_comm = None
    use_custom_allreduce = use_pynccl = False

    def __init__(self, ranks: int, rank: int = 0, *, ends: bool = False) -> None:
        self.world_size = ranks
        self.rank = self.rank_in_group = self.local_rank = rank
        self.first_rank = self.next_rank = self.prev_rank = 0
        self.last_rank = ranks - 1
        self.ranks = list(range(ranks))
        self.is_first_rank = not ends or rank == 0
        self.is_last_rank = not ends or rank == ranks - 1
        self.device_group = self.cpu_group = ProcessGroup(ranks)

    def barrier(self, *_: object, **__: object) -> None:
        """Wait for no one."""

    def all_reduce(self, tensor, *_: object, **__: object):  # noqa: ANN001, ANN201
        """Return this rank's own."""
        return tensor


class CudaToMeta(torch.overrides.TorchFunctionMode):
    """Make on the meta device what is requested for on CUDA."""

    def __torch_function__(self, func, types, args=(), kwargs=None):  # noqa: ANN001, ANN204
        kwargs = dict(kwargs or {})
        if isinstance(kwargs.get("device"), int) or _on_cuda(kwargs.get("device")):
            kwargs["device"] = "meta"
        if func is torch.Tensor.cuda:
            return args[0].to("meta")
        places = func is not torch.device
        return func(*("meta" if places and _on_cuda(a) else a for a in args), **kwargs)


def _on_cuda(value: object) -> bool:
    if isinstance(value, str):
        return value.startswith("cuda")
    return isinstance(value, torch.device) and value.type == "cuda"


if __name__ == "__main__":
    print(driver_source(), end="")
