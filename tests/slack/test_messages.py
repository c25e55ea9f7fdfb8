"""Messages within Slack's limits, whatever an answer holds."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitgauge_plugin.slack.answers import message
from fitgauge_plugin.slack.blocks import VALUE, button
from fitgauge_plugin.slack.conversation import Turn
from fitgauge_plugin.slack.lists import list_lines
from fitgauge_plugin.slack.markup import escaped, plain
from fitgauge_plugin.slack.memory import Memory, memory_in
from fitgauge_plugin.slack.service import Question
from fitgauge_plugin.slack.texts import language_of
from slack_stand_in.limits import check_message, texts

HOSTILE = st.text(min_size=1, max_size=40) | st.sampled_from(
    ["<!channel>", "<@U1>", "&lt;!here&gt;", "*_~`", "<https://evil.example|x>", "&"]
)
SIZES = st.integers(0, 2**45)


def estimate(text, size, rows, verdict, launched):
    fix = {"change": text, "request": {"x": text}, "verdict": "fits", "required_bytes": size}
    return {
        "verdict": verdict,
        "summary": text,
        "fit_probability": 0.5,
        "model": {"id": text},
        "gpu": {"name": text, "count": rows + 1},
        "per_gpu": {
            "required_bytes": {"low": 0, "expected": size, "high": 2 * size},
            "usable_bytes": size // 2,
        },
        "terms": [{"name": text, "bytes": size}] * (rows + 1),
        "limits": {"max_context_length": size, "max_concurrency": None},
        "suggestions": [fix] * rows,
        "warnings": [{"message": text}] * rows,
        "assumed": [{"field": text, "value": text}] * rows,
        "read_as": [{"taken": text}] * rows,
        "understood_as": {"context_length": size},
        "launch": {"command": text} if launched else None,
        "answer_id": f"1{'a' * rows * 300}",
    }


@given(
    HOSTILE,
    st.sampled_from([1, 20, 3_000]),
    SIZES,
    st.integers(0, 9),
    st.sampled_from(["fits", "tight", "does_not_fit", "unsupported"]),
    st.booleans(),
    st.sampled_from(["en", "zh"]),
)
def test_any_estimate_is_a_message_that_slack_takes(
    text, times, size, rows, verdict, launched, language
):
    long = (text * times)[:20_000]
    answer = estimate(long, size, rows, verdict, launched)
    turn = Turn(language, Question("check_fit", {}), answer, (long,) * 3, (long,) * 3)
    posted = message(turn)
    check_message({"text": posted.text, "blocks": posted.blocks, "metadata": posted.metadata})
    marked = [
        one
        for block in posted.blocks
        if block["type"] in ("section", "context")
        for one in texts(block)
    ]
    assert not any("<" in one or ">" in one for one in [posted.text, *marked])


@given(st.text(max_size=400), st.integers(2, 300))
def test_escaped_text_is_bounded_and_has_no_markup(text, longest):
    result = escaped(text, longest)
    assert len(result) <= longest
    assert "<" not in result
    assert ">" not in result


@given(st.text(st.characters(exclude_characters="<>&", exclude_categories=["C", "Z"]), max_size=99))
def test_what_slack_escapes_is_read_back(text):
    assert plain(f"<@U1> {text} &lt;&amp;&gt; <https://a.example|b>") == f"{text} <&> b".strip()


def test_a_button_whose_value_is_too_long_is_left_out():
    assert button("x", "a", {"s": "x" * VALUE}) is None
    assert button("x" * 200, "a", {"s": "x"})["text"]["text"].endswith("…")


def test_a_thread_remembers_the_last_question_that_it_has():
    memory = Memory("1abc", "", "zh")
    thread = [
        {"text": "older", "metadata": Memory("1old", "", "en").metadata()},
        {"text": "x", "metadata": memory.metadata()},
        {"text": "a person's"},
        {"text": "another app's", "metadata": {"event_type": "other", "event_payload": {}}},
    ]
    assert memory_in(thread) == memory
    assert memory_in(thread[2:]) is None


def test_what_a_thread_remembers_is_bounded():
    memory = Memory("1" * 5_000, "x" * 5_000, "en")
    assert len(json.dumps(memory.metadata())) < 4_000


@pytest.mark.parametrize(("share", "said"), [(1.0, "99 %"), (0.0, "1 %"), (0.823, "82 %")])
def test_nothing_is_said_to_be_certain(share, said):
    answer = {**estimate("x", 2**30, 1, "fits", True), "fit_probability": share}
    posted = message(Turn("en", Question("check_fit", {}), answer, (), ()))
    assert any(one.endswith(said) for block in posted.blocks for one in texts(block))


def test_a_log_is_told_once():
    answer = {"summary": "The GPU ran out. First: end it.", "causes": ["The GPU ran out.", "Why."]}
    assert list_lines(answer, "en") == ["The GPU ran out. First: end it.", "• Why."]


def test_a_language_is_said_by_letters():
    assert language_of("4090 上能跑吗") == "zh"
    assert language_of("and with 16k please?") == "en"
    assert language_of("4090, 16k") is None
