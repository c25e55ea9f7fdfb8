"""Loaded by schemathesis (SCHEMATHESIS_HOOKS): checks of our own."""

import json

import hypothesis
import schemathesis

# schemathesis leans towards inputs that are accepted, by hill climbing that rejects most of what it
# draws and takes nine tenths of the time; the dictionaries in schemathesis.toml reach accepted
# inputs without it.
hypothesis.target = lambda *_, **__: None

IMPOSSIBLE = {
    f"urn:fitgauge:problem:{slug}"
    for slug in ("impossible-question", "model-without-weights", "malformed-model")
}


@schemathesis.deserializer("application/x-ndjson")
def last_line(ctx, response):
    """Return the row that the schema of a line is held against; tests/live/conformance.py holds
    every line."""
    return json.loads(response.content.splitlines()[-1])


@schemathesis.check
def typed_questions_are_understood(ctx, response, case):
    """Return a question that keeps to the schema may be impossible, and is never refused as one
    that does not keep to it."""
    if (
        case.meta is not None
        and case.meta.generation.mode.is_positive
        and response.status_code == 422
    ):
        assert response.json()["type"] in IMPOSSIBLE, response.text


@schemathesis.check
def problems_say_what_to_send(ctx, response, case):
    """Check that every refusal is a problem with a hint."""
    if response.status_code >= 400 and case.method != "HEAD":
        assert response.headers["content-type"] == ["application/problem+json"], response.headers
        problem = response.json()
        assert problem["status"] == response.status_code
        assert problem["detail"]
        assert problem["hint"]


@schemathesis.check
def verdicts_rest_on_their_terms(ctx, response, case):
    """Return the terms of an estimate add up to what it says is required, and intervals are in
    order."""
    if (
        response.status_code == 200
        and case.operation.definition.raw["operationId"] == "check_fit"
        and case.method == "POST"
    ):
        answer = response.json()
        if answer["gpu"] is None:  # without a GPU it says what the model needs
            assert answer["per_gpu"] is None
            assert answer["terms"] is None
            return
        required = answer["per_gpu"]["required_bytes"]
        assert sum(term["bytes"] for term in answer["terms"]) == required["expected"]
        assert 0 <= required["low"] <= required["expected"] <= required["high"]
        assert all(0 <= term["low"] <= term["bytes"] <= term["high"] for term in answer["terms"])
