"""`fitgauge check -f`: manifests and folders of them, read here, answered by the services."""

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

import click

from fitgauge import terminal
from fitgauge.catalog.engines import load_engines
from fitgauge.console import echo_json
from fitgauge.local_services import answered
from fitgauge.services import Services
from fitgauge.services.common.fit_schemas import FitAnswer
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.manifests.markdown import markdown
from fitgauge.services.manifests.sarif import sarif
from fitgauge.services.manifests.schemas import ManifestsAnswer
from fitgauge.services.manifests.service import ManifestChecker, Source
from fitgauge.services.manifests.yaml_text import LONGEST

EXIT_CODES = {"fits": 0, "tight": 3, "does_not_fit": 1, "unsupported": 4}
"""Exit codes by verdict; 2: no answer."""

_NO_ANSWER = 2
_SUFFIXES = frozenset({".yaml", ".yml"})
_STANDARD_INPUT = "-"
_OPTIONS = (
    click.option(
        "-f",
        "--file",
        "files",
        multiple=True,
        metavar="PATH",
        help="A manifest (Kubernetes, Helm output or values, Compose, Ray Serve), a folder of them,"
        " or - for standard input. May be repeated.",
    ),
    click.option("--model", "file_model", help="With -f: the model of servers that name none."),
    click.option("--gpu", "file_gpu", help="With -f: the GPU where a manifest names none."),
    click.option("--sarif", "as_sarif", is_flag=True, help="With -f: as SARIF 2.1.0."),
    click.option("--markdown", "as_markdown", is_flag=True, help="With -f: as a review comment."),
)


def manifest_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of manifests to `check`, and answer where they are used."""

    @wraps(command)
    def with_manifests(
        *,
        files: tuple[str, ...],
        file_model: str | None,
        file_gpu: str | None,
        as_sarif: bool,
        as_markdown: bool,
        **fields: Any,  # noqa: ANN401 - one for every field of the contract
    ) -> None:
        if files:
            overrides = _set(fields) | {"model": file_model, "gpu": file_gpu}
            answer = _checked(files, overrides)
            _show(answer, fields["as_json"], as_sarif, as_markdown)
            sys.exit(_exit_code(answer))
        if file_model or file_gpu or as_sarif or as_markdown:
            raise click.UsageError("--model, --gpu, --sarif and --markdown need -f PATH.")
        if fields["model"] is None:
            context = click.get_current_context()
            raise click.MissingParameter(ctx=context, param=context.command.params[0])
        command(**fields)

    for option in reversed(_OPTIONS):
        with_manifests = option(with_manifests)
    return with_manifests


def manifest_checker(services: Services) -> ManifestChecker:
    """Return what asks these services about manifests."""

    async def ask(request: FitRequest) -> FitAnswer:
        return (await services.check_fit(request))[1]

    return ManifestChecker(ask, services.get_model, services.catalog, load_engines())


def _set(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of the contract that are set. Raises click.UsageError where model or GPU
    are arguments."""
    if fields["model"] is not None:
        raise click.UsageError("With -f, name the model with --model and the GPU with --gpu.")
    others = ("model", "gpu", "machine", "as_json")
    return {
        name: value for name, value in fields.items() if value is not None and name not in others
    }


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
        terminal.show_manifests(answer)


def _exit_code(answer: ManifestsAnswer) -> int:
    """Return the exit code of the worst verdict; that of no answer where there is no server."""
    return EXIT_CODES[answer.verdict] if answer.verdict is not None else _NO_ANSWER
