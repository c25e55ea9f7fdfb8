"""Other calculators beside this one: the same twenty questions, each as a command of its users, on
this machine and without a network.

The questions are published runs of vLLM (tools/accuracy/serving.jsonl), so that what is true is
known: does the server start with this context on this GPU? Every run that failed for want of
memory, of a text model in 16 bit on one GPU that is named, then served ones, one of a model and
three of a GPU at most. Nobody but this project's authors chose them, and this project's errors on
them are published (docs/ACCURACY.md): read what the others answer as how far apart calculators
are, not as a contest."""

import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PEERS = ROOT / ".peers"
NUMBER, OF_A_GPU = 20, 6
USUAL_SHARE = 0.85
SECONDS = 120


class Question(NamedTuple):
    """A published run, as a question."""

    model: str
    """A Hub ID."""
    gpu: object
    """The GPU's row of the catalog."""
    context: int
    """Tokens of the longest request."""
    release: str | None
    """Of vLLM."""
    spec: object
    """What the model is made of."""
    served: bool
    """What happened."""


def questions():
    """Return the twenty questions."""
    sys.path[:0] = [str(ROOT / "tools")]
    from accuracy.truth import model
    from fitgauge.catalog.catalog import bundled

    catalog, taken, gpus, result = bundled(), set(), Counter(), []
    lines = (ROOT / "tools/accuracy/serving.jsonl").read_text("utf-8").splitlines()
    rows = [row for row in map(json.loads, lines) if _is_plain(row)]
    for row in sorted(rows, key=lambda row: row["outcome"] == "served"):
        asked, served = row["question"], row["outcome"] == "served"
        known = model(asked["model"])
        if known is None or known.spec.quantization or known.spec.vision_section is not None:
            continue
        gpu = catalog.find(asked["gpu"]).accelerator
        pair = (asked["model"], gpu.id)
        if pair in taken or (served and (gpus[gpu.id] >= OF_A_GPU or len(result) >= NUMBER)):
            continue
        taken.add(pair)
        gpus[gpu.id] += 1
        release = asked.get("engine_version")
        result.append(Question(known.id, gpu, asked["context_length"], release, known.spec, served))
    return result[:NUMBER]


def _is_plain(row):
    """Return whether a run says all that calculators ask for, and nothing that they cannot take."""
    asked = row["question"]
    return (
        asked["engine"] == "vllm"
        and asked.get("gpu_count", 1) == 1
        and row["outcome"] in ("served", "oom", "kv_too_small")
        and "outcome" in row["scores"]
        and bool(asked.get("context_length"))
        and asked.get("gpu_memory_utilization", 0.9) >= USUAL_SHARE
        and not asked.get("other_memory_gib")
        and not asked.get("quantization")
        and not any(word in asked["gpu"] for word in ("MIG", "GiB", "GPU"))
    )


def _gigabytes(question):
    """Return the memory that a GPU is sold with, which other calculators take."""
    return re.search(r"(\d+)gb", question.gpu.id)[1]


def ask_fitgauge(question):
    command = [
        str(Path(sys.executable).parent / "fitgauge"), "check", question.model, question.gpu.id,
        "--engine", "vllm", "--context-length", str(question.context), "--json",
        "--settings", "defaults",
    ]  # fmt: skip
    command += ["--engine-version", question.release] if question.release else []
    return command, lambda answer: answer["verdict"] in ("fits", "tight")


def ask_llmfit(question):
    command = [
        str(PEERS / "llmfit/bin/llmfit"), "--memory", f"{_gigabytes(question)}G", "--json",
        "plan", question.model, "--context", str(question.context), "--quant", "F16",
    ]  # fmt: skip
    return (
        command,
        lambda answer: (
            answer["current"]["run_mode"] == "Gpu" and answer["current"]["fit_level"] != "TooTight"
        ),
    )


def ask_chimeraforge(question):
    """Its model is named by its architecture, since a Hub ID makes it ask the Hub; what it chooses
    by besides memory (budget, latency, quality) is left wide open."""
    attention = next(mixer for block in question.spec.blocks for mixer in block.mixers)
    heads, width = getattr(attention, "kv_heads", 1), getattr(attention, "head_dim", 576)
    command = [
        str(PEERS / "chimeraforge/bin/chimeraforge"), "plan", "--no-network", "-M", "model",
        "--params-b", f"{question.spec.parameters / 1e9:.3f}",
        "--n-layers", str(question.spec.layers), "--n-kv-heads", str(heads),
        "--d-head", str(width), "-hw", question.gpu.name,
        "--gpu-vram-gb", str(_gigabytes(question)),
        "--gpu-bandwidth-gbps", str(question.gpu.bandwidth_gbps),
        "--context-length", str(question.context), "--json",
        "-b", "1000000", "-l", "1000000", "-q", "0", "-r", "0.001", "--gpu-price-per-hour", "1",
    ]  # fmt: skip
    return command, lambda answer: any(
        (row["backend"], row["quant"]) == ("vllm", "FP16") for row in answer
    )


def ask_hf_mem(question):
    """Its answer names no GPU; it is asked whether it can."""
    command = [str(PEERS / "hf-mem/bin/hf-mem"), "--model-id", question.model, "--json-output"]
    return command, None


def ask_whichllm(question):
    """Likewise."""
    return [str(PEERS / "whichllm/bin/whichllm"), "plan", question.model, "--json"], None


TOOLS = {
    "fitgauge": ask_fitgauge, "llmfit": ask_llmfit, "chimeraforge": ask_chimeraforge,
    "hf-mem": ask_hf_mem, "whichllm": ask_whichllm,
}  # fmt: skip


class Asked(NamedTuple):
    """One command that ran."""

    seconds: float
    """From its start to its end."""
    processor: float
    """Of the processor, its own."""
    output: str
    """What it printed, and else its last words."""
    failed: bool
    """Whether it printed no JSON."""


def run(command, home):
    """Run a command as a user does, with no network for what would ask one."""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HOME": home, "HF_HOME": home}
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    ran = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    seconds, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    try:
        json.loads(ran.stdout)
    except ValueError:
        words = (ran.stderr.strip() or ran.stdout.strip()).splitlines()
        trace = words and words[0].startswith("Traceback")
        return Asked(seconds, processor, " ".join(words[-1:] if trace else words), True)
    return Asked(seconds, processor, ran.stdout, False)


def lines():
    """Return a line a tool: answers, how many agree with what happened, and what one takes."""
    every = questions()
    failed = sum(not question.served for question in every)
    yield (
        f"twenty published runs of vLLM in 16 bit on one GPU ({failed} failed,"
        f" {len(every) - failed} served); a question is a command, from its start to its end"
    )
    with tempfile.TemporaryDirectory() as home:
        for name, ask in TOOLS.items():
            if name != "fitgauge" and not (PEERS / name).exists():
                yield f"{name:13} not installed: make bench PEERS=1"
            else:
                yield _line(name, ask, every, home)


def _line(name, ask, every, home):
    """Ask a tool whose answers have a verdict all questions, any other the first."""
    judged = [(*ask(question), question) for question in every]
    judged = judged if judged[0][1] is not None else judged[:1]
    results = [(run(command, home), verdict, question) for command, verdict, question in judged]
    answered = [row for row in results if not row[0].failed]
    seconds = statistics.median(row[0].seconds for row in results)
    processor = statistics.median(row[0].processor for row in results)
    cost = f"{seconds:5.2f} s each, {processor:5.2f} s of CPU"
    if not answered:
        return f"{name:13} {cost}; no answer offline: {results[0][0].output[:110]}"
    if answered[0][1] is None:
        return f"{name:13} {cost}; names no GPU, so no verdict"
    right = Counter(
        question.served
        for asked, verdict, question in answered
        if verdict(json.loads(asked.output)) == question.served
    )
    of = Counter(question.served for _, _, question in answered)
    return (
        f"{name:13} {cost}; answers {len(answered)} of {len(every)}; right about {right[False]} of"
        f" {of[False]} that failed, {right[True]} of {of[True]} that served"
    )


if __name__ == "__main__":
    for text in lines():
        print(text, flush=True)
