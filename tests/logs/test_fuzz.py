"""Strangers paste anything: nothing raises, and the work grows with the text and no faster."""

import re
import sys
from pathlib import Path
from re import _constants, _parser

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fitgauge.engine.serving.llamacpp import ollama_log as ollama
from fitgauge.engine.serving.llamacpp import start_log as llamacpp
from fitgauge.engine.serving.sglang import start_log as sglang
from fitgauge.engine.serving.start_log import arguments, lines, names
from fitgauge.engine.serving.start_log.measurements import Rule, StartLog
from fitgauge.engine.serving.vllm import start_log as vllm
from fitgauge.logs import torch_oom
from fitgauge.logs.detect import detect

LOGS = [path.read_text() for path in sorted((Path(__file__).parent / "data").glob("*.log"))]
WORDS = sorted({word for log in LOGS for word in log.split(" ") if word})
calm = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@calm
@given(st.binary(max_size=2000))
def test_any_bytes_are_read_without_an_error(raw):
    assert detect(raw.decode("utf-8", "replace")) is None or raw


@calm
@given(st.sampled_from(LOGS), st.integers(0, 4000), st.integers(0, 4000))
def test_a_log_cut_anywhere_is_read_without_an_error(log, begin, length):
    read = detect(log[begin : begin + length])
    assert read is None or isinstance(read, StartLog)


@calm
@given(
    st.sampled_from(LOGS), st.lists(st.tuples(st.integers(0, 4000), st.characters()), max_size=20)
)
def test_a_spoilt_log_is_read_without_an_error(log, spoils):
    text = list(log)
    for place, character in spoils:
        text[place % len(text)] = character
    read = detect("".join(text))
    assert read is None or all(isinstance(reading.value, float) for reading in read.readings)


@calm
@given(st.lists(st.sampled_from(WORDS), max_size=200), st.sampled_from([" ", "", "\n"]))
def test_words_of_logs_in_any_order_are_read_without_an_error(words, between):
    detect(between.join(words))


HOSTILE = [
    "9" * 50,
    "-9.",
    "model='" + "a" * 40,
    "--",
    "a/" * 20,
    "models--a--",
    "(Worker_TP0_",
    "\x1b[" + "1;" * 30,
    "CUDA0 CUDA0_",
    "load_tensors:     ",
    "KV buffer size Aa0",
    "compute buffer size A_B_",
    "GPU 0: NVIDIA ",
    "max_total_num_tokens=1 ",
    "Initializing a V1 LLM engine ",
    "non-default args: {'model': '",
    "'quantization': \"",
    "gpu_memory_utilization=",
    "INFO 12-02 15:48:37 ",
    "x" * 100,
    " ",
    "\n",
]


def calls(text):
    """Return how many steps of this house's own code a text takes: a measure of work that no
    machine changes."""
    counted = 0

    def count(frame, event, _):
        nonlocal counted
        counted += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        detect(text)
    finally:
        sys.settrace(before)
    return counted


@pytest.mark.parametrize("piece", HOSTILE, ids=range(len(HOSTILE)))
def test_the_work_grows_with_the_text_and_no_faster(piece):
    once, twice = (calls(piece * (size // len(piece))) for size in (6_000, 12_000))
    assert twice <= 3 * once + 1000


def patterns():
    """Return every regular expression of the house, with where it stands."""
    seen = []

    def collect(value, where):
        if isinstance(value, re.Pattern):
            seen.append((where, value))
        elif isinstance(value, Rule):
            seen.append((f"{where} {value.key}", value.pattern))
        elif isinstance(value, tuple | list):
            for item in value:
                collect(item, where)
        elif isinstance(value, dict):
            for item in value.values():
                collect(item, where)

    for room in (lines, llamacpp, names, ollama, sglang, torch_oom, vllm):
        for name, value in vars(room).items():
            collect(value, f"{room.__name__}.{name}")
    collect(arguments._patterns("tensor_parallel_size"), "arguments")
    return seen


def loops(parsed, inside=False):
    """Return the repetitions without a bound: of more than one character, or inside another
    repetition."""
    for operator, argument in parsed:
        if operator in (_constants.MAX_REPEAT, _constants.MIN_REPEAT):
            _, most, body = argument
            endless = most == _constants.MAXREPEAT
            if endless and (
                inside or len(body) != 1 or body[0][0] not in (_constants.IN, _constants.LITERAL)
            ):
                yield body
            yield from loops(body, inside or most > 1)
        elif operator == _constants.SUBPATTERN:
            yield from loops(argument[3], inside)
        elif operator == _constants.BRANCH:
            for branch in argument[1]:
                yield from loops(branch, inside)
        elif operator in (_constants.ASSERT, _constants.ASSERT_NOT):
            yield from loops(argument[1], inside)


def test_there_are_patterns_to_look_at():
    assert len(patterns()) > 80


def test_no_pattern_repeats_a_repetition_without_bound():
    """Catastrophic backtracking needs a loop in a loop: there is none, and every endless one is
    over a single class of characters."""
    assert [
        where for where, pattern in patterns() if any(loops(_parser.parse(pattern.pattern)))
    ] == []


def test_a_loop_in_a_loop_would_be_seen():
    assert any(loops(_parser.parse(r"(?:a+)+b")))
    assert any(loops(_parser.parse(r"(?:ab)*")))
    assert not any(loops(_parser.parse(r"a+ b{0,9}")))
