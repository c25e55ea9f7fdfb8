"""A training plan over 64 cards, and over all counts up to them, as it is first asked of a
model. In seconds of one core: what else runs on the machine is not counted."""

import gc
import statistics
import time

from fitgauge.catalog.catalog import bundled
from fitgauge.catalog.snapshot import Snapshot
from fitgauge.catalog.training import load_training
from fitgauge.services.training_plan.schemas import TrainingPlanRequest
from fitgauge.services.training_plan.service import Planner

DENSE = (
    "Qwen/Qwen3-8B",
    "meta-llama/Llama-3.1-8B-Instruct",
    "Qwen/Qwen3-32B",
    "meta-llama/Llama-3.1-70B-Instruct",
    "google/gemma-2-9b-it",
)
MIXTURES = (
    "Qwen/Qwen3-30B-A3B",
    "openai/gpt-oss-20b",
    "mistralai/Mixtral-8x7B-v0.1",
    "Qwen/Qwen3-235B-A22B",
    "deepseek-ai/DeepSeek-V3",
)
METHODS, SEQUENCES, RUNS = ("full", "lora"), (4096, 32_768), 3
COUNTS = {"over 64": ({"gpu_count": 64}, "at most"), "up to 64": ({"max_gpu_count": 64}, "aim")}


def first_milliseconds(planner, snapshot, found, name, **asked):
    """Return the best of RUNS plans, each of a model that was just read, so that nothing is
    known of it [ms of one core]."""
    runs = []
    for _ in range(RUNS):
        model = snapshot.model(name)
        request = TrainingPlanRequest(model=name, gpu="H100", **asked)
        start = time.process_time()
        planner.answer(request, model, found)
        runs.append(time.process_time() - start)
    return min(runs) * 1000


def lines():
    """Return the lines to print."""
    planner, snapshot, found = Planner(load_training()), Snapshot(), bundled().find("H100")
    gc.collect()
    gc.freeze()  # as the service does when it has started
    for kind, names in (("dense", DENSE), ("mixture", MIXTURES)):
        for counts, (gpus, bound) in COUNTS.items():
            took = {
                f"{name}, {method}, {sequence}": first_milliseconds(
                    planner, snapshot, found, name, **gpus, method=method, sequence_length=sequence
                )
                for name in names
                for method in METHODS
                for sequence in SEQUENCES
            }
            slowest = max(took, key=took.get)
            yield (
                f"plan {counts:<8}, {kind:<7}, median  {statistics.median(took.values()):8.0f} ms  "
                f"       ({bound} 50)"
            )
            yield (
                f"plan {counts:<8}, {kind:<7}, slowest {took[slowest]:8.0f} ms         ({bound}"
                f" 50): {slowest}"
            )
    gc.unfreeze()
