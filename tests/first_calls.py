"""First calls of agents: what they sent, and whether the answer is of what they meant.

The calls were written once, before they were put, and are not edited where one fails.
`make agents` writes docs/AGENTS.md."""

import asyncio
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import msgspec

from bundled_models import offline_questions
from fitgauge.api.tools_document import arguments_schema
from fitgauge.services.facade import Services
from fitgauge.services.tools.errors import ToolCallError
from fitgauge.services.tools.faces import TOOLS
from fitgauge.services.tools.service import Tools

CALLS = Path(__file__).parent / "services" / "tools" / "calls.jsonl"
CHARACTERS_A_TOKEN = 3.6


class FirstCall(NamedTuple):
    """A call, put once."""

    question: str
    tool: str
    wrong: str | None
    """What was read otherwise than meant; None where nothing was."""
    tokens: float


def rows() -> list[dict[str, Any]]:
    """Return the calls."""
    return [json.loads(line) for line in CALLS.read_text("utf-8").splitlines()]


def first_calls(services: Services | None = None) -> Iterator[FirstCall]:
    """Yield every call with its result. services: those to ask; the bundled ones by default."""
    tools = Tools(services or offline_questions())
    for row in rows():
        status, answer = asyncio.run(_put(tools, row["tool"], row["arguments"]))
        text = json.dumps(answer, ensure_ascii=False, separators=(",", ":"))
        wrong = _wrong(row["expect"], status, answer)
        yield FirstCall(row["question"], row["tool"], wrong, len(text) / CHARACTERS_A_TOKEN)


async def _put(tools: Tools, name: str, arguments: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """Return 200 or 422, and the answer or the error."""
    try:
        return 200, msgspec.to_builtins(await tools.call(name, arguments))
    except ToolCallError as error:
        return 422, msgspec.to_builtins(error.answer)


def _wrong(expected: dict[str, Any], status: int, answer: dict[str, Any]) -> str | None:
    """Return how an answer differs from what was meant."""
    if "status" in expected:
        return None if status in expected["status"] and answer.get("send") else f"status {status}"
    if status != 200:
        return f"{answer['code']}: {answer['error'][:100]}"
    for name, value in expected.items():
        got = answer.get(name)
        same = _plain(value) in _plain(got) if name in ("model", "gpu") else got == value
        if not same:
            return f"{name} is {got!r}, not {value!r}"
    return None


def _plain(text: object) -> str:
    return re.sub(r"[^a-z0-9]", "", str(text).lower())


def report(results: list[FirstCall]) -> str:
    """Return docs/AGENTS.md."""
    right = [one for one in results if one.wrong is None]
    sizes = [one.tokens for one in results]
    lines = [
        "# The tools of agents",
        "",
        f"{len(results)} first calls in the manner of real ones"
        " (tests/services/tools/calls.jsonl), answered by the bundled snapshot, without the Hub.",
        "The arguments were written once, before they were put, and never edited. A call is right"
        " where the first answer is of what was",
        "meant (model, GPUs, format, lengths, verdict), or an error with the arguments to send,"
        " where a question has no answer.",
        f"A token is {CHARACTERS_A_TOKEN} characters. `make agents` writes this page.",
        "",
        f"**{len(right)} of {len(results)} first calls were read rightly"
        f" ({len(right) / len(results):.1%});"
        f" an answer takes {median(sizes):.0f} tokens in the median, {max(sizes):.0f} at most; the"
        f" seven tools' schemas take {_face_tokens():.0f}.**",
        "",
        "| Tool | Calls | Right | Tokens, median | Tokens, most |",
        "|---|---|---|---|---|",
    ]
    for tool in TOOLS:
        own = [one for one in results if one.tool == tool]
        took = [one.tokens for one in own]
        good = sum(one.wrong is None for one in own)
        lines.append(f"| `{tool}` | {len(own)} | {good} | {median(took):.0f} | {max(took):.0f} |")
    lines += ["", "## Misreadings", ""]
    lines += [
        f"- `{one.tool}`, {one.question}: {one.wrong}" for one in results if one.wrong is not None
    ] or ["None."]
    return "\n".join(lines) + "\n"


def _face_tokens() -> float:
    faces = [
        {"name": tool.name, "description": tool.description, "input_schema": arguments_schema(tool)}
        for tool in TOOLS.values()
    ]
    return sum(
        len(json.dumps(face, ensure_ascii=False, separators=(",", ":"))) / CHARACTERS_A_TOKEN
        for face in faces
    )


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(report(list(first_calls())), "utf-8")
