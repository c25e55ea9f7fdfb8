"""`fitgauge measure`: run an engine here, compare it with its estimate, keep a row of truth."""

import sys
from pathlib import Path
from typing import Any

import click
import msgspec

from fitgauge.catalog.snapshot import Snapshot
from fitgauge.commands.errors import or_exit
from fitgauge.commands.local_catalog import local_catalog
from fitgauge.commands.local_services import answered
from fitgauge.commands.measuring import (
    Device,
    cpu_option,
    device_of,
    keep,
    python_option,
    seconds_option,
    write_option,
)
from fitgauge.commands.options import as_request, question_options
from fitgauge.console import echo_error, echo_json
from fitgauge.logs.detect import detect
from fitgauge.measure import (
    NotInstalledError,
    on_cpu,
    probe_start,
    probed,
    run,
    start_of,
    without_gpu,
)
from fitgauge.redaction import redacted
from fitgauge.services.common.fit_schemas import FitAnswer
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.explain_log.schemas import LONGEST_LOG, ExplainLogRequest, LogAnswer
from fitgauge.services.facade import Services
from fitgauge.services.public_rows import public_case
from fitgauge.terminal.logs import show_ledger

_PROBED = "transformers"
"""The engine that is a library: it is measured by a script."""


@click.command()
@click.argument("model")
@click.argument("gpu", required=False)
@question_options(FitRequest)
@click.option("--command", help="The launch command, instead of the one of the estimate.")
@python_option
@cpu_option
@seconds_option
@click.option(
    "--keep-log",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the log to this file, without secrets.",
)
@write_option
@click.option("--json", "as_json", is_flag=True, help="The comparison and the row, as JSON.")
def measure(
    model: str,
    gpu: str | None,
    command: str | None,
    python: Path | None,
    cpu: bool,
    seconds: int,
    keep_log: Path | None,
    write: Path | None,
    as_json: bool,
    **options: Any,  # noqa: ANN401 - one for every field of the contract
) -> None:
    """Start MODEL in an engine that is installed here, read what it says of its memory, and put it
    next to the estimate. Then end it, and print the row of truth, which `make accuracy TRUTH=`
    and FITGAUGE_TRUTH take; at a terminal, ask whether to add it to truth.jsonl.

    Without GPU: this machine's. Exit code 0, 1 where the engine did not come up, 2 where nothing
    was measured.
    """
    device = device_of(gpu, cpu=cpu)
    fields = {"model": model, "detail": "full", "gpu": device.gpu} | options
    fields |= {name: value for name, value in device.fields.items() if fields.get(name) is None}
    request = as_request(fields, FitRequest)
    _, estimate = answered(lambda questions: questions.check_fit(request), model)
    text, answer = _measured(estimate, request, device, command, python, seconds)
    if keep_log is not None:
        keep_log.write_text(redacted(text), "utf-8")
    if answer is None:
        echo_error("Nothing in the log is a measurement. Its end:\n" + redacted(text)[-2_000:])
        sys.exit(2)
    row = public_case(answer, Snapshot(), or_exit(local_catalog))
    if device.is_cpu:
        answer = without_gpu(answer)
        row = msgspec.structs.replace(row, settings=row.settings | {"cpu": True})
    if as_json:
        echo_json({"comparison": answer, "row": row})
    else:
        show_ledger(answer)
        click.echo("\n" + msgspec.json.encode(row).decode())
    keep(row, write, asks=not as_json)
    sys.exit(0 if answer.outcome == "served" else 1)


def _measured(
    estimate: FitAnswer,
    request: FitRequest,
    device: Device,
    command: str | None,
    python: Path | None,
    seconds: int,
) -> tuple[str, LogAnswer | None]:
    """Return what the engine printed, and that next to the estimate; exit where it cannot be
    started."""
    taken = estimate.understood_as
    engine = str(taken.get("engine", ""))
    if command is None and estimate.launch is None:
        echo_error(f"{estimate.summary}\nStart it all the same by --command.")
        sys.exit(2)
    if command is None and estimate.launch and estimate.launch.placeholder:
        echo_error(
            f"{estimate.launch.command}\nReplace {estimate.launch.placeholder} and send it"
            " by --command."
        )
        sys.exit(2)
    context, concurrency = int(taken["context_length"]), int(taken.get("concurrency", 1))
    is_probed = engine == _PROBED and command is None
    try:
        if is_probed:
            start = probe_start(request.model, context, concurrency, python)
        else:
            command = command or (estimate.launch.command if estimate.launch else "")
            start = start_of(command, python)
        text = run(start, seconds)
    except (NotInstalledError, OSError) as error:
        echo_error(f"{error}")
        sys.exit(2)
    log = probed(text, context, concurrency) if is_probed else detect(text, command)
    if log is None:
        return text, None
    if device.is_cpu:
        log = on_cpu(log)
    question = ExplainLogRequest(
        log=text[:LONGEST_LOG],
        model=request.model,
        gpu=device.gpu,
        gpu_count=device.fields.get("gpu_count"),
        engine=engine,
        command=command,
    )

    async def explain(questions: Services) -> LogAnswer:
        return await questions.explain_run(log, question)

    return text, answered(explain, request.model)
