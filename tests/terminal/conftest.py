"""A machine without GPUs for every command of these tests, whatever machine they run on."""

import os
from pathlib import Path

import pytest

TOOLS = ("nvidia-smi", "amd-smi", "rocm-smi", "sysctl", "vm_stat", "system_profiler")


@pytest.fixture(autouse=True)
def no_gpu_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a tool that fails before each that names GPUs; return the folder, for fakes that name
    some."""
    folder = tmp_path / "gpu-tools"
    folder.mkdir()
    for name in TOOLS:
        tool = folder / name
        tool.write_text("#!/bin/sh\nexit 1\n")
        tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder


@pytest.fixture(autouse=True)
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask no Hub, and read none of what is stored of it."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
