"""What a check of manifests answers."""

from typing import Literal

from msgspec import Struct

from fitgauge.services.common.reading_schemas import Verdict

Rule = Literal[
    "does-not-fit", "too-few-gpus", "tight", "unsupported", "no-answer", "not-read",
    "shared-memory", "disk", "kv-transfer", "unreadable",
]  # fmt: skip
"""Stable names of what is reported of a line."""


class Remark(Struct, frozen=True):
    """Something to know of one line."""

    rule: Rule
    """What kind of remark it is."""
    line: int
    """The line in the file."""
    message: str
    """In words."""


class FileRemark(Struct, frozen=True):
    """A remark on what is no model server."""

    file: str
    """The file, as it is named on the command line."""
    name: str
    """Kind and name of its object."""
    remark: Remark
    """The remark."""


class Change(Struct, frozen=True):
    """A change with which the server fits."""

    change: str
    """What to change, in words."""
    verdict: Verdict
    """The verdict with it."""
    required_bytes: int
    """What the fullest GPU needs with it."""
    request: dict[str, str | int | float | bool]
    """Fields to send with the request, in place of its own."""


class ServerAnswer(Struct, kw_only=True):
    """One model server of a manifest."""

    file: str
    """The file, as it is named on the command line."""
    line: int
    """The line of its command, or of the image that starts it."""
    name: str
    """Kind and name of its object."""
    engine: str
    """The engine that it starts."""
    request: dict[str, str | int | float | bool]
    """The question: a request of POST /v1/fit."""
    verdict: Verdict | None = None
    """The verdict; null where the question has no answer."""
    summary: str
    """In one or two sentences; without an answer, what is missing and what to send."""
    fit_probability: float | None = None
    """Probability that it fits."""
    gpu: str | None = None
    """The GPU as it is understood."""
    gpu_count: int | None = None
    """Number of GPUs that the server takes."""
    required_bytes: int | None = None
    """What the fullest GPU needs."""
    budget_bytes: int | None = None
    """What the engine may use of it."""
    download_bytes: int | None = None
    """What is downloaded before it serves; null where the model is a path, or is unknown."""
    changes: list[Change] = []
    """What makes it fit."""
    remarks: list[Remark] = []
    """What the answer leaves out, and what besides memory of the GPU is short."""


class ManifestsAnswer(Struct, kw_only=True):
    """The servers of all files."""

    verdict: Verdict | None
    """The worst verdict; null where a server or a file has no answer and none is worse than
    tight."""
    summary: str
    """How many servers fit, and some that do not; of one server, its own summary."""
    files: int
    """Files that were read."""
    servers: list[ServerAnswer]
    """Every model server, in the order of the files."""
    others: list[FileRemark] = []
    """Containers that ask for GPUs and start no server that is known."""
    unreadable: dict[str, Remark] = {}
    """Files of which nothing was read, and why."""
