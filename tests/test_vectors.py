"""docs/vectors/: what others hold their calculators to is what the service answers."""

import json

import pytest

from vectors import FOLDER, vectors

ALLOWED = {
    name: json.loads((FOLDER / name).read_text())["vectors"]
    for name in ("serving.json", "training.json")
}


@pytest.fixture(scope="module")
def answered():
    """Provide the same questions, answered now."""
    return {name: content["vectors"] for name, content in vectors().items()}


def terms(vector):
    return {term["name"]: term for term in vector["answer"]["terms"]}


def test_there_are_two_hundred_of_every_outcome():
    every = [vector for rows in ALLOWED.values() for vector in rows]
    assert len(every) >= 200
    outcomes = {row.get("refused") or row["answer"]["verdict"] for row in every}
    assert {"fits", "tight", "does_not_fit", "unsupported", "impossible-degrees"} <= outcomes


@pytest.mark.parametrize("name", ALLOWED)
def test_the_service_answers_within_the_bounds(name, answered):
    differing = []
    for then, now in zip(ALLOWED[name], answered[name], strict=True):
        assert then["question"] == now["question"]
        if "refused" in then or "refused" in now:
            assert then == now
            continue
        assert now["answer"]["verdict"] == then["answer"]["verdict"], then["question"]
        differing += [
            (then["question"], term["name"], term["bytes"], terms(now).get(term["name"]))
            for term in then["answer"]["terms"]
            if not term["low"] <= terms(now)[term["name"]]["bytes"] <= term["high"]
        ]
    assert not differing


@pytest.mark.parametrize("name", ALLOWED)
def test_the_terms_are_the_sum(name):
    for vector in ALLOWED[name]:
        if "answer" in vector:
            total = sum(term["bytes"] for term in vector["answer"]["terms"])
            assert total == vector["answer"]["required_bytes"]["expected"], vector["question"]


def test_weights_in_sixteen_bits_are_two_bytes_a_parameter():
    """An arithmetic that knows nothing of Fitgauge, on the unsharded dense models."""
    for vector in ALLOWED["serving.json"]:
        question = vector["question"]
        if question["gpu"] == "RTX 4090" and "answer" in vector:
            weights = terms(vector)["weights"]
            if weights["bytes"] > vector["answer"]["parameters"] * 1.5:
                assert weights["bytes"] == pytest.approx(
                    2 * vector["answer"]["parameters"], rel=0.06
                ), question
