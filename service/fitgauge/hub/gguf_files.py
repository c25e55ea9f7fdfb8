"""Which GGUF files of a repository somebody means: by the label of a quantization, by name, or
the usual choice."""

import re
from collections.abc import Iterable

import msgspec

from fitgauge.errors import MalformedModelError, UnknownModelError

USUAL = "Q4_K_M"
"""What llama.cpp takes where no label is given (common/arg.cpp, --hf-repo), else the first file."""

_SHARD = re.compile(r"(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.IGNORECASE)
_LABEL = re.compile(
    r"(?<![A-Za-z0-9])((?:UD-)?(?:I?Q\d\w*|TQ\d_\d|BF16|F16|F32|MXFP4\w*|NVFP4))(?=[.-]|$)",
    re.IGNORECASE,
)
_NO_MODEL = ("mmproj", "imatrix")


class GgufFiles(msgspec.Struct, frozen=True):
    """One model of a repository: its file, or its shards in order."""

    name: str
    """Without the shard's number and `.gguf`."""
    files: tuple[str, ...]
    """Paths of the shards."""

    @property
    def folder(self) -> str:
        """Where the files lie, empty for the top."""
        return self.name.rpartition("/")[0]

    @property
    def label(self) -> str:
        """The quantization as the name says it, the last part of the name where it says none."""
        tail = self.name.rpartition("/")[2]
        matches = _LABEL.findall(tail)
        return matches[-1].upper() if matches else tail


def models_in(names: Iterable[str]) -> list[GgufFiles]:
    """Return the models among a repository's files, by name. Projectors of vision models and
    importance matrices are none."""
    groups: dict[str, list[str]] = {}
    for name in sorted(names):
        tail = name.rpartition("/")[2].lower()
        if not tail.endswith(".gguf") or tail.startswith(_NO_MODEL):
            continue
        shard = _SHARD.fullmatch(name)
        groups.setdefault(shard["stem"] if shard else name[: -len(".gguf")], []).append(name)
    return [GgufFiles(stem, tuple(files)) for stem, files in groups.items()]


def choose(models: list[GgufFiles], wanted: str | None, repo_id: str) -> GgufFiles:
    """Return the model that `wanted` names, by file name or label in any case; USUAL or the first
    where None. `models` is not empty.

    Raises UnknownModelError where there is none, MalformedModelError where shards are missing.
    """
    matches = _wanted(models, wanted) if wanted else (_wanted(models, USUAL) or models[:1])
    if not matches:
        labels = sorted({model.label for model in models})
        raise UnknownModelError(
            f"{repo_id} has no GGUF file {wanted}.",
            hint=f"Use one of {', '.join(labels[:12])}.",
            matches=tuple(f"{repo_id}:{label}" for label in labels),
        )
    # of several that bear the label the plainest name: `model-Q4_K_M` before `model-UD-Q4_K_M`
    return _whole(min(matches, key=lambda model: (len(model.name), model.name)))


def _wanted(models: list[GgufFiles], wanted: str) -> list[GgufFiles]:
    text = wanted.lower()
    named = [
        model
        for model in models
        if text in {model.name.lower(), *(file.lower() for file in model.files)}
    ]
    base = [
        model
        for model in models
        if text in {file.rpartition("/")[2].lower() for file in model.files}
    ]
    label = re.compile(rf"(?<![a-z0-9_]){re.escape(text)}(?![a-z0-9_])")
    return named or base or [model for model in models if label.search(model.name.lower())]


def _whole(model: GgufFiles) -> GgufFiles:
    """Return the same, once all its shards are known to be there."""
    if shard := _SHARD.fullmatch(model.files[0]):
        count = int(shard["count"])
        if [
            int(part["number"]) for file in model.files if (part := _SHARD.fullmatch(file))
        ] != list(range(1, count + 1)):
            raise MalformedModelError(f"{model.name} has {len(model.files)} of {count} shards.")
    return model
