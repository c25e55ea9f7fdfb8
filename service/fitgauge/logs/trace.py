"""Reads a PyTorch profiler's trace (Chrome trace format, plain or gzip) as it comes in, within
bounds of its own.

Only the kernels and copies of a GPU are kept, as numbers: when they ran, how long, and of what
sort. Source of the format: torch.profiler's export_chrome_trace (kineto, output_json.cpp):
`traceEvents` with `cat`, `ts` and `dur` in microseconds, `args.device`."""

import codecs
import json
import re
import zlib
from array import array
from collections.abc import Iterable, Iterator
from functools import partial

import msgspec

from fitgauge.errors import InvalidRequestError

MOST_BYTES = 1024 * 1024 * 1024
"""of JSON, after unpacking"""
MOST_RATIO = 200
"""of JSON over what was sent; profiler traces pack about 10 to 30 times"""
MOST_KERNELS = 1_000_000
"""17 bytes each while the trace comes in, some 60 (reckoned) when it is read"""
LONGEST_EVENT = 256 * 1024
_GRACE = 4 * 1024 * 1024
"""bytes before the ratio counts"""

_MAGIC, _GZIP = b"\x1f\x8b", 31
"""The first bytes of a gzip member, and zlib's number for that format."""

_SHORTEST_EVENT, _FEW = 24, 10_000
"""bytes of `{"ph":"X","ts":0,"dur":0}`, and the events that may be shorter"""

_COPY, _OTHER, _TENSOR_CORE, _COMMUNICATION = -1, 0, 1, 2
_ALL = frozenset({_COPY, _OTHER, _TENSOR_CORE, _COMMUNICATION})

_TENSOR_CORE_NAMES = re.compile(
    "h884|s884|h1688|s1688|hmma|i8816|16816|xmma|c1688|gmma|wgmma|tensorop|nvjet|cutlass.*_tn_|flash_fwd|flash_bwd|flashattn(fwd|bwd)|fmha"
    r"|mma_|mfma|cijk_.*_mi\d+x\d+|triton_tem",
    re.IGNORECASE,
)
"""Names of kernels that use tensor cores. Source: pytorch/kineto,
tb_plugin/torch_tb_profiler/profiler/tensor_core.py; cuBLAS's nvjet and FlashAttention's kernels
in addition to them (hopper/flash_fwd_launch_template.h); AMD's, of Tensile with a matrix
instruction (ROCm/Tensile, "Kernel names": MI); Inductor's templates of products and attention
(torch/_inductor/select_algorithm.py)."""
_COMMUNICATION_NAMES = re.compile(
    "nccl|rccl|mscclpp|all_?gather|reduce_?scatter|all_?reduce", re.IGNORECASE
)
_COLLECTIVES = ("AllGather", "ReduceScatter", "AllReduce", "SendRecv", "Broadcast")
_EVENTS = re.compile(r'"traceEvents"\s*:\s*\[')
_GAP = re.compile(r"[ \t\r\n,]*")
_STEP = 16 * 1024
"""characters that come in before they are looked at: a long event in small pieces is not read
again for each"""
_DEVICES = re.compile(r'"name"\s*:\s*"([^"]{1,120})"')


class TraceReading(msgspec.Struct, frozen=True, kw_only=True):
    """What a trace shows of its GPUs. Shares are of the time from the first kernel to the last, of
    all GPUs together."""

    device: str | None
    """The GPU's name; None: not in the trace."""
    gpus: int
    """Number of GPUs."""
    kernels_seen: int
    """Number of kernels."""
    seconds: float
    """From the first kernel to the last [s]."""
    busy: float
    """Share in which some kernel or copy runs."""
    tensor_core: float
    """Share of the time of all kernels that runs on tensor cores."""
    communication: float
    """Share in which a collective runs."""
    exposed: float
    """Share in which a collective runs and nothing else."""
    collectives: dict[str, float]
    """Time of collectives by kind [microseconds]."""
    kernels: list[tuple[str, float]]
    """The longest kernels by name [microseconds]."""


class TraceReader:
    """Takes a trace piece by piece: `feed` bytes as they come, then `finish`. Both raise
    InvalidRequestError for what is no such trace."""

    def __init__(self) -> None:
        self._text = codecs.getincrementaldecoder("utf-8")("replace")
        self._unpack: zlib._Decompress | None = None
        self._first = b""
        self._sent = self._unpacked = 0
        self._buffer = ""
        self._left = 0
        self._state = "before"
        self._device: str | None = None
        self._decode = json.JSONDecoder().raw_decode
        self._starts: dict[int, array[float]] = {}
        self._lengths: dict[int, array[float]] = {}
        self._sorts: dict[int, array[int]] = {}
        self._count = self._events = 0
        self._by_name: dict[str, float] = {}
        self._collectives: dict[str, float] = {}

    def feed(self, chunk: bytes) -> None:
        """Read the next bytes."""
        self._sent += len(chunk)
        if len(self._first) < 2:
            self._first += chunk
            if len(self._first) < 2:
                return
            chunk = self._first
            if chunk[:2] == _MAGIC:
                self._unpack = zlib.decompressobj(wbits=_GZIP)
        if self._unpack is None:
            self._take(chunk)
            return
        try:
            while chunk:
                if self._unpack.eof:  # another member, or what follows the file
                    if chunk[:1] != _MAGIC[:1]:
                        return
                    self._unpack = zlib.decompressobj(wbits=_GZIP)
                piece = self._unpack.decompress(chunk, LONGEST_EVENT)
                chunk = self._unpack.unconsumed_tail or self._unpack.unused_data
                self._take(piece)
        except zlib.error as error:
            raise _no_trace(f"It is not gzip: {error}.") from None

    def finish(self) -> TraceReading:
        """Return what all of it says."""
        self._look()
        if self._state != "after":
            raise _no_trace('It ends before the list "traceEvents" does.')
        if not self._count:
            raise InvalidRequestError(
                "The trace has no GPU kernels.",
                hint="Record it with ProfilerActivity.CUDA, and send the rank's own file.",
                field=None,
                code="unreadable-trace",
            )
        return self._reading()

    def _take(self, piece: bytes) -> None:
        self._unpacked += len(piece)
        if self._unpacked > MOST_BYTES:
            raise InvalidRequestError(
                "The trace is larger than 1 GiB of JSON.",
                hint="Profile fewer steps: one or two are enough.",
                code="unreadable-trace",
            )
        if self._unpacked > max(_GRACE, MOST_RATIO * self._sent):
            raise InvalidRequestError(
                "The trace unpacks beyond what profilers write.",
                hint="Send the profiler's own file.",
                code="unreadable-trace",
            )
        if self._state == "after":
            return
        self._buffer += self._text.decode(piece)
        if len(self._buffer) - self._left >= _STEP:
            self._look()

    def _look(self) -> None:
        if self._state == "before":
            self._find_events()
        if self._state == "inside":
            self._read_events()
        self._left = len(self._buffer)

    def _find_events(self) -> None:
        if self._device is None and (named := _DEVICES.search(self._buffer)):
            self._device = named[1]
        match = _EVENTS.search(self._buffer)
        if match:
            self._buffer, self._state = self._buffer[match.end() :], "inside"
        elif len(self._buffer) > LONGEST_EVENT:
            raise _no_trace('Its first 256 KiB have no list "traceEvents".')

    def _read_events(self) -> None:
        """Every whole event of the buffer; what is left over waits for more."""
        buffer, position = self._buffer, 0
        while True:
            position = _end_of_gap(buffer, position)
            if position == len(buffer):
                break
            if buffer[position] == "]":
                self._state, position = "after", len(buffer)
                break
            try:
                event, position = self._decode(buffer, position)
            except (ValueError, RecursionError):
                if len(buffer) - position > LONGEST_EVENT:
                    raise _no_trace(
                        "One of its events is no JSON, or longer than 256 KiB."
                    ) from None
                break
            self._events += 1
            if self._events > _FEW + self._unpacked // _SHORTEST_EVENT:
                raise _no_trace("Its events are shorter than a profiler writes them.")
            if isinstance(event, dict):
                self._event(event)
        self._buffer = buffer[position:]

    def _event(self, event: dict[str, object]) -> None:
        category = event.get("cat")
        if category not in ("kernel", "gpu_memcpy", "gpu_memset", "Kernel", "Memcpy", "Memset"):
            return
        start = event.get("ts")
        length = event.get("dur")
        name = str(event.get("name", ""))[:200]
        args = event.get("args")
        if (
            not isinstance(start, int | float)
            or not isinstance(length, int | float)
            or not 0 <= length < 1e12
            or not 0 <= start < 1e18
        ):
            return
        device = args.get("device") if isinstance(args, dict) else None
        number = device if isinstance(device, int) and 0 <= device < 1024 else 0
        sort = _OTHER
        if category in ("kernel", "Kernel"):
            sort = (
                _COMMUNICATION
                if _COMMUNICATION_NAMES.search(name)
                else _TENSOR_CORE
                if _TENSOR_CORE_NAMES.search(name)
                else _OTHER
            )
            if sort == _COMMUNICATION:
                kind = next(
                    (
                        kind
                        for kind in _COLLECTIVES
                        if kind.lower() in name.lower().replace("_", "")
                    ),
                    "other",
                )
                self._collectives[kind] = self._collectives.get(kind, 0.0) + length
            if name in self._by_name or len(self._by_name) < 10_000:
                self._by_name[name] = self._by_name.get(name, 0.0) + length
        self._count += 1
        if self._count > MOST_KERNELS:
            raise InvalidRequestError(
                f"The trace has more than {MOST_KERNELS} kernels.",
                hint="Profile fewer steps: one or two are enough.",
                code="unreadable-trace",
            )
        self._starts.setdefault(number, array("d")).append(start)
        self._lengths.setdefault(number, array("d")).append(length)
        self._sorts.setdefault(number, array("b")).append(
            sort if category in ("kernel", "Kernel") else _COPY
        )

    def _reading(self) -> TraceReading:
        span = busy = communicating = computing = kernels = tensor = 0.0
        for device, starts in self._starts.items():
            lengths, sorts = self._lengths[device], self._sorts[device]
            order = array("I", sorted(range(len(starts)), key=starts.__getitem__))
            spans = partial(_spans, order, starts, lengths, sorts)
            span += max(end for _, end in spans(_ALL)) - starts[order[0]]
            busy += covered(spans(_ALL))
            communicating += covered(spans(frozenset({_COMMUNICATION})))
            computing += covered(spans(_ALL - {_COMMUNICATION}))
            kernels += sum(end - begin for begin, end in spans(_ALL - {_COPY}))
            tensor += sum(end - begin for begin, end in spans(frozenset({_TENSOR_CORE})))
        whole = span or 1.0
        return TraceReading(
            device=self._device,
            gpus=len(self._starts),
            kernels_seen=self._count,
            seconds=span / len(self._starts) / 1e6,
            busy=busy / whole,
            tensor_core=tensor / (kernels or 1.0),
            communication=communicating / whole,
            exposed=(busy - computing) / whole,
            collectives=self._collectives,
            kernels=sorted(self._by_name.items(), key=lambda one: -one[1])[:10],
        )


def _end_of_gap(text: str, position: int) -> int:
    """Return where the white space and commas that begin at `position` end."""
    gap = _GAP.match(text, position)
    return position if gap is None else gap.end()


def _spans(
    order: "array[int]",
    starts: "array[float]",
    lengths: "array[float]",
    sorts: "array[int]",
    wanted: frozenset[int],
) -> Iterator[tuple[float, float]]:
    """Yield the spans of these sorts, in order of their beginnings: there may be a million."""
    return ((starts[i], starts[i] + lengths[i]) for i in order if sorts[i] in wanted)


def covered(spans: Iterable[tuple[float, float]]) -> float:
    """Return the time that at least one of these spans, sorted by their beginnings, covers."""
    total, until = 0.0, float("-inf")
    for begin, end in spans:
        if end > until:
            total += end - max(begin, until)
            until = end
    return total


def _no_trace(why: str) -> InvalidRequestError:
    hint = "Send the file that torch.profiler's export_chrome_trace wrote (.json or .json.gz)."
    return InvalidRequestError(
        f"This is no trace of the PyTorch profiler. {why}", hint=hint, code="unreadable-trace"
    )
