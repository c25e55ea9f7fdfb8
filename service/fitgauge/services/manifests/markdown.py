"""A check of manifests as a comment of a code review."""

from fitgauge.engine.quantity import GIB
from fitgauge.services.manifests.schemas import ManifestsAnswer, ServerAnswer
from fitgauge.services.manifests.service import remarks

_SIGNS = {"fits": "✅", "tight": "⚠️", "does_not_fit": "❌", "unsupported": "❌", None: "❔"}


def markdown(answer: ManifestsAnswer) -> str:
    """Return a table of the servers, then what to change and what the answers leave out."""
    lines = ["### GPU memory", "", _text(answer.summary), ""]
    if answer.servers:
        lines += ["| | server | model | GPUs | GiB per GPU |", "|---|---|---|---|---|"]
        lines += [_row(server) for server in answer.servers]
    for server in answer.servers:
        if server.verdict != "fits":
            reason = "" if len(answer.servers) == 1 else f": {_text(server.summary)}"
            lines += ["", f"**{_text(server.name)}**{reason}"]
            lines += [f"- {one.verdict}: {_text(one.change)}" for one in server.changes]
    notes = [
        f"- `{file}:{remark.line}`: {_text(remark.message)}"
        for file, remark, server in remarks(answer)
        if server is None or remark.message != server.summary
    ]
    if notes:
        lines += ["", "<details><summary>Left out of the answers</summary>", "", *notes]
        lines += ["", "</details>"]
    return "\n".join(lines) + "\n"


def _row(server: ServerAnswer) -> str:
    needs = ""
    if server.required_bytes is not None and server.budget_bytes is not None:
        needs = f"{server.required_bytes / GIB:.1f} of {server.budget_bytes / GIB:.1f}"
    gpus = f"{server.gpu_count} x {server.gpu}" if server.gpu else ""
    verdict = f"{_SIGNS[server.verdict]} {(server.verdict or 'no answer').replace('_', ' ')}"
    where = f"{_text(server.name)}<br>`{server.file}:{server.line}`"
    model = _text(str(server.request.get("model", "")))
    return f"| {verdict} | {where} | {model} | {gpus} | {needs} |"


def _text(text: str) -> str:
    """Return a text that neither ends a cell nor starts markup."""
    for sign in "\\`*_[]<>|":
        text = text.replace(sign, f"\\{sign}")
    return text.replace("\n", " ")
