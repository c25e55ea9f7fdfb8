"""From what people type to one repository, revision and file of the Hub."""

import re
from urllib.parse import unquote, urlsplit

import msgspec
from huggingface_hub import constants

from fitgauge.errors import InvalidRequestError
from fitgauge.hub.request_context import token_id

MAX_LENGTH = 200
HINT = "Send a Hub ID such as org/name, org/name@revision or org/name-GGUF:Q4_K_M."

_PARTS = re.compile(r"(?P<repo>[^@:]+)(?:@(?P<revision>[^@:]+))?(?::(?P<file>[^@:]+))?")
_REPO_ID = re.compile(r"(\b[\w\-.]{1,96}\b/)?\b[\w\-.]{1,96}\b", re.ASCII)
_FORBIDDEN = ("--", "..")
"""As `validate_repo_id` of huggingface_hub has it, whose import takes as long as an answer."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_OTHER_KINDS = ("datasets", "spaces", "kernels", "buckets", "collections", "papers", "docs", "api")
_VIEWS = ("tree", "blob", "resolve", "raw", "commit")


class Reference(msgspec.Struct, frozen=True):
    """One model on the Hub."""

    repo_id: str
    """The repository, as owner/name."""
    revision: str | None = None
    """Branch, tag or commit; None: the default branch."""
    file: str | None = None
    """A quantization's label or a file's name, for GGUF."""
    token_id: str = ""
    """The caller's own token that it is read with (`request_context.token_id`); empty: the
    service's, so that every caller may see it."""

    def __str__(self) -> str:
        revision = f"@{self.revision}" if self.revision else ""
        file = f":{self.file}" if self.file else ""
        return f"{self.repo_id}{revision}{file}"

    @property
    def pinned(self) -> bool:
        """Whether the revision is a commit, which never changes."""
        return self.revision is not None and bool(_COMMIT.fullmatch(self.revision))


def of_caller(reference: Reference) -> Reference:
    """Return the reference as the caller's own token reads it; itself without one."""
    return msgspec.structs.replace(reference, token_id=token_id())


def parse_reference(text: str) -> Reference:
    """Return the Reference that is meant by `text`: a Hub ID with an optional @revision and :file,
    or the address of a page of the Hub.

    Names without an owner (gpt2) are IDs too. Raises InvalidRequestError for anything that
    cannot be one."""
    if len(text) > MAX_LENGTH:
        raise InvalidRequestError(
            f"The model's name is too long: {len(text)} characters, the limit is {MAX_LENGTH}.",
            hint=HINT,
            field="model",
            code="invalid-value",
        )
    address = _path_of_address(text.strip())
    return _from_address(address) if address is not None else _from_id(text.strip())


def _path_of_address(text: str) -> str | None:
    """Return the path of a Hub page's address, None where the text is no address."""
    hosts = {*constants.HF_URL_HOSTS, "www.huggingface.co"}
    bare = text.split("/", 1)[0].lower()
    if "://" not in text and bare not in hosts:
        return None
    try:
        parts = urlsplit(text if "://" in text else f"https://{text}")
        host = parts.hostname
    except ValueError:
        raise _refuse(text) from None
    if parts.scheme == "hf":
        return unquote(text.split("://", 1)[1])
    if parts.scheme not in ("http", "https") or host not in hosts:
        raise InvalidRequestError(
            f"{text[:80]!r} is not a Hugging Face Hub URL.",
            hint=HINT,
            field="model",
            code="invalid-value",
        )
    return unquote(parts.path)


def _from_address(path: str) -> Reference:
    """org/name, org/name/tree/REVISION, org/name/blob/REVISION/FILE; without a view it may end
    like an ID (hf.co/org/name:Q4_K_M)."""
    segments = [segment for segment in path.split("/") if segment]
    if segments and segments[0] in _OTHER_KINDS:
        raise InvalidRequestError(
            f"This URL is for {segments[0]}, not a model.",
            hint=HINT,
            field="model",
            code="invalid-value",
        )
    if segments and segments[0] == "models":
        segments = segments[1:]
    view = next(
        (number for number, segment in enumerate(segments[:3]) if number and segment in _VIEWS),
        None,
    )
    if view is None:
        return _from_id("/".join(segments[:2]))
    rest = segments[view + 1 :]
    length = len(rest) if segments[view] in ("tree", "commit") else 3 if rest[:1] == ["refs"] else 1
    revision, file = "/".join(rest[:length]), "/".join(rest[length:])
    return _checked(
        "/".join(segments[:view]), revision or None, file if file.endswith(".gguf") else None
    )


def _from_id(text: str) -> Reference:
    match = _PARTS.fullmatch(text)
    if not match:
        raise _refuse(text)
    return _checked(match["repo"], match["revision"], match["file"])


def _checked(repo_id: str, revision: str | None, file: str | None) -> Reference:
    for part in (revision, file):
        if part is not None and (
            not _NAME.fullmatch(part) or ".." in part or "//" in part or part.endswith("/")
        ):
            raise _refuse(part)
    forbidden = any(part in repo_id for part in _FORBIDDEN) or repo_id.endswith(".git")
    if forbidden or not _REPO_ID.fullmatch(repo_id):
        raise _refuse(repo_id)
    return Reference(repo_id, revision, file)


def _refuse(text: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"{text[:80]!r} is not a valid Hub ID.", hint=HINT, field="model", code="invalid-value"
    )
