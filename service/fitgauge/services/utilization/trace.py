"""explain_utilization of an uploaded profiler trace: where the time of the GPUs goes, and what
to change."""

from fitgauge.catalog.catalog import Catalog
from fitgauge.engine.note import Note
from fitgauge.errors import FitgaugeError
from fitgauge.logs.trace import TraceReading
from fitgauge.services.common import responses
from fitgauge.services.common.schemas import GpuAnswer
from fitgauge.services.utilization.schemas import CollectiveAnswer, TraceAnswer, UtilizationAnswer

MUCH_EXPOSED = 0.15
MUCH_IDLE = 0.2
FEW_TENSOR_CORES = 0.4


def explain_trace(reading: TraceReading, catalog: Catalog) -> UtilizationAnswer:
    """Return the UtilizationAnswer of a trace. It holds no FLOPs: nothing in a trace counts
    them."""
    gpu, idle = _gpu(reading, catalog), 1 - reading.busy
    understood: dict[str, str | int | float | bool] = {"gpu_count": reading.gpus}
    if reading.device:
        understood["gpu"] = reading.device
    return UtilizationAnswer(
        summary=(
            f"Of {reading.seconds:.3g} s, {reading.communication:.0%} is communication"
            f" ({reading.exposed:.0%} not overlapped) and {idle:.0%} idle; tensor cores run"
            f" {reading.tensor_core:.0%} of the kernels' time."
        ),
        gpu=gpu,
        model=None,
        precision=None,
        peak_tflops=None,
        achieved_tflops=None,
        mfu=None,
        hfu=None,
        tokens_per_second_per_gpu=None,
        fraction_of_published=None,
        flops=None,
        budget=None,
        communication=None,
        trace=TraceAnswer(
            gpus=reading.gpus,
            kernels=reading.kernels_seen,
            seconds=reading.seconds,
            tensor_core_share=reading.tensor_core,
            communication_share=reading.communication,
            exposed_communication_share=reading.exposed,
            idle_share=idle,
            collectives=[
                CollectiveAnswer(name=name, seconds=time / 1e6)
                for name, time in sorted(reading.collectives.items())
            ],
            longest_kernels=[
                CollectiveAnswer(name=name, seconds=time / 1e6) for name, time in reading.kernels
            ],
        ),
        advice=_advice(reading, idle),
        warnings=(
            []
            if gpu or not reading.device
            else [
                Note(
                    "gpu-unknown",
                    None,
                    f"The GPU {reading.device!r} of the trace is not in the catalog.",
                )
            ]
        ),
        understood_as=understood,
    )


def _gpu(reading: TraceReading, catalog: Catalog) -> GpuAnswer | None:
    """Return the accelerator that the trace names, where the catalog knows it."""
    if not reading.device:
        return None
    try:
        return responses.gpu_answer(catalog.find(reading.device).accelerator, reading.gpus)
    except FitgaugeError:
        return None


def _advice(reading: TraceReading, idle: float) -> list[str]:
    """Return what to change, the largest loss first."""
    advice: list[tuple[float, str]] = []
    if reading.exposed > MUCH_EXPOSED:
        gathers = sum(reading.collectives.get(kind, 0.0) for kind in ("AllGather", "ReduceScatter"))
        sharded = gathers > 0.5 * sum(reading.collectives.values())
        change = "accumulate gradients over more micro-batches, or lower tensor parallelism"
        if sharded:
            change = (
                "use a larger micro-batch, ZeRO-2 instead of ZeRO-3, or shard within a node only"
                " (HSDP); PCIe makes it worse"
            )
        advice.append(
            (
                reading.exposed,
                f"Communication is not overlapped for {reading.exposed:.0%} of the time: {change}.",
            )
        )
    if idle > MUCH_IDLE:
        change = (
            "check the data loader and synchronisation (.item(), prints), raise the"
            " micro-batch, use torch.compile or CUDA graphs"
        )
        advice.append((idle, f"The GPU is idle for {idle:.0%} of the time: {change}."))
    if reading.tensor_core < FEW_TENSOR_CORES:
        change = (
            "train in bf16 or fp16, use flash attention, fuse norms, loss and optimizer"
            " (torch.compile, Liger), pad sizes to multiples of 8"
        )
        advice.append(
            (
                FEW_TENSOR_CORES - reading.tensor_core,
                f"Tensor cores run {reading.tensor_core:.0%} of the kernels' time: {change}.",
            )
        )
    return [text for _, text in sorted(advice, key=lambda one: -one[0])]
