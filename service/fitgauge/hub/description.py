"""The Hub's description of a repository (model_info), and what its list of files says about it."""

from typing import Annotated

import msgspec

from fitgauge.errors import MalformedModelError, ModelWithoutWeightsError
from fitgauge.hub.json_text import decoded, refuse_too_many_values

MAX_ELEMENTS = 2**53


class Sibling(msgspec.Struct, frozen=True):
    """One file of the repository."""

    rfilename: str
    """Its path in the repository."""


class Safetensors(msgspec.Struct, frozen=True):
    """What the Hub counted in safetensors files."""

    parameters: Annotated[dict[str, int], msgspec.Meta(max_length=64)] = {}
    """Numbers by dtype as the files' headers name it."""


class GgufSummary(msgspec.Struct, frozen=True):
    """What the Hub read from a GGUF file."""

    total: int = 0
    """Parameters in all."""


class Description(msgspec.Struct, frozen=True):
    """The fields that are used of the Hub's answer; the others are skipped."""

    id: Annotated[str, msgspec.Meta(pattern=r"^[\w.-]+(/[\w.-]+)?$", max_length=200)] = ""
    """The repository, as owner/name."""
    sha: Annotated[str, msgspec.Meta(pattern=r"^[\w.-]+$", max_length=64)] | None = None
    """Its commit."""
    siblings: list[Sibling] = []
    """Its files."""
    safetensors: Safetensors | None = None
    """What the Hub counted in its safetensors files."""
    gguf: GgufSummary | None = None
    """What the Hub read from its GGUF files."""

    @property
    def files(self) -> list[str]:
        """All file names."""
        return [sibling.rfilename for sibling in self.siblings]


class TreeEntry(msgspec.Struct, frozen=True):
    """One line of a folder's listing."""

    path: str
    """Path in the repository."""
    type: str = "file"
    """`file` or `directory`."""
    size: int = 0
    """Size of the file [bytes]."""


_DESCRIPTION = msgspec.json.Decoder(Description)
_TREE = msgspec.json.Decoder(list[TreeEntry])


def read_description(body: bytes, repo_id: str) -> Description:
    """Return the description. Raises HubUnreachableError where the answer is no JSON (a portal
    speaks), MalformedModelError where it says nonsense."""
    description = decoded(_DESCRIPTION, body, f"The Hub's description of {repo_id}")
    counts = description.safetensors.parameters.values() if description.safetensors else ()
    if any(not 0 <= count <= MAX_ELEMENTS for count in counts):
        raise MalformedModelError(
            f"The Hub reports an impossible number of parameters for {repo_id}."
        )
    return description


def read_tree(body: bytes, repo_id: str) -> dict[str, int]:
    """Return sizes [bytes] of the files of a folder, by path. Raises MalformedModelError where
    the listing cannot be read."""
    refuse_too_many_values(body, f"The Hub's list of the files of {repo_id}")
    try:
        return {entry.path: entry.size for entry in _TREE.decode(body) if entry.type == "file"}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedModelError(
            f"The Hub's list of the files of {repo_id} cannot be read: {str(error)[:120]}"
        ) from None


def weight_files(files: list[str]) -> list[str]:
    """Return the files an engine could load as a whole model; adapters and other files of a trainer
    are none."""
    names = [(file, file.rpartition("/")[2]) for file in files]
    return [
        file
        for file, name in names
        if name.endswith((".safetensors", ".bin", ".pt", ".pth", ".gguf", ".npz"))
        and not name.startswith(
            (
                "adapter_",
                "mmproj",
                "imatrix",
                "training_args",
                "optimizer",
                "scheduler",
                "rng_state",
                "tokenizer",
            )
        )
    ]


def refuse_without_weights(repo_id: str, files: list[str]) -> None:
    """Raise ModelWithoutWeightsError, saying what the repository is instead, where it holds
    nothing a model could be sized by."""
    if not [file for file in files if file not in (".gitattributes", "README.md")]:
        raise ModelWithoutWeightsError(
            f"{repo_id} is empty.", hint="Check that its files were uploaded to the Hub."
        )
    if "model_index.json" in files and "config.json" not in files:
        raise ModelWithoutWeightsError(
            f"{repo_id} is a diffusion pipeline, not a language model.",
            hint="Send a transformer model.",
        )
    if weight_files(files):
        return
    if "adapter_config.json" in files:
        raise ModelWithoutWeightsError(
            f"{repo_id} is an adapter.",
            hint="Send its base model (base_model_name_or_path in its adapter_config.json).",
        )
    if "config.json" not in files:
        raise no_weights(repo_id)


def no_weights(repo_id: str) -> ModelWithoutWeightsError:
    """Return the refusal of a repository without weights."""
    return ModelWithoutWeightsError(
        f"{repo_id} holds no weights.",
        hint="Send the repository that holds the model's safetensors or GGUF files.",
    )
