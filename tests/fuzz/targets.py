"""Parsers of what strangers send: each takes any bytes, and raises its own errors alone."""

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fitgauge.engine.model.families import read_config
from fitgauge.errors import HubError, InvalidRequestError, MalformedModelError, ModelError
from fitgauge.hub.description import read_description, read_tree
from fitgauge.hub.gguf import read_metadata
from fitgauge.logs.detect import detect
from fitgauge.logs.trace import TraceReader
from hub_stand_in.formats import gguf_header

ROOT = Path(__file__).parents[2]
MODELS = ROOT / "service" / "fitgauge" / "catalog" / "data" / "models.jsonl"
LOGS = ROOT / "tests" / "logs" / "data"


@dataclass(frozen=True)
class Target:
    """A parser with seeds and the errors that it may raise."""

    parse: Callable[[bytes], object]
    seeds: Callable[[], list[bytes]]
    errors: tuple[type[Exception], ...]

    def __call__(self, data: bytes) -> None:
        """Parse. Any other error than its own is raised."""
        try:
            self.parse(data)
        except self.errors:
            return


def _config(data: bytes) -> object:
    """Read a config.json as the Hub's reader does: what is no object comes no further."""
    try:
        values = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return read_config(values) if isinstance(values, dict) else None


def _trace(data: bytes) -> object:
    reader = TraceReader()
    for start in range(0, len(data), 97):
        reader.feed(data[start : start + 97])
    return reader.finish()


@cache
def _configs() -> list[bytes]:
    rows = [json.loads(line) for line in MODELS.read_text().splitlines()]
    return [json.dumps(row["config"]).encode() for row in rows[::7] if "config" in row]


def _ggufs() -> list[bytes]:
    values = {
        "general.architecture": "llama", "llama.block_count": 32, "llama.embedding_length": 4096,
        "llama.rope.freq_base": 1e4, "tokenizer.ggml.tokens": ["a", "b"], "x.flags": [True, False],
    }  # fmt: skip
    return [gguf_header(values, tensors=3), gguf_header({}, version=2)]


def _descriptions() -> list[bytes]:
    made = {
        "id": "a/b", "sha": "0" * 40, "gated": "auto", "tags": ["gguf"], "library_name": "vllm",
        "siblings": [{"rfilename": "model.safetensors", "size": 8}, {"rfilename": "config.json"}],
        "safetensors": {"parameters": {"BF16": 1, "F8_E4M3": 2}, "total": 3},
        "config": {"model_type": "llama", "quantization_config": {"quant_method": "fp8"}},
        "gguf": {"total": 3, "architecture": "llama", "context_length": 8192},
    }  # fmt: skip
    return [json.dumps(made).encode()]


def _traces() -> list[bytes]:
    event = {
        "ph": "X", "cat": "kernel", "name": "ncclDevKernel", "ts": 1.5, "dur": 2, "pid": 0,
        "args": {"device": 0},
    }  # fmt: skip
    plain = json.dumps({"schemaVersion": 1, "traceEvents": [event] * 3}).encode()
    return [plain, gzip.compress(plain)]


TREE = b'[{"type": "file", "path": "m.gguf", "size": 5, "lfs": {"size": 9}}, {"type": "directory"}]'
_HUB = (ModelError, HubError)
TARGETS = {
    "config": Target(_config, _configs, (MalformedModelError,)),
    "gguf": Target(read_metadata, _ggufs, (MalformedModelError,)),
    "description": Target(lambda data: read_description(data, "a/b"), _descriptions, _HUB),
    "tree": Target(lambda data: read_tree(data, "a/b"), lambda: [TREE], _HUB),
    "trace": Target(_trace, _traces, (InvalidRequestError,)),
    "log": Target(
        lambda data: detect(data.decode("utf-8", "replace")),
        lambda: [path.read_bytes()[:20_000] for path in sorted(LOGS.glob("*.log"))],
        (),
    ),
}
