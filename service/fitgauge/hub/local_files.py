"""Checkpoints on this machine: a folder or a GGUF file, read as a repository of the Hub is.

Only commands read them. The service never does: a path of its caller is a name like any other."""

import struct
from collections import Counter
from math import prod
from pathlib import Path
from typing import Any

import msgspec
from huggingface_hub.constants import SAFETENSORS_MAX_HEADER_LENGTH

from fitgauge.engine.model.model import Model
from fitgauge.errors import MalformedModelError, ModelWithoutWeightsError, UnknownModelError
from fitgauge.hub import gguf_config, gguf_files
from fitgauge.hub.description import refuse_without_weights, weight_files
from fitgauge.hub.fetch import MAX_CONFIG
from fitgauge.hub.gguf import MAX_HEADER, count_elements, read_metadata
from fitgauge.hub.metadata import GgufModel, RepoMetadata, model_of

_MOST_FILES = 4096
_MOST_DIMENSIONS = 8
_LENGTH = struct.Struct("<Q")


class _Tensor(msgspec.Struct, frozen=True):
    """A tensor in the header of a safetensors file."""

    dtype: str
    """As safetensors names it."""
    shape: list[int]
    """Its dimensions."""


_HINT = "Send a folder with config.json and safetensors files, a GGUF file or a Hub ID."
_HEADER = msgspec.json.Decoder(dict[str, Any])


def is_path(text: str) -> bool:
    """Return whether a model's name is a path of this machine: it begins as one, or is a GGUF file
    that is there. `org/name` is a Hub ID whatever lies in this folder."""
    begins = text.startswith(("./", "../", "/", "~/", ".\\")) or text in (".", "..")
    return begins or (text.lower().endswith(".gguf") and Path(text).is_file())


def read_local(text: str) -> Model:
    """Return the Model in a folder or a GGUF file. Raises UnknownModelError where nothing is
    there, ModelWithoutWeightsError and MalformedModelError as the Hub's readers do."""
    path = Path(text).expanduser()
    try:
        if path.is_file():
            return _marked(_gguf_file(text, path))
        if path.is_dir():
            return _marked(_folder(text, path))
    except OSError as error:
        raise MalformedModelError(f"{text} cannot be read: {error.strerror}.") from None
    raise UnknownModelError(f"There is no file or folder {text}.", hint=_HINT, field="model")


def _marked(facts: RepoMetadata) -> Model:
    """Return the Model, whose config is no answer of the Hub."""
    return msgspec.structs.replace(model_of(facts), source="config")


def _folder(text: str, folder: Path) -> RepoMetadata:
    names = sorted(entry.name for entry in folder.iterdir() if entry.is_file())[:_MOST_FILES]
    if not names:
        raise ModelWithoutWeightsError(f"{text} holds no file.", hint=_HINT, field="model")
    refuse_without_weights(text, names)
    weights = weight_files(names)
    if weights and all(name.endswith(".gguf") for name in weights):
        chosen = gguf_files.choose(gguf_files.models_in(names), None, text)
        named = f"{text.rstrip('/')}/{chosen.files[0]}"
        return _gguf(named, [folder / name for name in chosen.files], chosen.label)
    elements: Counter[str] = Counter()
    for name in weights:
        if name.endswith(".safetensors"):
            elements += safetensors_elements(folder / name)
    return _metadata(
        text,
        elements=dict(elements),
        config=_beginning(folder / "config.json", MAX_CONFIG) if "config.json" in names else None,
        quantization=(
            _beginning(folder / "hf_quant_config.json", MAX_CONFIG)
            if "hf_quant_config.json" in names
            else None
        ),
        weightless=not weights,
    )


def _gguf_file(text: str, path: Path) -> RepoMetadata:
    siblings = [entry.name for entry in path.parent.iterdir()][:_MOST_FILES]
    models = gguf_files.models_in(dict.fromkeys([path.name, *siblings]))
    if not models or not path.name.lower().endswith(".gguf"):
        raise MalformedModelError(
            f"{text} is not a GGUF file by its name.",
            hint="Send a GGUF file, or the folder that holds config.json and safetensors files.",
        )
    chosen = gguf_files.choose(models, path.name, text)
    return _gguf(text, [path.parent / name for name in chosen.files], chosen.label)


def _gguf(text: str, files: list[Path], label: str) -> RepoMetadata:
    headers = [_beginning(file, MAX_HEADER) for file in files]
    return _metadata(
        text,
        gguf=GgufModel(
            name=files[0].name,
            label=label,
            file_bytes=sum(file.stat().st_size for file in files),
            parameters=sum(count_elements(header) for header in headers),
            config=gguf_config.config_of(read_metadata(headers[0])),
        ),
    )


def _metadata(text: str, **facts: Any) -> RepoMetadata:  # noqa: ANN401 - fields of RepoMetadata
    """Return the facts of a checkpoint that has no commit and no date."""
    return RepoMetadata(
        **{
            "repo_id": text,
            "sha": None,
            "fetched_at": 0.0,
            "elements": {},
            "config": None,
            "config_etag": None,
        }
        | facts
    )


def safetensors_elements(path: Path) -> Counter[str]:
    """Return the numbers that a safetensors file stores, by dtype. Raises MalformedModelError.

    Source: the format's README (huggingface/safetensors): length of the header u64, little-endian,
    then a JSON object of names with dtype and shape."""
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(_LENGTH.size)
        length = _LENGTH.unpack(start)[0] if len(start) == _LENGTH.size else 0
        if not 0 < length <= min(SAFETENSORS_MAX_HEADER_LENGTH, size - _LENGTH.size):
            raise MalformedModelError(f"{path.name} is not a safetensors file.")
        header = file.read(length)
    try:
        tensors = {
            name: msgspec.convert(tensor, _Tensor)
            for name, tensor in _HEADER.decode(header).items()
            if name != "__metadata__"
        }
    except (msgspec.ValidationError, msgspec.DecodeError, RecursionError):
        raise MalformedModelError(f"The header of {path.name} cannot be read.") from None
    elements: Counter[str] = Counter()
    for tensor in tensors.values():
        if len(tensor.shape) > _MOST_DIMENSIONS or any(side < 0 for side in tensor.shape):
            raise MalformedModelError(f"The header of {path.name} has an impossible shape.")
        elements[tensor.dtype] += prod(tensor.shape)
    if sum(elements.values()) > 8 * size:
        raise MalformedModelError(f"{path.name} is shorter than its header says.")
    return elements


def _beginning(path: Path, most: int) -> bytes:
    """Return at most this many bytes of a file. Raises MalformedModelError where a config is
    longer."""
    with path.open("rb") as file:
        body = file.read(most)
        if path.suffix == ".json" and file.read(1):
            raise MalformedModelError(f"{path.name} is larger than {most} bytes.")
    return body
