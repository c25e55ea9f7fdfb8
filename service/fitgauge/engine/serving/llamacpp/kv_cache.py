"""llama.cpp's cache: cells that all layers of a kind share, smaller for sliding windows, and states
by sequence.

Source: src/llama-kv-cache.cpp, llama-kv-cache-iswa.cpp, llama-memory-recurrent.cpp,
llama-hparams.cpp; n_parallel and the unified cache: tools/server/server.cpp. Ollama's own
engine: kvcache/causal.go."""

from collections.abc import Callable
from typing import NamedTuple

from fitgauge.engine.model.mixers import (
    Attention,
    CompressedAttention,
    CrossAttention,
    LatentAttention,
    Mixer,
    Recurrent,
)
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.quantization.formats import GGUF_BLOCKS
from fitgauge.engine.serving.kv_cache import cross_bytes
from fitgauge.engine.serving.token_pool import held

PAD = 256
_FLOAT = 4


class Windows(NamedTuple):
    """How an engine sizes the cells of sliding layers."""

    sequences: int
    """At least so many sequences at once."""
    memory: int
    """Tokens cached of a sequence whatever its window; 0 for the window itself."""
    ubatch: int
    """Tokens of one forward pass."""
    capped: bool = True
    """Whether they never exceed the full cache."""
    unified: bool = True
    """Whether all sequences share one buffer (llama-server's --kv-unified, which a number of slots
    turns off)."""


def padded(tokens: int) -> int:
    """`tokens` rounded up to whole 256."""
    return -(-tokens // PAD) * PAD


def width_bytes(width: int, dtype: str) -> int:
    """Return the bytes of one row of `width` numbers of a ggml type: q8_0 34 for 32, q4_0 18 for
    32."""
    numbers, size = GGUF_BLOCKS[dtype]
    return -(-width // numbers) * size


def cell_bytes(mixer: Mixer, dtype: str) -> int:
    """Return the bytes of one cell in one layer: keys and values; of MLA the latent and the
    rotated key, without values."""
    match mixer:
        case Attention():
            if not mixer.causal or mixer.shares_cache:
                return 0
            index = width_bytes(mixer.indexer.dim, "F16") if mixer.indexer else 0
            return (
                width_bytes(mixer.kv_heads * mixer.head_dim, dtype)
                + width_bytes(mixer.kv_heads * mixer.value_dim, dtype)
                + index
            )
        case LatentAttention():
            index = width_bytes(mixer.indexer.dim, "F16") if mixer.indexer else 0
            return width_bytes(mixer.latent_dim + mixer.rope_dim, dtype) + index
        case CompressedAttention():
            return width_bytes(mixer.head_dim, dtype) // mixer.ratio if mixer.ratio else 0
        case _:
            return 0


def cell_factors(mixer: Mixer, dtype: str) -> str:
    """Return `cell_bytes` by its factors, where it has any."""
    size, (numbers, width) = cell_bytes(mixer, dtype), GGUF_BLOCKS[dtype]
    if isinstance(mixer, Attention):
        whole = mixer.kv_heads * (mixer.head_dim + mixer.value_dim)
        if whole * width == size * numbers:
            of_number = f"{width} B" if numbers == 1 else f"{width} B / {numbers}"
            heads = f"{mixer.kv_heads} KV heads x ({mixer.head_dim} + {mixer.value_dim})"
            return f"{heads} x {of_number}"
    return f"{size} B"


def sequence_bytes(mixer: Mixer) -> int:
    """Return the bytes of one sequence in one layer, whatever its length: recurrent states, all
    in float32, and keys and values of a source."""
    if isinstance(mixer, Recurrent):
        return _FLOAT * sum(state.heads * state.width for state in mixer.states)
    return cross_bytes(mixer, "F16", 1) if isinstance(mixer, CrossAttention) else 0


def window_of(mixer: Mixer) -> int:
    """Return the tokens of its sliding window or chunk, 0 for none."""
    return (mixer.window or mixer.chunk or 0) if isinstance(mixer, Attention) else 0


def interleaves(spec: ModelSpec) -> bool:
    """Return whether sliding layers alternate with full ones: the only models whose windows
    llama.cpp makes use of.

    Models whose every layer slides (Mistral 7B v0.1, Phi-3, StarCoder 2) keep every token: their
    classes set no swa_type."""
    windows = {
        window_of(mixer) > 0 for mixer, _ in held(spec, None) if isinstance(mixer, Attention)
    }
    return windows == {True, False}


class LlamaKvCache:
    """The cache of the layers of one GPU, behind the questions every engine's cache answers."""

    __slots__ = ("_layers", "context_length", "full", "state", "windowed", "windows")

    def __init__(
        self, spec: ModelSpec, layers: range, dtype: str, windows: Windows, context_length: int
    ) -> None:
        self.context_length, self.windows = context_length, windows
        self.full = self.state = 0
        self.windowed: dict[int, int] = {}
        self._layers: dict[tuple[int, str], int] = {}
        mixed = interleaves(spec)
        for mixer, count in held(spec, layers):
            size, window = count * cell_bytes(mixer, dtype), window_of(mixer) if mixed else 0
            if window:
                self.windowed[window] = self.windowed.get(window, 0) + size
            else:
                self.full += size
            self.state += count * sequence_bytes(mixer)
            if size:
                kind = window, cell_factors(mixer, dtype)
                self._layers[kind] = self._layers.get(kind, 0) + count

    @property
    def keeps(self) -> bool:
        """Whether these layers keep anything of a request."""
        return bool(self.full or self.windowed or self.state)

    def window_cells(self, window: int, cells: int, sequences: int) -> int:
        """Cells of a sliding layer: pad256(min(full cells, window x sequences + ubatch)); of every
        sequence apart where they share no buffer (llama-kv-cache-iswa.cpp, size_swa)."""
        if not self.windows.unified:
            return sequences * padded(min(cells // sequences, window + self.windows.ubatch))
        wanted = (self.windows.memory or window) * sequences + self.windows.ubatch
        return padded(min(cells, wanted) if self.windows.capped else wanted)

    def kv_bytes(self, concurrency: int, context_length: int) -> int:
        """Return keys and values of a cache for `concurrency` x `context_length` tokens."""
        cells = padded(concurrency * context_length)
        sequences = max(self.windows.sequences, concurrency)
        return cells * self.full + sum(
            self.window_cells(window, cells, sequences) * size
            for window, size in self.windowed.items()
        )

    def largest_layer_bytes(
        self, spec: ModelSpec, dtype: str, concurrency: int, context_length: int
    ) -> int:
        """Return keys and values of the layer that has most of them, of any GPU or the host."""
        cells, mixed = padded(concurrency * context_length), interleaves(spec)
        sequences = max(self.windows.sequences, concurrency)
        return max(
            (
                cell_bytes(mixer, dtype)
                * (self.window_cells(window, cells, sequences) if window else cells)
                for mixer, _ in held(spec, None)
                for window in (window_of(mixer) if mixed else 0,)
            ),
            default=0,
        )

    def formula(self, concurrency: int, context_length: int) -> str:
        """Return `kv_bytes` by its factors."""
        cells = padded(concurrency * context_length)
        sequences = max(self.windows.sequences, concurrency)
        parts = [
            f"{self.window_cells(window, cells, sequences) if window else cells} cells x {count}"
            f" layers x {factors}"
            for (window, factors), count in self._layers.items()
        ]
        return " + ".join(parts) or "0 B"

    def state_bytes(self, concurrency: int) -> int:
        """Recurrent states: one of every sequence that may run, used or not."""
        return max(self.windows.sequences, concurrency) * self.state

    def pool_bytes(self, concurrency: int, context_length: int) -> int:
        """Return all of it."""
        return self.kv_bytes(concurrency, context_length) + self.state_bytes(concurrency)

    def tokens(self, pool_bytes: int) -> int:
        """Return the largest n_ctx a pool of that size holds; without full attention, the tokens
        of the requests that it holds."""
        if not self.full:
            return self.requests(pool_bytes, self.context_length) * self.context_length
        return (
            _largest(
                lambda count: self.pool_bytes(1, count * PAD) <= pool_bytes,
                pool_bytes // (self.full * PAD),
            )
            * PAD
        )

    def requests(self, pool_bytes: int, context_length: int) -> int:
        """Return whole requests of `context_length` tokens."""
        return _largest(
            lambda count: self.pool_bytes(count, context_length) <= pool_bytes, pool_bytes
        )


def _largest(holds: Callable[[int], bool], most: int) -> int:
    """Return the largest count up to `most` of which `holds` is true; 0 where it is true of
    none."""
    low, high = 0, most + 1
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle):
            low = middle
        else:
            high = middle
    return low
