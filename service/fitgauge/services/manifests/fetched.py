"""Models that a pod downloads before its server starts: by init containers, or in the script that
starts the server.

Source: huggingface_hub's command line (`hf download REPO [FILES] --local-dir FOLDER`, formerly
huggingface-cli) and its `snapshot_download`; the Hub's addresses
(/OWNER/NAME/resolve/REVISION/FILE); modelscope's `modelscope download --model`."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import PurePosixPath
from typing import NamedTuple

from fitgauge.engine.serving.start_log.names import hub_id
from fitgauge.services.manifests.command_line import commands
from fitgauge.services.manifests.containers import Container
from fitgauge.services.manifests.workloads import container_of
from fitgauge.services.manifests.yaml_text import Text, blocks_at, text_at, text_of

_PROGRAMS = frozenset({"hf", "huggingface-cli", "modelscope"})
_FOLDER_FLAGS = ("--local-dir", "--local_dir", "-o", "--output", "-O", "--output-document")
_MODEL_FLAGS = ("--model", "--repo-id")
_ADDRESS = re.compile(
    r"(?:huggingface\.co|hf-mirror\.com)/(?P<id>[\w.-]{1,96}/[\w.-]{1,96})"
    r"(?:/resolve/[\w.-]{1,96}/(?P<file>[\w./-]{1,256}))?"
)
_CALL = re.compile(
    r"(?:repo_id\s{0,4}=\s{0,4}|(?:snapshot|hf_hub)_download\(\s{0,40})['\"](?P<id>[\w./-]{3,200})['\"]"
)
_CALL_FOLDER = re.compile(r"local_dir\s{0,4}=\s{0,4}['\"](?P<folder>[^'\"]{1,256})['\"]")


class Fetched(NamedTuple):
    """A model that a container downloads."""

    model: Text
    """Its Hub ID."""
    file: str | None
    """The one file of it; None for all."""
    folder: str | None
    """Where it goes; None for the cache of huggingface_hub."""
    container: Container
    """What downloads it."""

    def is_at(self, path: str) -> bool:
        """Return whether this path is of what was downloaded."""
        return self.folder is not None and PurePosixPath(path).is_relative_to(self.folder)


def fetched_model(container: Container, path: str) -> Fetched | None:
    """Return the model that lies at a path of a container: what goes there, else the one that its
    pod downloads at all; None where several do."""
    every = list(_fetched(container))
    there = [one for one in every if one.is_at(path)] or every
    return there[0] if len({one.model for one in there}) == 1 else None


def _fetched(container: Container) -> Iterator[Fetched]:
    pod = container.pod
    starters = [
        container_of(block, pod, text_at(block, "name") or "")
        for block in blocks_at(pod, "initContainers")
    ]
    for one in (*starters, container):
        for command in commands(one):
            yield from _of_command(command, one)


def _of_command(command: Sequence[Text], container: Container) -> Iterator[Fetched]:
    """Yield what one command downloads."""
    programs = [word.rsplit("/", 1)[-1] for word in command]
    folder = next(
        (
            value
            for flag, value in pairwise(command)
            if flag in _FOLDER_FLAGS and value.startswith("/")
        ),
        None,
    )
    for start, word in enumerate(programs[:-1]):
        if word in _PROGRAMS and command[start + 1] == "download":
            model = _model(command[start + 2 :])
            if model is not None:
                gguf = next((one for one in command if one.endswith(".gguf")), None)
                yield Fetched(model, gguf, folder, container)
            return
    for word in command:
        for match in _ADDRESS.finditer(word):
            yield Fetched(text_of(match["id"], word.line), match["file"], folder, container)
        for match in _CALL.finditer(word):
            if hub_id(match["id"]) is not None:
                inside = _CALL_FOLDER.search(word)
                where = inside["folder"] if inside else folder
                yield Fetched(text_of(match["id"], word.line), None, where, container)


def _model(words: Sequence[Text]) -> Text | None:
    """Return the model among the words after `download`: the first that is no flag's value, or
    that of its flag."""
    for flag, value in pairwise(words):
        if flag in _MODEL_FLAGS:
            return value
    after_flag = False
    for word in words:
        if not word.startswith("-") and not after_flag:
            return word if hub_id(word) == word else None
        after_flag = word.startswith("--") and "=" not in word
    return None
