"""Published runs with weights in host memory (host_speeds.jsonl): the constants of
engine/performance/host.py are fitted to some and checked by the others."""

from functools import cache
from pathlib import Path
from typing import Literal

from msgspec import Struct, json

from fitgauge.engine.performance.host import Machine


class HostRun(Struct, frozen=True, kw_only=True, gc=False):
    """One published run of one request on one GPU, with part of the weights in host memory."""

    engine: str
    """The engine's name here; of other projects their own."""
    accelerator: str
    """The id in the catalog."""
    model: str
    """The model's Hub ID."""
    parameters: int
    """Its parameters, computed."""
    format: str
    """The format of its weights."""
    context_tokens: int
    """Tokens that the request holds."""
    host_layers: int = 0
    """The first layers that lie there whole."""
    host_experts: int = 0
    """The first layers whose experts do."""
    host_gib: float = 0.0
    """What does, where the source prints an amount [GiB]: a GPU reads it over its link."""
    machine: Machine
    """What holds the GPU."""
    ram: str = ""
    """The host's memory in the source's words; empty where it is not printed."""
    tokens_per_second: float
    """Of the answer."""
    prompt_tokens: int = 0
    """Tokens of the prompt whose speed is printed."""
    chunk_tokens: int = 0
    """Tokens of it in one pass."""
    prompt_tokens_per_second: float | None = None
    """Of the prompt; None where it is not printed."""
    part: Literal["fit", "check"]
    """Whether constants are fitted to it, or it is held against them."""
    source: str
    """Where it is published; what stands before the colon is the source, of one machine."""


@cache
def host_runs() -> tuple[HostRun, ...]:
    """Return the published runs with weights in host memory, read once; missing fields and wrong
    types are refused."""
    raw = Path(__file__).with_name("host_speeds.jsonl").read_bytes()
    return tuple(map(json.Decoder(HostRun).decode, raw.splitlines()))
