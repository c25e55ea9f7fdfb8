"""The installed command `fitgauge serve` as a process of its own, as an operator starts it."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

COMMAND = str(Path(sys.executable).parent / "fitgauge")


@dataclass
class Process:
    """A running service: its address, its port, the process and the text it has written so far."""

    url: str
    port: int
    popen: subprocess.Popen[bytes]
    log: Path

    def pss_mib(self) -> float:
        """Proportional memory of the process and all it started [MiB]: shared pages count once."""
        return sum(_pss_kib(pid) for pid in family(self.popen.pid)) / 1024

    def terminate(self, seconds: float = 20) -> int:
        """Send SIGTERM and return the exit code. Raise subprocess.TimeoutExpired where it does
        not end."""
        self.popen.send_signal(signal.SIGTERM)
        return self.popen.wait(seconds)


def family(pid: int) -> set[int]:
    """Return the process and its descendants."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    members = {pid}
    while more := {child for child, parent in parents.items() if parent in members} - members:
        members |= more
    return members


def _pss_kib(pid: int) -> int:
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return int(re.search(r"^Pss:\s+(\d+)", rollup, re.M)[1])


@contextmanager
def running(hub_url: str, folder: Path, **environment: str) -> Iterator[Process]:
    """Run `fitgauge serve` with its Hub at `hub_url`, its cache and log in `folder`, until the
    block ends."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    log = folder / "service.log"
    env = {
        **os.environ,
        "HF_ENDPOINT": hub_url,
        "HF_HOME": str(folder / "hf"),
        "HF_HUB_OFFLINE": "0",
        **environment,
    }
    with log.open("wb") as out:
        popen = subprocess.Popen(
            [COMMAND, "serve", "--port", str(port)], env=env, stdout=out, stderr=out, cwd=folder
        )
    try:
        _wait_until_ready(port, popen, log)
        yield Process(f"http://127.0.0.1:{port}", port, popen, log)
    finally:
        if popen.poll() is None:
            popen.terminate()
            try:
                popen.wait(20)
            except subprocess.TimeoutExpired:
                popen.kill()
                popen.wait()


def _wait_until_ready(port: int, popen: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(2000):
        if popen.poll() is not None:
            break
        try:
            with socket.create_connection(("127.0.0.1", port), 1) as link:
                link.sendall(b"GET /health/ready HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
                if b" 200 " in link.recv(64):
                    return
        except OSError:
            time.sleep(0.02)
    raise RuntimeError(f"the service did not start: {log.read_text()[-2000:]}")
