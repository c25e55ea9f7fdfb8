"""Loaded by schemathesis for the tools: checks of their answers and errors."""

import json

import hypothesis
import schemathesis

hypothesis.target = lambda *_, **__: None  # as in hooks.py

MOST_TOKENS = 600


@schemathesis.check
def errors_hold_a_code(ctx, response, case):
    """Return every refusal says what is wrong, by a stable code."""
    if response.status_code >= 400 and response.status_code not in (405, 429):
        error = response.json()
        assert error["error"]
        assert error["code"]
        assert set(error) <= {"error", "code", "send", "or"}


@schemathesis.check
def answers_are_short(ctx, response, case):
    """Check that every answer is short, and its parts add up to what it needs."""
    if response.status_code == 200:
        answer = response.json()
        size = len(json.dumps(answer, ensure_ascii=False, separators=(",", ":")))
        assert size / 3.6 <= MOST_TOKENS, size
        if "parts_gib" in answer and "needs_gib" in answer:
            assert abs(sum(answer["parts_gib"].values()) - answer["needs_gib"]) < 0.06
