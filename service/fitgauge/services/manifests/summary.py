"""What a check of manifests comes to, in a sentence."""

from collections.abc import Sequence

from fitgauge.services.manifests.schemas import ServerAnswer

_WORDS = {
    "does_not_fit": "do not fit",
    "unsupported": "unsupported",
    "tight": "tight",
    None: "without an answer",
}
_MOST_NAMES = 3


def summary(servers: Sequence[ServerAnswer], files: int) -> str:
    """Return how many servers fit, and the names of some that do not. files: number read."""
    if not servers:
        return f"No model server in {files:,} file{'s' if files != 1 else ''}."
    if len(servers) == 1:
        return servers[0].summary
    fitting = sum(server.verdict == "fits" for server in servers)
    parts = [f"{fitting:,} of {len(servers):,} model servers fit"]
    for verdict, words in _WORDS.items():
        names = [server.name for server in servers if server.verdict == verdict]
        if names:
            parts.append(f"{len(names):,} {words} ({_some(names)})")
    return "; ".join(parts) + "."


def _some(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more:,} more" if more > 0 else "")
