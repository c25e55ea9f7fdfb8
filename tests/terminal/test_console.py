"""What the command prints where: in a pipe, in a C locale, in its own words; and how it ends."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fitgauge.console import as_typed, plain

COMMAND = str(Path(sys.executable).with_name("fitgauge"))


def command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Run the installed command in a pipe, without the Hub."""
    kept = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    return subprocess.run(
        [COMMAND, *arguments],
        capture_output=True,
        env={**kept, "HF_HUB_OFFLINE": "1", **environment},
        check=False,
    )


@pytest.mark.parametrize(
    ("message", "typed"),
    [
        ("Send context_length 40960.", "Use --context-length 40960."),
        ("`engine` not set: assuming vllm.", "--engine not set: assuming vllm."),
        ("See POST /v1/recommend.", "See `fitgauge recommend`."),
        ("Send gpu_count 4, or send engine vllm.", "Use --gpu-count 4, or use engine vllm."),
        ("`no_field` and max_num_seqs_more stay", "`no_field` and max_num_seqs_more stay"),
        ("--max_num_seqs and `max_num_seqs` too", "--max_num_seqs and --max-num-seqs too"),
        ("Qwen/Qwen3-8B at tensor parallel 2", "Qwen/Qwen3-8B at tensor parallel 2"),
    ],
)  # fmt: skip
def test_messages_of_the_api_are_printed_in_the_commands_words(message: str, typed: str) -> None:
    assert as_typed(message) == typed


def test_letters_that_a_terminal_lacks_have_others_in_their_place() -> None:
    assert plain("██▌ 1.0 ± 0.5 显", "ascii") == "##  1.0 +- 0.5 ?"
    assert plain("██▌ ± 显", "utf-8") == "██▌ ± 显"


def test_a_pipe_gets_the_summary_on_one_line_and_no_trailing_blanks() -> None:
    result = command("check", "Qwen/Qwen3-32B", "RTX 4090")
    assert result.returncode == 1
    lines = result.stdout.decode().splitlines()
    assert re.search(r"needs [\d.]+ GiB.*weights", lines[0], re.IGNORECASE)
    assert not [line for line in lines if line != line.rstrip()]


def test_a_c_locale_gets_ascii_and_no_traceback() -> None:
    result = command("check", "Qwen/Qwen3-8B", "RTX 4090", LC_ALL="C", PYTHONUTF8="0")
    assert (result.returncode, result.stderr) == (0, b"")
    assert "###" in result.stdout.decode("ascii")


def test_columns_that_are_named_are_not_exceeded() -> None:
    text = command("check", "Qwen/Qwen3-32B", "RTX 4090", COLUMNS="60").stdout.decode()
    wide = [line for line in text.splitlines() if len(line) > 60 and not line.startswith("vllm")]
    assert wide == []
    assert "weights" in text


def test_an_error_is_json_where_json_was_asked_for() -> None:
    result = command("check", "nope/nope", "4090", "--json")
    assert result.returncode == 2
    problem = json.loads(result.stdout)
    assert (problem["code"], problem["status"]) == ("hub-unreachable", 424)
    assert (problem["type"], problem["title"]) == (
        "urn:fitgauge:problem:hub-unreachable",
        "Failed Dependency",
    )


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (("Qwen/Qwen3-8B", "H100", "--context-length=-1"), "context_length"),
        ((), "model"),
        (("Qwen/Qwen3-8B", "H100", "--no-such-option"), None),
    ],
)
def test_misuse_is_json_where_json_was_asked_for(
    arguments: tuple[str, ...], field: str | None
) -> None:
    result = command("check", *arguments, "--json")
    assert (result.returncode, result.stderr) == (2, b"")
    problem = json.loads(result.stdout)
    assert (problem["code"], problem["status"], problem["field"]) == ("invalid-request", 422, field)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("Qwen/Qwen3-8B", "RTX 4090"), 0),
        (("Qwen/Qwen3-32B", "RTX 4090"), 1),
        (("Qwen/Qwen3-8B", "no such thing"), 2),
        (("Qwen/Qwen3-8B", "M3 Max 64GB", "--engine", "vllm"), 4),
    ],
)
def test_exit_codes(arguments: tuple[str, ...], code: int) -> None:
    assert command("check", *arguments).returncode == code


def test_ctrl_c_while_it_starts_ends_it_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'fitgauge.cli':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupt())\n"
    )
    result = command("gpus", PYTHONPATH=str(tmp_path))
    assert (result.returncode, result.stderr) == (130, b"Interrupted.\n")


def test_ctrl_c_in_the_middle_of_a_command_ends_it_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import asyncio\n"
        "run = asyncio.run\n"
        "async def slow():\n"
        "    print('running', flush=True)\n"
        "    await asyncio.sleep(60)\n"
        "def run_slowly(question):\n"
        "    question.close()\n"
        "    return run(slow())\n"
        "asyncio.run = run_slowly\n"
    )
    with subprocess.Popen(
        [COMMAND, "check", "Qwen/Qwen3-8B", "H100"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        # a shell's job in the background ignores SIGINT, and so would what it starts
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"running\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, b"Interrupted.\n")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("check", "Qwen/Qwen3-8B", "H100"), 0),
        (("check", "Qwen/Qwen3-8B", "H100", "--json"), 0),
        (("check", "Qwen/Qwen3-32B", "RTX 4090"), 1),
        (("gpus",), 0),
    ],
)
def test_a_reader_that_leaves_does_not_change_the_exit_code(arguments, code) -> None:
    """`fitgauge check ... | head -1` ended with 1: does not fit."""
    reader, writer = os.pipe()
    os.close(reader)
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    ended = subprocess.run(
        [COMMAND, *arguments], stdout=writer, stderr=subprocess.PIPE, env=environment, check=False
    )
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (code, b"")


@pytest.mark.parametrize("length", ["32k", "32,768", "32768"])
def test_numbers_are_read_as_people_write_them(length: str) -> None:
    answer = json.loads(
        command("check", "Qwen/Qwen3-8B", "H100", "--context-length", length, "--json").stdout
    )
    assert answer["understood_as"]["context_length"] == 32768


@pytest.mark.parametrize("length", ["-1", "0", "many"])
def test_a_number_that_is_none_is_refused(length: str) -> None:
    result = command("check", "Qwen/Qwen3-8B", "H100", f"--context-length={length}")
    assert (result.returncode, result.stdout) == (2, b"")
    assert b"--context-length" in result.stderr


def test_a_folder_without_its_dot_is_told_how_to_be_named(tmp_path) -> None:
    (tmp_path / "my-model").mkdir()
    ended = subprocess.run(
        [COMMAND, "check", "my-model", "RTX 4090"],
        cwd=tmp_path,
        capture_output=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        check=False,
    )
    assert ended.returncode == 2
    assert b"a file or folder of that name: use ./my-model for it." in ended.stderr
