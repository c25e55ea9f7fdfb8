"""Hunt: draw configs from a seed, ask an installed engine and this service, and write docs/HUNT.md.

    make hunt SEED=1
    make hunt ENGINE=sglang SEED=1

The engine is a tool of development, found at HUNT_PYTHON (default .oracle/bin/python, of SGLang
.oracle-sglang/bin/python)."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from hunt import draw, sglang_draw, sglang_ours, vllm_ours
from hunt.page import write
from hunt.service import Outcome

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".hunt"
"""Cases, answers and the driver of the last runs, which git ignores."""
SCORED = 100
"""Cases that count, the first that the engine answers."""
RESTARTS = 12
"""How often an engine is started anew after a crash, which leaves its case without an answer."""


class Hunted(NamedTuple):
    """An engine to hunt with."""

    title: str
    release: str
    folder: str
    """Where it is installed."""
    size: str
    python: str
    cases: Callable[[int], list[dict[str, Any]]]
    outcomes: Callable[[list[dict[str, Any]], dict[str, dict[str, Any]]], list[Outcome]]

    @property
    def missing(self) -> str:
        """How to install it."""
        name = self.title.lower()
        return f"""make hunt needs {self.title} {self.release} ({self.size}) and gcc; no GPU. \
Install it beside the service:

    {self.python} -m venv {self.folder} && {self.folder}/bin/pip install {name}=={self.release}

or name the Python that has it: HUNT_PYTHON=/path/to/python make hunt ENGINE={name} SEED=1"""


ENGINES = {
    "vllm": Hunted(
        "vLLM", "0.33.0", ".oracle", "8.9 GB", "python3.11", draw.cases, vllm_ours.outcomes
    ),
    "sglang": Hunted(
        "SGLang",
        "0.5.23",
        ".oracle-sglang",
        "9.5 GB",
        "python3.12",
        sglang_draw.cases,
        sglang_ours.outcomes,
    ),
}


def main(engine: str, seed: int) -> int:
    """Hunt with one seed; print and publish the misses. Return the exit code."""
    hunted = ENGINES[engine]
    python = Path(os.environ.get("HUNT_PYTHON", ROOT / hunted.folder / "bin/python"))
    if not python.exists():
        print(hunted.missing)
        return 2
    FOLDER.mkdir(exist_ok=True)
    cases = hunted.cases(seed)
    results = hunted.outcomes(cases, _answers(python, engine, seed, cases))
    scored = [one for one in results if one.kind != "no answer"][:SCORED]
    misses = [one for one in scored if one.kind != "agrees"]
    for one in misses:
        print(f"{one.kind:16} {label(one)}\n    {one.detail}")
    print(f"seed {seed}: {len(scored) - len(misses)} of {len(scored)} agree")
    write(engine, seed, scored, [(one.kind, label(one), one.detail) for one in misses])
    return 0


def label(one: Outcome) -> str:
    """Return a case in a line."""
    case = one.case
    fields = [case["card"]] if "card" in case else []
    fields += [f"tensor {case['tensor_parallel']}"]
    fields += [f"pipeline {case['pipeline_parallel']}"] if "pipeline_parallel" in case else []
    experts = case.get("expert_parallel")
    fields += [f"experts {experts}" if experts > 1 else "experts parallel"] if experts else []
    fields += ["fp8 cache"] if case.get("kv_cache_dtype") else []
    fields += [f"{name} {case[name]}" for name in sglang_draw.ARGUMENTS if name in case]
    return f"{case['architecture']}, {case['like']}, {case['format']}: {', '.join(fields)}"


def _answers(
    python: Path, engine: str, seed: int, cases: list[dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Return an engine's answers by case, from earlier runs' file where it has them."""
    questions = FOLDER / f"{engine}-cases-{seed}.jsonl"
    answers = FOLDER / f"{engine}-answers-{seed}.jsonl"
    questions.write_text("".join(json.dumps(case) + "\n" for case in cases))
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "tools"),
        "LD_LIBRARY_PATH": str(_driver(python)),
        "PYTHONDONTWRITEBYTECODE": "",  # else each case compiles the engine anew
    }
    for _ in range(RESTARTS):
        if not _unanswered(cases, answers):
            break
        command = [python, "-m", f"hunt.{engine}_answers", questions, answers]
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
            [python, "-m", "hunt.stand_in"],
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
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
