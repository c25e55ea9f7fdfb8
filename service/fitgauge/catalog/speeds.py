"""Published runs with their speed: data/load_speeds.jsonl at a load, data/decode_speeds.jsonl of
one request alone, data/text_speeds.jsonl of batches of texts, one run a line with its source."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

from msgspec import Struct

from fitgauge.catalog import tables
from fitgauge.engine.performance.load import Load


class SpeedRun(Struct, frozen=True, kw_only=True, gc=False):
    """One published run."""

    engine: str
    """The engine's name here; of other projects their own."""
    accelerator: str
    """The id in the catalog."""
    tensor_parallel: int = 1
    """Ranks that shard every layer."""
    pipeline_parallel: int = 1
    """Pipeline stages."""
    model: str
    """The model's Hub ID."""
    parameters: int
    """Its parameters, computed: models of one shape are equally fast."""
    format: str
    """The format of its weights."""
    source: str
    """Where it is published."""
    concurrency: int = 1
    """Requests at once."""
    prompt_tokens: int = 0
    """Tokens of a prompt, in the mean."""
    output_tokens: int = 1
    """Tokens of an answer, in the mean."""
    context_tokens: int = 0
    """Tokens that a request alone holds, where the source prints its context alone."""
    seconds_per_token: float = 0.0
    """Between two tokens of one request, in the mean [s]."""
    tokens_per_second: float = 0.0
    """The same of a request alone, where its source prints that [tokens/s]."""
    seconds_to_first_token: float | None = None
    """In the mean [s]; None where it is not printed."""

    @property
    def load(self) -> Load:
        """What it answered."""
        return Load(
            concurrency=self.concurrency,
            prompt_tokens=self.prompt_tokens or self.context_tokens,
            output_tokens=self.output_tokens,
        )

    @property
    def speed(self) -> float:
        """Tokens of one request a second."""
        return self.tokens_per_second or 1 / self.seconds_per_token

    @property
    def gpus(self) -> int:
        """GPUs in all."""
        return self.tensor_parallel * self.pipeline_parallel


class TextRun(Struct, frozen=True, kw_only=True, gc=False):
    """One published batch of texts, each read in one pass."""

    engine: str
    """The engine's name here; of other projects their own."""
    accelerator: str
    """The id in the catalog."""
    model: str
    """A model of its shape."""
    parameters: int
    """Its parameters, computed."""
    format: str
    """The format of its weights."""
    texts: int
    """Texts of the batch."""
    tokens: int
    """Tokens of each."""
    seconds: float
    """Of the batch, in the mean [s]."""
    source: str
    """Where it is published."""


class Deployed(NamedTuple):
    """What runs must share to be as fast, but for their engine and format."""

    parameters: int
    """Parameters of the model, computed."""
    accelerator: str
    """The id of the GPU."""
    tensor_parallel: int
    """Ranks that shard every layer."""


def speed_runs(deployed: Deployed) -> Sequence[SpeedRun]:
    """Return the published runs of such a deployment, in any engine and format."""
    return load().get(deployed, ())


@cache
def load() -> Mapping[Deployed, Sequence[SpeedRun]]:
    """Return the published runs by deployment, read once; missing fields and wrong types are
    refused."""
    runs: defaultdict[Deployed, list[SpeedRun]] = defaultdict(list)
    for name in ("load_speeds", "decode_speeds"):
        for run in tables.records(name, SpeedRun):
            runs[Deployed(run.parameters, run.accelerator, run.tensor_parallel)].append(run)
    return MappingProxyType(runs)


@cache
def text_runs() -> Sequence[TextRun]:
    """Return the published batches, read once; missing fields and wrong types are refused."""
    return tuple(tables.records("text_speeds", TextRun))
