"""Hunt: draw configs from a seed, ask an installed vLLM and this service, and write docs/HUNT.md.

    make hunt SEED=1

The vLLM is a tool of development, found at HUNT_PYTHON (default .oracle/bin/python)."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from hunt.draw import cases as draw_cases
from hunt.ours import Outcome, outcomes
from hunt.page import write

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".hunt"
"""Cases, answers and the driver of the last runs, which git ignores."""
SCORED = 100
"""Cases that count, the first that vLLM answers."""
RESTARTS = 12
"""How often vLLM is started anew after a crash, which leaves its case without an answer."""
MISSING = """make hunt needs vLLM 0.33 (8.9 GB) and gcc; no GPU. Install it beside the service:

    python3.11 -m venv .oracle && .oracle/bin/pip install vllm==0.33.0

or name the Python that has it: HUNT_PYTHON=/path/to/python make hunt SEED=1"""


def main(seed: int) -> int:
    """Hunt with one seed; print and publish the misses. Return the exit code."""
    python = Path(os.environ.get("HUNT_PYTHON", ROOT / ".oracle/bin/python"))
    if not python.exists():
        print(MISSING)
        return 2
    FOLDER.mkdir(exist_ok=True)
    cases = draw_cases(seed)
    results = outcomes(cases, _vllm(python, seed, cases))
    scored = [one for one in results if one.kind != "no answer"][:SCORED]
    misses = [one for one in scored if one.kind != "agrees"]
    for one in misses:
        print(f"{one.kind:16} {label(one)}\n    {one.detail}")
    print(f"seed {seed}: {len(scored) - len(misses)} of {len(scored)} agree")
    write(seed, scored, [(one.kind, label(one), one.detail) for one in misses])
    return 0


def label(one: Outcome) -> str:
    """Return a case in a line."""
    case = one.case
    fields = [f"tensor {case['tensor_parallel']}"]
    fields += [f"pipeline {case['pipeline_parallel']}"] if "pipeline_parallel" in case else []
    fields += ["experts parallel"] if case.get("expert_parallel") else []
    fields += ["fp8 cache"] if case.get("kv_cache_dtype") else []
    return f"{case['architecture']}, {case['like']}, {case['format']}: {', '.join(fields)}"


def _vllm(python: Path, seed: int, cases: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return vLLM's answers by case, from earlier runs' file where it has them."""
    questions, answers = FOLDER / f"cases-{seed}.jsonl", FOLDER / f"answers-{seed}.jsonl"
    questions.write_text("".join(json.dumps(case) + "\n" for case in cases))
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "tools"),
        "LD_LIBRARY_PATH": str(_driver(python)),
    }
    for _ in range(RESTARTS):
        if not _unanswered(cases, answers):
            break
        command = [python, "-m", "hunt.vllm_answers", questions, answers]
        with (FOLDER / "log.txt").open("w") as log:
            done = subprocess.run(command, env=environment, stdout=log, stderr=log, check=False)
        left = _unanswered(cases, answers)
        if done.returncode and left:
            crashed = {"id": left[0], "result": {"error": "crash"}}
            with answers.open("a") as file:
                file.write(json.dumps(crashed) + "\n")
    rows = map(json.loads, answers.read_text().splitlines())
    return {row["id"]: row["result"] for row in rows}


def _unanswered(cases: list[dict[str, Any]], answers: Path) -> list[str]:
    """Return the ids of the cases without an answer, in their order."""
    lines = answers.read_text().splitlines() if answers.exists() else []
    answered = {json.loads(line)["id"] for line in lines}
    return [case["id"] for case in cases if case["id"] not in answered]


def _driver(python: Path) -> Path:
    """Return the folder of a driver library that answers without a device."""
    folder = FOLDER / "driver"
    if not (folder / "libcuda.so.1").exists():
        folder.mkdir(exist_ok=True)
        source = subprocess.run(
            [python, "-m", "hunt.vllm_answers", "driver"],
            env={**os.environ, "PYTHONPATH": str(ROOT / "tools")},
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        (folder / "driver.c").write_text(source)
        subprocess.run(
            ["gcc", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", "libcuda.so.1",
                "driver.c"],
            cwd=folder, check=True,
        )  # fmt: skip
    return folder


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
