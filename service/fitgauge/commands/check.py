"""`fitgauge check`: will a model fit when it is served?"""

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from fitgauge.commands.answers import EXIT_CODES, as_json_option, show
from fitgauge.commands.local_services import answered
from fitgauge.commands.options import as_request, machine_option, question_options
from fitgauge.services.common.schemas import FitRequest
from fitgauge.terminal.answers import show_fit

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
            from fitgauge.commands.manifests import check_manifests  # YAML and its readers

            if fields["model"] is not None:
                raise click.UsageError(
                    "With -f, name the model with --model and the GPU with --gpu."
                )
            fields |= {"model": file_model, "gpu": file_gpu}
            check_manifests(files, fields, as_sarif=as_sarif, as_markdown=as_markdown)
        if file_model or file_gpu or as_sarif or as_markdown:
            raise click.UsageError("--model, --gpu, --sarif and --markdown need -f PATH.")
        if fields["model"] is None:
            context = click.get_current_context()
            raise click.MissingParameter(ctx=context, param=context.command.params[0])
        command(**fields)

    for option in reversed(_OPTIONS):
        with_manifests = option(with_manifests)
    return with_manifests


@click.command()
@click.argument("model", required=False)
@click.argument("gpu", required=False)
@question_options(FitRequest)
@machine_option
@as_json_option
@manifest_options
def check(model: str, gpu: str | None, machine: bool, as_json: bool, **options: Any) -> None:  # noqa: ANN401 - one for every field of the contract
    """Will MODEL fit on GPU when it is served? Without GPU: on this machine; where that has none,
    what MODEL needs, and the smallest GPUs that hold it. With -f: do the servers in manifests fit?

    Exit code 0 if it fits, 3 if it is tight, 1 if not, 4 where it is unsupported, 2 where the
    question cannot be answered; of several servers the worst: 1, 4, 2, 3, 0.
    """
    fields = {"model": model, "gpu": gpu or None, "detail": "full", **options}
    if machine and not gpu:
        from fitgauge.commands.this_machine import ask_of_this_machine  # looks for drivers

        ask_of_this_machine(fields, serves=True, as_json=as_json)
    request = as_request(fields, FitRequest)
    _, answer = answered(lambda questions: questions.check_fit(request), model)
    show(answer, show_fit, as_json)
    sys.exit(EXIT_CODES[answer.verdict] if answer.verdict else 0)
