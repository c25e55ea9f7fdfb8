"""The twenty questions that other calculators are asked, and the locks of their environments."""

import re
from pathlib import Path

from bench import peers

LOCKS = Path(__file__).parent / "bench" / "requirements"


def test_the_questions_are_twenty_runs_that_served_or_failed():
    questions = peers.questions()
    assert len(questions) == peers.NUMBER
    assert len({(one.model, one.gpu.id) for one in questions}) == peers.NUMBER
    assert {one.served for one in questions} == {True, False}


def test_every_tool_is_asked_about_the_model_and_those_that_judge_about_the_gpu():
    (question, *_) = peers.questions()
    for name, ask in peers.TOOLS.items():
        command, verdict = ask(question)
        if name != "chimeraforge":
            assert question.model in command, name
        if verdict is not None:
            assert str(question.context) in command, name


def test_verdicts_are_read_from_what_tools_print():
    (question, *_) = peers.questions()
    read = {name: ask(question)[1] for name, ask in peers.TOOLS.items()}
    assert read["fitgauge"]({"verdict": "tight"})
    assert not read["fitgauge"]({"verdict": "does_not_fit"})
    assert read["llmfit"]({"current": {"run_mode": "Gpu", "fit_level": "Good"}})
    assert not read["llmfit"]({"current": {"run_mode": "CpuOffload", "fit_level": "Good"}})
    assert read["chimeraforge"]([{"backend": "vllm", "quant": "FP16"}])
    assert not read["chimeraforge"]([{"backend": "vllm", "quant": "AWQ"}])


def test_each_tool_has_a_lock_with_hashes_that_names_no_host():
    for name in peers.TOOLS.keys() - {"fitgauge"}:
        text = LOCKS.joinpath(f"{name}.txt").read_text("utf-8")
        pins = re.findall(r"^[\w.-]+==\S+", text, re.MULTILINE)
        assert len(pins) <= text.count("--hash=sha256:")
        assert "://" not in text
        assert any(pin.startswith(f"{name}==") for pin in pins)
