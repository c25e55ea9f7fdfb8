"""The part of docs/ACCURACY.md on weights in host memory: the formula against published runs."""

from collections.abc import Iterable, Sequence
from functools import cache
from statistics import mean, median
from typing import NamedTuple

from accuracy.host_runs import HostRun, host_runs
from accuracy.report_speeds import tenths
from accuracy.table import table
from accuracy.truth import model
from fitgauge.catalog import accelerators
from fitgauge.engine.performance.decode import LAYER_SECONDS
from fitgauge.engine.performance.host import HostPart, multiplied_by_cpu, read_over_link
from fitgauge.engine.performance.load import Load, LoadSpeed, load_speed
from fitgauge.engine.quantity import GIB
from fitgauge.engine.quantization.requested import requested_scheme
from fitgauge.engine.serving.engine_facts import Offload
from fitgauge.engine.serving.kv_cache import cache_bytes
from fitgauge.engine.serving.llamacpp.engine import ENGINE as LLAMA_CPP
from fitgauge.engine.serving.llamacpp.offload import shard_weights as in_llama_cpp
from fitgauge.engine.weights.sharding import shard_weights

PREFACE = """## Speed with weights in host memory

{runs} published runs of {sources} sources with part of the weights in host memory
(`tools/accuracy/host_speeds.jsonl`), one request on one GPU: layers or experts that a CPU
multiplies (llama.cpp, ik_llama.cpp), and weights that a GPU reads over PCIe (vLLM and its like).
Two constants are fitted to the runs of {fitted} of the sources, what a CPU reads in a desktop and
in a server (`engine/performance/host.py`); the others are kept aside. *Ratio* is modelled over
published. How fast a machine's memory is does not enter: most questions do not say it, and what
engines get of it depends little on it. Far off are a machine whose memory barely holds the model,
and one of two sockets."""

PROMPTS = """{prompts} of them print how fast a prompt is read: each chunk copies what lies on the
host over PCIe."""


class HostScored(NamedTuple):
    """A published run and what the formula says of it."""

    run: HostRun
    """The run."""
    host: HostPart
    """What of it lies in host memory."""
    modelled: LoadSpeed
    """The formula alone."""

    @property
    def source(self) -> str:
        """Where it is published, of one machine."""
        return self.run.source.partition(":")[0]

    @property
    def ratio(self) -> float:
        """Tokens a second, modelled over published."""
        return self.modelled.tokens_per_second_per_request.expected / self.run.tokens_per_second

    @property
    def is_within(self) -> bool:
        """Whether the published speed lies in the interval."""
        speed = self.modelled.tokens_per_second_per_request
        return speed.low <= self.run.tokens_per_second <= speed.high

    @property
    def seconds_elsewhere(self) -> float:
        """What a step takes beside host memory [s]."""
        step = 1 / self.modelled.tokens_per_second_per_request.expected
        return step - self.host.seconds_of_step()[1]

    @property
    def host_gbps(self) -> float:
        """What the run got of host memory [10^9 B/s], by what is left of its step; 0 where
        nothing is."""
        left = 1 / self.run.tokens_per_second - self.seconds_elsewhere
        return self.host.read_bytes / left / 1e9 if left > 0 else 0.0


@cache
def scored() -> tuple[HostScored, ...]:
    """Return every published run, scored. Raises LookupError for a model that is not bundled, and
    for a GPU of unknown speed."""
    return tuple(_scored(run) for run in host_runs())


def by_cpu(runs: Iterable[HostScored]) -> list[HostScored]:
    """Return the runs whose CPU multiplies."""
    return [one for one in runs if not one.run.host_gib]


def link_shares() -> list[float]:
    """Return the rate over the link over the expected one, of every prompt, and of the steps of
    engines that read weights over it. What a prompt computes is taken at its fastest."""
    shares = []
    for one in scored():
        if one.run.prompt_tokens_per_second is not None:
            took = one.run.prompt_tokens / one.run.prompt_tokens_per_second
            load = Load(concurrency=1, prompt_tokens=one.run.prompt_tokens, output_tokens=1)
            _, host, fast = one.host.seconds_of_prompt(one.run.prompt_tokens)
            computed = _modelled(one.run, one.host, load).seconds_to_first_token.low - fast
            shares.append(host / (took - computed))
        elif one.run.host_gib:
            shares.append(one.host_gbps / one.host.link.expected)
    return shares


def _scored(run: HostRun) -> HostScored:
    load = Load(concurrency=1, prompt_tokens=run.context_tokens, output_tokens=1)
    host = _host(run)
    return HostScored(run, host, _modelled(run, host, load))


def _host(run: HostRun) -> HostPart:
    bundled = model(run.model)
    if bundled is None:
        raise LookupError(run.model)
    spec, gpu = bundled.spec, accelerators.load().get(run.accelerator)
    scheme = requested_scheme(run.format, spec)
    chunk = run.chunk_tokens or 512
    if run.host_gib:
        return read_over_link(
            spec,
            shard_weights(spec, scheme),
            int(run.host_gib * GIB),
            gpu,
            concurrency=1,
            tensor_parallel=1,
            chunk_tokens=chunk,
        )
    return multiplied_by_cpu(
        spec,
        in_llama_cpp(spec, scheme),
        Offload(run.host_layers, run.host_experts),
        run.machine,
        gpu,
        cache_bytes=cache_bytes(spec, run.context_tokens, 1, dtype=spec.dtype),
        chunk_tokens=chunk,
    )


def _modelled(run: HostRun, host: HostPart, load: Load) -> LoadSpeed:
    bundled = model(run.model)
    if bundled is None:
        raise LookupError(run.model)
    scheme = requested_scheme(run.format, bundled.spec)
    lay_out = shard_weights if run.host_gib else in_llama_cpp
    speed = load_speed(
        bundled.spec,
        lay_out(bundled.spec, scheme),
        scheme,
        accelerators.load().get(run.accelerator),
        load,
        kv_cache_dtype="auto",
        host=host,
        layer_seconds=LAYER_SECONDS if run.host_gib else LLAMA_CPP.layer_seconds,
    )
    if speed is None:
        raise LookupError(run.accelerator)
    return speed


def document() -> str:
    """Return the section."""
    runs = scored()
    sources = list(dict.fromkeys(one.source for one in runs))
    aside = [one for one in runs if one.run.part == "check"]
    groups = [
        ("fitted to", [one for one in runs if one.run.part == "fit"]),
        ("kept aside", aside),
        *((name, [one for one in runs if one.source == name]) for name in sources),
    ]
    preface = PREFACE.format(
        runs=len(runs),
        sources=len(sources),
        fitted=len({one.source for one in runs if one.run.part == "fit"}),
    )
    shares = link_shares()
    low, middle, high = tenths(shares)
    prompts = sum(one.run.prompt_tokens_per_second is not None for one in runs)
    link = (
        ("published over expected", "runs", "10th", "median", "90th"),
        [("rate over the link", len(shares), *(round(one, 2) for one in (low, middle, high)))],
    )
    head = ("runs", "number", "ratio", "least", "most", "within, %")
    return "\n\n".join(
        (
            preface,
            table(head, [_row(name, members) for name, members in groups]),
            PROMPTS.format(prompts=prompts),
            table(*link),
        )
    ) + "\n"  # fmt: skip


def _row(name: str, runs: Sequence[HostScored]) -> tuple[object, ...]:
    ratios = [one.ratio for one in runs]
    return (
        name,
        len(runs),
        *(round(figure, 2) for figure in (median(ratios), min(ratios), max(ratios))),
        round(100 * mean(one.is_within for one in runs)),
    )
