"""What drivers say of this machine's GPUs: their names, their memory and what is in use of it.

Every tool is a process with a time limit; one that is missing, fails or writes something else
names no GPU."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from fitgauge.engine.quantity import GIB

_SECONDS = 5.0
"""How long a tool may take: NVIDIA's driver loads in seconds where nothing uses it."""

_MIB = 1024 * 1024
_KIB = 1024
_BANK = 16 * GIB
"""What the memory of machines with unified memory is a multiple of, from its size on."""

_RYZEN = re.compile(r"ryzen ai max\+? (?:pro )?\d+", re.IGNORECASE)
_SYSCTL = ("sysctl", "-n", "hw.memsize", "machdep.cpu.brand_string")


class MachineGpu(msgspec.Struct, frozen=True):
    """A GPU as its driver shows it."""

    name: str
    """The driver's name."""
    memory_bytes: int
    """All of its memory [bytes]."""
    used_bytes: int | None = None
    """What is in use of it now [bytes]; None where no tool says."""
    unified: bool = False
    """Whether the CPU's memory is the same."""


class Machine(msgspec.Struct, frozen=True):
    """The GPUs of a machine, at least one."""

    gpus: tuple[MachineGpu, ...]
    """In the driver's order."""


def this_machine(root: Path = Path("/")) -> Machine | None:
    """Return the GPUs of this machine; None where no tool names one. root: where the kernel's
    files lie."""
    for read in (_nvidia, _ryzen, _amd_smi, _rocm_smi, _apple, _mac_display):
        if gpus := tuple(read(root)):
            return Machine(gpus)
    return None


def memory_of_machine() -> int | None:
    """Return the memory of a Linux machine [bytes]; None of another."""
    host = _host_memory(Path("/"))
    return host[0] if host else None


def _nvidia(root: Path) -> Iterator[MachineGpu]:
    """Yield what nvidia-smi lists; the memory of GB10 and Jetson is the machine's."""
    fields = "--query-gpu=name,memory.total,memory.used"
    for line in _output("nvidia-smi", fields, "--format=csv,noheader,nounits").splitlines():
        name, *sizes = (part.strip() for part in line.rsplit(",", 2))
        if len(sizes) < 2:
            continue
        if "nvgpu" in name:  # Jetson: the driver's name is that of all of them
            name = _text(root / "proc/device-tree/model").strip("\0\n ") or name
        total, used = (int(size) * _MIB if size.isdigit() else None for size in sizes)
        if total:
            yield MachineGpu(name, total, used)
        elif host := _host_memory(root):
            yield MachineGpu(name, *host, unified=True)


def _ryzen(root: Path) -> Iterator[MachineGpu]:
    """Yield the GPU of a Ryzen AI Max, whose memory is what the system sees and the carve-out."""
    name = _RYZEN.search(_text(root / "proc/cpuinfo"))
    host = _host_memory(root)
    if name and host:
        places = (root / "sys/class/drm").glob("card*/device")
        carved, held = 0, 0
        for place in places:
            carved += _whole(_text(place / "mem_info_vram_total"))
            held += _whole(_text(place / "mem_info_vram_used"))
        total = -(-(host[0] + carved) // _BANK) * _BANK
        yield MachineGpu(name[0], total, host[1] + held, unified=True)


def _amd_smi(_: Path) -> Iterator[MachineGpu]:
    """Yield what amd-smi lists; its MB are MiB."""
    rows = _amd_rows("static", "--asic", "--vram")
    usage = {row.get("gpu"): row for row in _amd_rows("metric", "--mem-usage")} if rows else {}
    for row in rows:
        name = _at(row, "asic", "market_name")
        total = _whole(_at(row, "vram", "size", "value")) * _MIB
        used = _at(usage.get(row.get("gpu")), "mem_usage", "used_vram", "value")
        if isinstance(name, str) and total:
            yield MachineGpu(name, total, None if used is None else _whole(used) * _MIB)


def _amd_rows(*arguments: str) -> list[dict[str, Any]]:
    """Return the GPUs in a JSON answer of amd-smi: a list, or one within `gpu_data`."""
    rows = _json("amd-smi", *arguments, "--json")
    rows = rows.get("gpu_data") if isinstance(rows, dict) else rows
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _rocm_smi(_: Path) -> Iterator[MachineGpu]:
    """Yield what rocm-smi lists, in bytes."""
    rows = _json("rocm-smi", "--showproductname", "--showmeminfo", "vram", "--json")
    for place, row in rows.items() if isinstance(rows, dict) else ():
        if not place.startswith("card") or not isinstance(row, dict):
            continue
        fields = {name.lower(): value for name, value in row.items()}
        name = fields.get("card series") or fields.get("card model")
        total = _whole(fields.get("vram total memory (b)"))
        used = fields.get("vram total used memory (b)")
        if isinstance(name, str) and total:
            yield MachineGpu(name, total, None if used is None else _whole(used))


def _apple(_: Path) -> Iterator[MachineGpu]:
    """Yield the GPU of Apple silicon: the chip, and the memory of the Mac."""
    values = [line.rpartition(": ")[2].strip() for line in _output(*_SYSCTL).splitlines()]
    sizes = [int(value) for value in values if value.isdigit()]
    chips = [value for value in values if value.startswith("Apple ")]
    if sizes and chips:
        yield MachineGpu(chips[0], sizes[0], _mac_used(), unified=True)


def _mac_display(_: Path) -> Iterator[MachineGpu]:
    """Yield the GPUs with their own memory of a Mac with an Intel CPU."""
    rows = _at(_json("system_profiler", "SPDisplaysDataType", "-json"), "SPDisplaysDataType")
    for row in rows if isinstance(rows, list) else ():
        name, size = _at(row, "sppci_model"), str(_at(row, "spdisplays_vram")).split()
        if isinstance(name, str) and len(size) == 2 and size[1] in ("GB", "MB"):
            yield MachineGpu(name, _whole(size[0]) * (GIB if size[1] == "GB" else _MIB))


def _mac_used() -> int | None:
    """Return the memory that macOS cannot drop [bytes]: of programs, wired and compressed."""
    text = _output("vm_stat")
    page = re.search(r"page size of (\d+) bytes", text)
    pages = re.findall(
        r"^(?:Anonymous pages|Pages wired down|Pages occupied by compressor):\s+(\d+)", text, re.M
    )
    return int(page[1]) * sum(map(int, pages)) if page and pages else None


def _host_memory(root: Path) -> tuple[int, int] | None:
    """Return the memory of a Linux machine and what is in use of it [bytes]."""
    sizes = dict(re.findall(r"^(\w+):\s+(\d+) kB", _text(root / "proc/meminfo"), re.M))
    if "MemTotal" not in sizes or "MemAvailable" not in sizes:
        return None
    total = int(sizes["MemTotal"]) * _KIB
    return total, total - int(sizes["MemAvailable"]) * _KIB


def _output(*command: str) -> str:
    """Return what a tool prints; nothing where it is missing, fails or takes too long."""
    try:
        result = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return result.stdout.decode("utf-8", "replace")


def _json(*command: str) -> Any:  # noqa: ANN401 - what a tool prints
    """Return the JSON that a tool prints; None where that is none."""
    try:
        return msgspec.json.decode(_output(*command))
    except msgspec.DecodeError:
        return None


def _text(path: Path) -> str:
    """Return a file of the kernel; nothing where there is none."""
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""


def _at(value: object, *path: str) -> object:
    """Return what lies on a path of keys; None where nothing does."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _whole(value: object) -> int:
    """Return a size as a whole number; 0 where it is none."""
    text = str(value).strip()
    return int(text) if text.isascii() and text.isdigit() else 0
