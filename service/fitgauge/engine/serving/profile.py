"""What is known of an engine by measurement: its defaults and its calibrated coefficients, by
version. Data of the catalog."""

from typing import Literal

import msgspec

from fitgauge.engine.quantity import Basis, Term
from fitgauge.engine.serving.workload import EngineName

SecondRunner = Literal["none", "dense", "all"]
"""Which models vLLM's second model runner is the default of."""


class Coefficient(msgspec.Struct, frozen=True, kw_only=True, gc=False, forbid_unknown_fields=True):
    """A number fitted on `runs` measured runs, with its 90 % interval, in the unit its field
    names."""

    low: float
    expected: float
    high: float
    runs: int
    source: str

    @property
    def basis(self) -> Basis:
        """`calibrated` where runs stand behind it."""
        return "calibrated" if self.runs else "assumed"

    @property
    def traced(self) -> str:
        """The source, with how many runs stand behind the number."""
        return (
            f"{self.source} [{self.runs} {'run' if self.runs == 1 else 'runs'}]"
            if self.runs
            else self.source
        )

    def term(self, name: str, scale: float, offset: float, formula: str) -> Term:
        """Return the term `offset` + coefficient x `scale` [bytes], spread as the coefficient
        is."""
        return Term(
            name=name,
            bytes=int(offset + self.expected * scale),
            low=int(offset + self.low * scale),
            high=int(offset + self.high * scale),
            basis=self.basis,
            formula=formula,
            source=self.traced,
        )


class EngineProfile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One engine, from version `since` (major, minor) until the next profile of the same engine.

    `gpu_memory_utilization`: default share of the GPU it may use. `logits_copies`: float32
    copies of (requests, vocabulary) alive at the sampler's peak. `hidden_copies`: 16-bit copies
    of (tokens, hidden) alive at a layer's peak, in addition to its widest product. `graph_bytes`,
    `graph_layer_bytes`: CUDA graphs, once and for every layer. `graphs_in_budget`: whether they
    are taken off the cache's share. `runtime_bytes`: what the process holds in addition to tensors.
    `communication_bytes`: what it holds more with two ranks or more;
    `plain_communication_bytes`: where cards share no symmetric memory, if that was distinguished.
    `context_share`: of the card's memory, what CUDA takes before the engine looks at what is
    free. `second_runner`: which models vLLM runs with its second model runner ("dense": those
    without experts or states); its sampler holds `second_logits_copies`, and
    `second_graphs_in_budget` says of it what `graphs_in_budget` says of the first. `measured`,
    `measured_ever`: campaigns that measured this engine, by class of GPU (`doubt.gpu_class`): from
    `since` on until the next profile, and in any release."""

    engine: EngineName
    since: tuple[int, int]
    newest: str
    gpu_memory_utilization: float
    logits_copies: Coefficient
    hidden_copies: Coefficient
    graph_bytes: Coefficient
    graph_layer_bytes: Coefficient
    graphs_in_budget: bool
    runtime_bytes: Coefficient
    communication_bytes: Coefficient
    source: str
    second_runner: SecondRunner = "none"
    second_logits_copies: Coefficient | None = None
    second_graphs_in_budget: bool = False
    plain_communication_bytes: Coefficient | None = None
    context_share: Coefficient | None = None
    measured: dict[str, int] = {}
    measured_ever: dict[str, int] = {}
