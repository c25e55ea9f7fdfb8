"""What is known of an engine by measurement: its defaults and its calibrated coefficients, by
version. Data of the catalog."""

from typing import Literal

import msgspec

from fitgauge.engine.quantity import Basis, Term
from fitgauge.engine.serving.workload import EngineName

SecondRunner = Literal["none", "dense", "all", "drafts"]
"""Which models vLLM's second model runner is the default of; `drafts`: all, and those for which a
smaller model drafts too."""


class Coefficient(msgspec.Struct, frozen=True, kw_only=True, gc=False, forbid_unknown_fields=True):
    """A number fitted on measured runs, in the unit its field names."""

    low: float
    """Lower end of the 90 % interval."""
    expected: float
    """Expected value."""
    high: float
    """Upper end of the 90 % interval."""
    runs: int
    """Number of runs it was fitted on."""
    source: str
    """Which runs these are."""

    @property
    def basis(self) -> Basis:
        """`calibrated` where runs stand behind it."""
        return "calibrated" if self.runs else "assumed"

    @property
    def traced(self) -> str:
        """The source, with how many runs stand behind the number."""
        if self.runs:
            return f"{self.source} [{self.runs} {'run' if self.runs == 1 else 'runs'}]"
        return self.source

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
    """One engine from one version until the next profile of the same engine."""

    engine: EngineName
    """The engine."""
    since: tuple[int, int]
    """The first release it holds for, as (major, minor)."""
    newest: str
    """The newest release whose source was read."""
    gpu_memory_utilization: float
    """Default share of the GPU that the engine may use."""
    logits_copies: Coefficient
    """float32 copies of (requests, vocabulary) alive at the sampler's peak."""
    hidden_copies: Coefficient
    """16-bit copies of (tokens, hidden) alive at a layer's peak, in addition to its widest product.
    """
    graph_bytes: Coefficient
    """CUDA graphs, once [bytes]."""
    graph_layer_bytes: Coefficient
    """CUDA graphs of every layer [bytes]."""
    graph_latent_layer_bytes: Coefficient | None = None
    """The same of a layer of latent attention, if that was distinguished."""
    graphs_in_budget: bool
    """Whether CUDA graphs are taken off the cache's share."""
    runtime_bytes: Coefficient
    """What the process holds in addition to tensors [bytes]."""
    communication_bytes: Coefficient
    """What it holds more with two ranks or more [bytes]."""
    source: str
    """Where the defaults come from."""
    second_runner: SecondRunner = "none"
    """Which models vLLM runs with its second model runner (`dense`: those without experts or
    states)."""
    second_logits_copies: Coefficient | None = None
    """`logits_copies` of the second runner."""
    masks_in_float32: bool = False
    """llama.cpp: whether masks of attention come in 32 bits and are copied to 16."""
    second_graphs_in_budget: bool = False
    """`graphs_in_budget` of the second runner."""
    plain_communication_bytes: Coefficient | None = None
    """`communication_bytes` where GPUs share no symmetric memory, if that was distinguished."""
    context_share: Coefficient | None = None
    """Of the GPU's memory, what CUDA takes before the engine looks at what is free."""
    unified_share: Coefficient | None = None
    """Of unified memory, what the system, its page cache and CUDA hold by then."""
    measured: dict[str, int] = {}
    """Campaigns that measured these releases, by class of GPU (`doubt.gpu_class`)."""
    measured_ever: dict[str, int] = {}
    """Campaigns that measured any release, by class of GPU."""
    own_shares: dict[str, float] = {}
    """`Doubt.share` by runs of one's own, by GPU."""
