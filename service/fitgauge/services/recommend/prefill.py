"""How fast a deployment reads prompts, and how long one waits for its first token."""

from functools import cached_property

from msgspec import structs

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.model import Model
from fitgauge.engine.performance.decode import EFFICIENCY, DecodeSpeed
from fitgauge.engine.performance.load import Load, LoadSpeed, load_speed
from fitgauge.engine.performance.prefill import (
    Seconds,
    compute_efficiency,
    exchanged_bytes,
    peak,
    prefill_seconds,
    prompt_flops,
)
from fitgauge.engine.quantity import Basis
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.serving.workload import EngineName
from fitgauge.services.common import parsing
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.fit.batch_estimator import BatchEstimator
from fitgauge.services.fit.speed import load_of
from fitgauge.services.fit.workload import context_length_of, degrees
from fitgauge.services.recommend.gpu_options import Plan


class Prompts:
    """Prompts of `tokens` tokens to one model, alone and at the load of a question."""

    def __init__(
        self, model: Model, request: FitRequest, fitting: BatchEstimator, tokens: int
    ) -> None:
        self.tokens = tokens
        self._spec = model.spec
        self._request = request
        self._fitting = fitting
        self._flops = prompt_flops(model.spec, tokens)
        self._efficiency = compute_efficiency(model.spec)
        self._speeds: dict[tuple[Plan, str, int], LoadSpeed | None] = {}
        self._degrees: dict[tuple[EngineName, int], tuple[int, int]] = {}

    def at_load(self, accelerator: Accelerator, count: int, plan: Plan) -> LoadSpeed | None:
        """Return how fast the requests of the question are answered, as in the answer of a fit;
        None where no source states how fast the GPU is."""
        tensor = self._layout(plan.engine, count)[0]
        key = (plan, accelerator.id, tensor)
        if key not in self._speeds:
            prepared = self._fitting.formats.prepared(plan.quantization, plan.engine)
            self._speeds[key] = load_speed(
                self._spec,
                prepared.sharded,
                prepared.scheme,
                accelerator,
                self._load,
                kv_cache_dtype=parsing.kv_cache_dtype(self._request.kv_cache_dtype, plan.engine),
                tensor_parallel=tensor,
                layer_seconds=ENGINES[plan.engine].layer_seconds,
            )
        return self._speeds[key]

    @cached_property
    def _load(self) -> Load:
        length = context_length_of(self._request, self._spec)
        prompt = self.tokens if self.tokens < length else None  # an answer follows
        question = structs.replace(self._request, prompt_tokens=prompt)
        return load_of(question, length, self._request.concurrency or 1)

    def wait(self, accelerator: Accelerator, count: int, plan: Plan) -> Seconds | None:
        """Return the time to first token at the load; None where no source states how fast the
        GPU multiplies. A text that is embedded is read alone."""
        if self._spec.task != "generate":
            return self.seconds(accelerator, count, plan)
        speed = self.at_load(accelerator, count, plan)
        return speed and speed.seconds_to_first_token

    def seconds(self, accelerator: Accelerator, count: int, plan: Plan) -> Seconds | None:
        """Return how long one prompt takes on an idle server; None where no source states
        how fast the GPU multiplies."""
        prepared = self._fitting.formats.prepared(plan.quantization, plan.engine)
        fastest = peak(prepared.scheme, accelerator)
        if fastest is None:
            return None
        tensor, _ = self._layout(plan.engine, count)
        bandwidth = accelerator.bandwidth_gbps
        return prefill_seconds(
            self._flops,
            exchanged_bytes(self._spec, self.tokens, tensor),
            tensor_parallel=tensor,
            peak=fastest,
            link_gbps=accelerator.interconnect_gbps,
            efficiency=self._efficiency,
            read_seconds=(
                prepared.total_bytes / tensor / (bandwidth * 1e9 * EFFICIENCY) if bandwidth else 0.0
            ),
        )

    def speed(self, accelerator: Accelerator, count: int, plan: Plan) -> DecodeSpeed | None:
        """Return the tokens of prompts a second where there are always more of them: every
        pipeline stage reads one."""
        seconds = self.seconds(accelerator, count, plan)
        if seconds is None or not seconds.low:
            return None
        tokens = self._layout(plan.engine, count)[1] * self.tokens
        low, expected, high = (
            round(tokens / each, 1) for each in (seconds.high, seconds.expected, seconds.low)
        )
        return DecodeSpeed(low=low, expected=expected, high=high)

    def _layout(self, engine: EngineName, count: int) -> tuple[int, int]:
        """Return (tensor, pipeline) parallel on `count` GPUs."""
        key = (engine, count)
        if key not in self._degrees:
            self._degrees[key] = degrees(self._request, self._spec, count, engine)[:2]
        return self._degrees[key]


def basis(engine: EngineName, *, decoding: bool) -> Basis:
    """Return where the efficiency of an engine comes from: runs of its kind, or those of other
    kinds."""
    row = ENGINES[engine]
    measured = row.decode_measured if decoding else row.prefill_measured
    return "calibrated" if measured else "assumed"
