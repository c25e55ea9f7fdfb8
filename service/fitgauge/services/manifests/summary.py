"""What a check of manifests comes to, in a sentence."""

from collections.abc import Sequence

from fitgauge.services.manifests.schemas import FileRemark, ServerAnswer

_WORDS = {
    "does_not_fit": ("does not fit", "do not fit"),
    "unsupported": ("is unsupported", "are unsupported"),
    "tight": ("is tight", "are tight"),
    None: ("has no answer", "have no answer"),
}
_MOST_NAMES = 3


def summary(servers: Sequence[ServerAnswer], files: int, others: Sequence[FileRemark]) -> str:
    """Return how many servers fit, and the names of some that do not. files: number read; others:
    what asks for GPUs and starts none."""
    if not servers:
        where = f"in {files:,} file{'s' if files != 1 else ''}"
        if not others:
            return f"No model server {where}."
        asks = "asks" if len(others) == 1 else "ask"
        some = _some([one.name for one in others])
        return f"No model server {where} that is known here; {some} {asks} for GPUs."
    if len(servers) == 1:
        return servers[0].summary
    halves = {str(one.request.get("disaggregation")): one for one in servers}
    if len(servers) == 2 and {"prefill", "decode"} == set(halves):
        first, second = (_half(name, halves[name]) for name in ("prefill", "decode"))
        return f"{first[0].upper()}{first[1:]}; {second}."
    fitting = sum(server.verdict == "fits" for server in servers)
    parts = [f"{fitting:,} of {len(servers):,} model servers fit"]
    for verdict, (one, several) in _WORDS.items():
        names = [server.name for server in servers if server.verdict == verdict]
        if names:
            words = one if len(names) == 1 else several
            parts.append(f"{len(names):,} {words} ({_some(names)})")
    return "; ".join(parts) + "."


def _half(name: str, server: ServerAnswer) -> str:
    """Return whether one half of disaggregated serving fits."""
    where = f" on {server.gpu_count} x {server.gpu}" if server.gpu else ""
    words = "fits" if server.verdict == "fits" else _WORDS[server.verdict][0]
    return f"{name} {words}{where}"


def _some(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more:,} more" if more > 0 else "")
