"""`fitgauge check MODEL` and `train-check MODEL` ask about the machine they run on."""

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fitgauge.catalog.catalog import bundled
from fitgauge.cli import main
from fitgauge.engine.quantity import GIB
from fitgauge.machine import Machine, MachineGpu, machine_question, this_machine

CATALOG = bundled()


@pytest.fixture
def tool(no_gpu_tools: Path):
    """Return what writes a tool that prints a text, or runs a script."""

    def write(name: str, prints: str = "", script: str = "") -> None:
        output = no_gpu_tools / f"{name}.txt"
        output.write_text(prints)
        (no_gpu_tools / name).write_text(f"#!/bin/sh\n{script or f'cat {output}'}\n")

    return write


def run(*arguments: str) -> Result:
    """Run the command."""
    return CliRunner().invoke(main, arguments)


def understood(*arguments: str) -> dict[str, object]:
    """Return what a command understood, by its JSON."""
    return json.loads(run(*arguments, "--json").stdout)["understood_as"]


def question(*gpus: MachineGpu, mixed: bool = True):
    """Return the question about a machine with these GPUs."""
    return machine_question(Machine(gpus), CATALOG, mixed=mixed)


@pytest.mark.parametrize("command", ["check", "train-check"])
def test_the_gpus_and_the_memory_in_use_are_those_of_nvidia_smi(tool, command) -> None:
    tool("nvidia-smi", "NVIDIA GeForce RTX 4090, 24564, 3174\nNVIDIA GeForce RTX 4090, 24564, 12\n")
    text = run(command, "Qwen/Qwen3-8B").stdout
    assert text.splitlines()[0] == "This machine: 2 x RTX 4090, up to 3.1 GiB in use"
    taken = understood(command, "Qwen/Qwen3-8B")
    assert (taken["gpu"], taken["gpu_count"]) == ("RTX 4090", 2)
    assert taken["other_memory_gib"] == 3.1


@pytest.mark.parametrize("command", ["check", "train-check"])
def test_options_are_taken_before_what_the_machine_has(tool, command) -> None:
    tool("nvidia-smi", "NVIDIA GeForce RTX 4090, 24564, 3174\nNVIDIA GeForce RTX 4090, 24564, 12\n")
    options = ("--gpu-count", "1", "--other-memory-gib", "0.5")
    taken = understood(command, "Qwen/Qwen3-8B", *options)
    assert (taken["gpu_count"], taken["other_memory_gib"]) == (1, 0.5)
    assert understood(command, "Qwen/Qwen3-8B", "H100")["gpu"] != taken["gpu"]


@pytest.mark.parametrize("command", ["check", "train-check"])
def test_the_machine_is_left_alone_on_request(tool, command) -> None:
    without = run(command, "Qwen/Qwen3-8B").stdout
    tool("nvidia-smi", "NVIDIA GeForce RTX 4090, 24564, 0\n")
    result = run(command, "Qwen/Qwen3-8B", "--no-machine")
    assert (result.exit_code, result.stdout) == (0, without)
    assert run(command, "Qwen/Qwen3-8B").stdout != without


def test_memory_in_use_changes_the_verdict(tool) -> None:
    tool("nvidia-smi", "NVIDIA GeForce RTX 4090, 24564, 15\n")
    assert run("check", "Qwen/Qwen3-8B").exit_code == 0
    tool("nvidia-smi", "NVIDIA GeForce RTX 4090, 24564, 16384\n")
    assert run("check", "Qwen/Qwen3-8B").exit_code == 1


def test_gpus_of_several_kinds_are_asked_about_together_where_an_engine_divides_layers(
    tool,
) -> None:
    tool("nvidia-smi", "NVIDIA GeForce RTX 4090, 24564, 12\nNVIDIA GeForce RTX 3060, 12288, 12\n")
    first, second, *_ = run("check", "Qwen/Qwen3-8B").stdout.splitlines()
    assert "RTX 4090 + RTX 3060 12GB" in first
    assert "--engine" in second
    taken = understood("check", "Qwen/Qwen3-8B")
    assert (taken["gpu_count"], taken["engine"]) == (2, "llama.cpp")
    assert understood("check", "Qwen/Qwen3-8B", "--engine", "ollama")["engine"] == "ollama"
    assert run("check", "Qwen/Qwen3-8B", "--engine", "vllm").exit_code == 2


def test_training_runs_on_the_kind_with_the_most_memory(tool) -> None:
    tool("nvidia-smi", "NVIDIA GeForce RTX 3060, 12288, 12\nNVIDIA GeForce RTX 4090, 24564, 12\n")
    taken = understood("train-check", "Qwen/Qwen3-8B")
    assert (taken["gpu"], taken["gpu_count"]) == ("RTX 4090", 1)


def test_an_unknown_gpu_is_read_by_its_memory(tool) -> None:
    tool("nvidia-smi", "NVIDIA Foo 9999, 24564, 512\n")
    first = run("check", "Qwen/Qwen3-8B").stdout.splitlines()[0]
    assert "24GB" in first
    assert "Foo 9999" in first
    assert understood("check", "Qwen/Qwen3-8B")["other_memory_gib"] == 0.5


def test_json_is_the_answer_alone(tool) -> None:
    tool("nvidia-smi", "NVIDIA GeForce RTX 4090, 24564, 12\n")
    result = run("check", "Qwen/Qwen3-8B", "--json")
    assert json.loads(result.stdout)["gpu"]["id"] == "rtx-4090-24gb"
    assert result.stderr == ""


@pytest.mark.parametrize("prints", ["", "No devices were found\n", "NVIDIA-SMI has failed, 1\n"])
def test_a_tool_that_names_no_gpu_leaves_the_needs(tool, prints) -> None:
    tool("nvidia-smi", prints)
    assert json.loads(run("check", "Qwen/Qwen3-8B", "--json").stdout)["gpu"] is None


def test_a_tool_that_hangs_is_not_waited_for(tool, monkeypatch, tmp_path) -> None:
    late = "import time; time.sleep(3); print('NVIDIA GeForce RTX 4090, 24564, 12')"
    tool("nvidia-smi", script=f'exec {sys.executable} -c "{late}"')
    with monkeypatch.context() as patch:
        patch.setattr("fitgauge.machine.drivers._SECONDS", 0.2)
        assert this_machine(tmp_path) is None
    assert this_machine(tmp_path) is not None


AMD_STATIC = [
    {
        "gpu": 0,
        "asic": {"market_name": "AMD Instinct MI300X"},
        "vram": {"size": {"value": 196592, "unit": "MB"}},
    }
]
AMD_USE = [{"gpu": 0, "mem_usage": {"used_vram": {"value": 2048, "unit": "MB"}}}]


@pytest.mark.parametrize("wrap", [lambda rows: rows, lambda rows: {"gpu_data": rows}])
def test_amd_smi_is_read_in_both_of_its_forms(tool, tmp_path, wrap) -> None:
    script = "case $1 in static) cat <<E\n{}\nE\n;; metric) cat <<E\n{}\nE\n;; esac"
    tool("amd-smi", script=script.format(json.dumps(wrap(AMD_STATIC)), json.dumps(wrap(AMD_USE))))
    machine = this_machine(tmp_path)
    assert machine is not None
    assert machine.gpus == (MachineGpu("AMD Instinct MI300X", 196592 << 20, 2 << 30),)
    assert question(*machine.gpus).gpu == "MI300X"


def test_rocm_smi_is_read(tool, tmp_path) -> None:
    row = {"VRAM Total Memory (B)": "25753026560", "VRAM Total Used Memory (B)": str(GIB)}
    rows = {f"card{at}": {"Card Series": "Radeon RX 7900 XTX", **row} for at in range(2)}
    tool("rocm-smi", json.dumps({**rows, "system": {"Driver version": "6.12"}}))
    machine = this_machine(tmp_path)
    assert machine is not None
    asked = question(*machine.gpus)
    assert (asked.gpu, asked.gpu_count, asked.other_memory_gib) == ("RX 7900 XTX", 2, 1.0)


@pytest.mark.parametrize("prefix", ["", "machdep.cpu.brand_string: "])
def test_apple_silicon_is_named_by_chip_and_memory(tool, tmp_path, prefix) -> None:
    tool("sysctl", f"{64 * GIB}\n{prefix}Apple M3 Max\n")
    pages = (3 * GIB // 16384, 20 * GIB // 16384, GIB // 16384)
    tool(
        "vm_stat",
        "Mach Virtual Memory Statistics: (page size of 16384 bytes)\n"
        f"Pages free:                      99.\nPages wired down:              {pages[0]}.\n"
        f"Anonymous pages:             {pages[1]}.\nPages occupied by compressor: {pages[2]}.\n",
    )
    machine = this_machine(tmp_path)
    assert machine is not None
    asked = question(*machine.gpus)
    assert asked.description == "Apple M3 Max 64GB, 24.0 GiB in use"
    assert asked.other_memory_gib == 8.0  # Metal leaves 16 of 64 GiB to others anyway


def test_a_mac_with_an_intel_cpu_has_the_gpu_of_its_display(tool, tmp_path) -> None:
    tool("sysctl", f"{32 * GIB}\nIntel(R) Core(TM) i9-9980HK CPU @ 2.40GHz\n")
    display = {"sppci_model": "AMD Radeon Pro 5500M", "spdisplays_vram": "8 GB"}
    tool("system_profiler", json.dumps({"SPDisplaysDataType": [{"_name": "Intel"}, display]}))
    machine = this_machine(tmp_path)
    assert machine is not None
    assert machine.gpus == (MachineGpu("AMD Radeon Pro 5500M", 8 * GIB),)


def linux(root: Path, cpu: str, total_gib: float, free_gib: float) -> None:
    """Write the kernel's files of a machine."""
    (root / "proc").mkdir()
    (root / "proc/cpuinfo").write_text(f"processor : 0\nmodel name : {cpu}\n")
    kib = 1024 * 1024
    memory = f"MemTotal: {total_gib * kib:.0f} kB\nMemAvailable: {free_gib * kib:.0f} kB\n"
    (root / "proc/meminfo").write_text(memory)


def test_gb10_has_the_memory_of_its_machine(tool, tmp_path) -> None:
    tool("nvidia-smi", "NVIDIA GB10, [N/A], [N/A]\n")
    linux(tmp_path, "", 119.7, 109.7)
    machine = this_machine(tmp_path)
    assert machine is not None
    asked = question(*machine.gpus)
    assert (asked.gpu, asked.other_memory_gib) == ("GB10 (DGX Spark)", 10.0)


@pytest.mark.parametrize(
    "total, carved, name",
    [
        (125.1, 0.5, "Ryzen AI Max+ 395 (Radeon 8060S)"),
        (31.2, 96, "Ryzen AI Max+ 395 (Radeon 8060S)"),
        (62.4, 0.5, "Ryzen AI Max 64GB (Strix Halo)"),
    ],
)
def test_strix_halo_has_the_memory_of_its_machine_and_the_carve_out(
    tmp_path, total, carved, name
) -> None:
    linux(tmp_path, "AMD RYZEN AI MAX+ 395 w/ Radeon 8060S", total, total - 4)
    device = tmp_path / "sys/class/drm/card1/device"
    device.mkdir(parents=True)
    (device / "mem_info_vram_total").write_text(f"{int(carved * GIB)}\n")
    machine = this_machine(tmp_path)
    assert machine is not None
    asked = question(*machine.gpus)
    assert (asked.gpu, asked.other_memory_gib) == (name, 0.0)


def test_every_gpu_that_its_driver_shows_with_its_memory_is_that_gpu() -> None:
    rows = [row for row in CATALOG.all() if row.total_bytes and not row.id.startswith("mig-")]
    assert len(rows) > 50
    wrong = [
        (row.name, asked.gpu)
        for row in rows
        if (asked := question(MachineGpu(row.name, row.total_bytes or 0))).gpu != row.name
    ]
    assert wrong == []


@pytest.mark.parametrize(
    "driver, mib, name",
    [
        ("NVIDIA GeForce RTX 3080", 10240, "RTX 3080 10GB"),
        ("NVIDIA GeForce RTX 3080", 12288, "RTX 3080 12GB"),
        ("NVIDIA A100-SXM4-80GB", 81920, "A100 80GB SXM"),
        ("NVIDIA RTX A6000", 46068, "RTX A6000"),
        ("Tesla T4", 15360, "T4"),
        ("NVIDIA GeForce RTX 2080 Ti", 22528, "RTX 2080 Ti 22GB (modded)"),
    ],
)
def test_names_of_drivers_and_their_memory_tell_variants_apart(driver, mib, name) -> None:
    assert question(MachineGpu(driver, mib << 20)).gpu == name


def test_every_name_that_a_question_may_hold_is_understood_as_its_gpu() -> None:
    assert [row.id for row in CATALOG.all() if CATALOG.find(row.name).accelerator != row] == []
