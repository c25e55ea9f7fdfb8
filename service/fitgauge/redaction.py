"""Secrets cut out of what is written: of log lines, and of messages that quote what a library
said."""

import re

_HIDDEN = "***"
_SECRETS = re.compile(
    r"(?P<before>"
    r"\b(?:bearer|basic)\s+"
    r"|\b(?:authorization|x-api-key|api[-_]key|access[-_]token|token|password|secret|signature"
    r"|x-amz-\w+(?:-\w+)*|key-pair-id|policy|sig)[\"']?\s*[=:]\s*(?:b?[\"'])?(?:bearer\s+)?"
    r"|://"
    r")"
    r"(?P<secret>(?<=://)[^/@\s]*@|(?<!://)[^\s\"'&,;)\]}]+)"
    r"|\b(?:hf_|sk-)[A-Za-z0-9_-]{8,}",
    re.IGNORECASE,
)
"""What stands behind a name of a secret, before the @ of an address, and tokens by their form."""


def redacted(text: str) -> str:
    """Return the text with every secret in it replaced by ***."""
    return _SECRETS.sub(_hide, text)


def _hide(match: re.Match[str]) -> str:
    if match["before"] is None:
        return _HIDDEN
    return match["before"] + _HIDDEN + ("@" if match["secret"].endswith("@") else "")
