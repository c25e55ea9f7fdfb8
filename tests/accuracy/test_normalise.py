"""Raw rows become questions, and keep only the scores their source can bear."""

import json

from accuracy import truth
from accuracy.normalise import normalised

RAW = {
    "id": "x1", "engine": "vllm", "engine_version": "0.19.0", "model": "org/name",
    "gpu": "A100 80GB (PCIe)", "kv_cache_dtype": "auto",
    "gpu_memory_utilization": 0.9, "total_gpu_gib": 79.2, "outcome": "served",
    "source": "org/name#1",
    "measured": {"weights_gib": 10.0, "activation_gib": 1.0, "kv_gib": 5.0, "kv_tokens": 1000,
        "graphs_gib": None},
}  # fmt: skip


def run(**changes):
    return next(normalised([RAW | changes]))


def test_a_row_becomes_fields_of_the_contract() -> None:
    question = {
        "model": "org/name",
        "gpu": "A100 80GB",
        "engine": "vllm",
        "gpu_memory_utilization": 0.9,
        "engine_version": "0.19.0",
    }
    assert run()["question"] == question
    assert set(run()["scores"]) == {
        "weights",
        "planner",
        "kv_tokens",
        "activations",
        "need",
        "outcome",
    }
    assert "graphs_gib" not in run()["measured"]


def test_a_build_that_is_no_release_stays_beside_the_question() -> None:
    odd = run(engine_version="0.1.dev1+g4d2a68d64")
    assert odd["build"] == "0.1.dev1+g4d2a68d64"
    assert "engine_version" not in odd["question"]
    assert run(engine_version="0.10.1.1")["question"]["engine_version"] == "0.10.1"


def test_nothing_is_scored_of_a_model_in_doubt() -> None:
    assert (
        run(model_exact=False)["scores"]
        == run(ambiguous_model=True)["scores"]
        == run(model="A name")["scores"]
        == []
    )


def test_peaks_are_scored_only_where_the_release_was_printed() -> None:
    assert not {"activations", "need"} & set(run(engine_version=None)["scores"])


def test_a_doubted_figure_is_not_scored() -> None:
    assert set(run(verify="contradicts itself")["scores"]) == {"planner", "outcome"}


def test_the_found_runs_stand_in_the_truth_as_they_normalise() -> None:
    raw = [
        json.loads(line) for line in (truth.HERE / "serving_found.jsonl").read_text().splitlines()
    ]
    kept = {
        json.loads(line)["id"]: json.loads(line)
        for line in (truth.HERE / "serving.jsonl").read_text().splitlines()
    }
    assert all(kept[row["id"]] == row for row in normalised(raw))
