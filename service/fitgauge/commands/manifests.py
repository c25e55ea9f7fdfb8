"""`fitgauge check -f`: manifests and folders of them, read here, answered by the services."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from fitgauge.catalog.engines import load_engines
from fitgauge.commands.answers import EXIT_CODES
from fitgauge.commands.local_services import answered
from fitgauge.console import echo_json
from fitgauge.services.common.fit_schemas import FitAnswer
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.facade import Services
from fitgauge.services.manifests.markdown import markdown
from fitgauge.services.manifests.sarif import sarif
from fitgauge.services.manifests.schemas import ManifestsAnswer
from fitgauge.services.manifests.service import ManifestChecker, Source
from fitgauge.services.manifests.yaml_text import LONGEST
from fitgauge.terminal.manifests import show_manifests

_NO_ANSWER = 2
_SUFFIXES = frozenset({".json", ".yaml", ".yml"})
_STANDARD_INPUT = "-"
_OWN_FIELDS = ("machine", "as_json")
"""Options of `check` that are no fields of the contract."""


def manifest_checker(services: Services) -> ManifestChecker:
    """Return what asks these services about manifests."""

    async def ask(request: FitRequest) -> FitAnswer:
        # A cluster has the GPUs that it has: other ones are a question of their own.
        return (await services.check_fit(request, elsewhere=False))[1]

    return ManifestChecker(ask, services.get_model, services.catalog, load_engines())


def check_manifests(
    paths: Sequence[str], fields: dict[str, Any], *, as_sarif: bool, as_markdown: bool
) -> None:
    """Answer about the manifests at these paths, and exit. fields: of `check`, with the model and
    the GPU of servers that name none."""
    overrides = {
        name: value
        for name, value in fields.items()
        if name in ("model", "gpu") or (value is not None and name not in _OWN_FIELDS)
    }
    answer = _checked(paths, overrides)
    _show(answer, fields["as_json"], as_sarif, as_markdown)
    sys.exit(_exit_code(answer))


def _checked(paths: Sequence[str], overrides: dict[str, Any]) -> ManifestsAnswer:
    """Return the answer to the manifests at these paths."""
    sources = list(_sources(paths))
    answer: ManifestsAnswer = answered(
        lambda services: manifest_checker(services).check(sources, overrides)
    )
    return answer


def _sources(paths: Sequence[str]) -> Iterator[Source]:
    """Yield the files at these paths, those of folders in the order of their names."""
    for written in paths:
        if written == _STANDARD_INPUT:
            yield Source("stdin", sys.stdin.read(LONGEST + 1))
            continue
        path = Path(written)
        if not path.exists():
            raise click.BadParameter(f"{written!r} does not exist.", param_hint="'-f'")
        for file in _files(path) if path.is_dir() else (path,):
            with file.open(encoding="utf-8", errors="replace") as text:
                yield Source(file.as_posix(), text.read(LONGEST + 1))


def _files(folder: Path) -> Iterator[Path]:
    """Yield the YAML files of a folder, without those of hidden folders."""
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if path.suffix in _SUFFIXES and not hidden and path.is_file():
            yield path


def _show(answer: ManifestsAnswer, as_json: bool, as_sarif: bool, as_markdown: bool) -> None:
    if as_sarif:
        echo_json(sarif(answer))
    elif as_markdown:
        click.echo(markdown(answer), nl=False)
    elif as_json:
        echo_json(answer)
    else:
        show_manifests(answer)


def _exit_code(answer: ManifestsAnswer) -> int:
    """Return the exit code of the worst verdict; that of no answer where there is no server."""
    return EXIT_CODES[answer.verdict] if answer.verdict is not None else _NO_ANSWER
