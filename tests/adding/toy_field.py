"""Add the request field `toy_pages` from outside, in one class, and print what answers with it.

A process of its own, since the request and the workload take their fields from `EngineOptions` when
they are imported."""

import json
from typing import Annotated, Any

from msgspec import Meta

from fitgauge.engine.serving import options
from fitgauge.field_docs import doc


class WithToyPages(options.EngineOptions, frozen=True, kw_only=True):
    """The options, and one more."""

    toy_pages: Annotated[
        Annotated[int, Meta(ge=1, le=64)] | None, doc("toy: pages of 2 MiB that it holds back.")
    ] = None


options.EngineOptions = WithToyPages  # type: ignore[misc]

import msgspec  # noqa: E402
from click.testing import CliRunner  # noqa: E402

import toy_engine  # noqa: E402
from bundled_models import model_of  # noqa: E402
from fitgauge.api.openapi import document  # noqa: E402
from fitgauge.catalog.catalog import bundled  # noqa: E402
from fitgauge.cli import main  # noqa: E402
from fitgauge.engine.quantity import MIB, exact_term  # noqa: E402
from fitgauge.engine.serving import warmup  # noqa: E402
from fitgauge.engine.serving.estimate import Estimate  # noqa: E402
from fitgauge.engine.serving.registry import ENGINES  # noqa: E402
from fitgauge.services.common.schemas import FitRequest  # noqa: E402
from fitgauge.services.fit.service import FitService  # noqa: E402


def estimate(spec: Any, sharded: Any, workload: Any, accelerator: Any, profile: Any) -> Estimate:
    """Return the toy's estimate, with the pages held back."""
    loaded = warmup.loaded_stages(spec, sharded, workload, accelerator)
    if workload.toy_pages is not None:
        size = workload.toy_pages * 2 * MIB
        pages = exact_term("toy_pages", size, "computed", "toy_pages x 2 MiB", "the request")
        loaded = tuple((*terms, pages) for terms in loaded)
    memory = warmup.warmed_stages(spec, workload, profile, block=16)
    return warmup.warmed_estimate(accelerator, workload, loaded, memory)


ENGINES[toy_engine.TOY] = toy_engine.ROW._replace(
    estimate=estimate, options=frozenset({"toy_pages"})
)


def answer(**fields: Any) -> dict[str, Any]:
    """Return what check answers to a request with these fields, as JSON."""
    sent = {"model": toy_engine.MODEL, "gpu": "H100", **fields}
    request = msgspec.json.decode(json.dumps(sent), type=FitRequest)
    service = FitService(toy_engine.profiles())
    result = service.answer(request, model_of(toy_engine.MODEL), bundled().find("H100"))
    decoded: dict[str, Any] = json.loads(msgspec.json.encode(result))
    return decoded


def refused(**fields: Any) -> str | None:
    """Return why the contract refuses a request, None where it does not."""
    try:
        answer(**fields)
    except msgspec.ValidationError as error:
        return str(error)
    return None


print(
    json.dumps(
        {
            "with": answer(engine="toy", toy_pages=7),
            "without": answer(engine="toy"),
            "elsewhere": answer(engine="vllm", toy_pages=7),
            "out of bounds": refused(engine="toy", toy_pages=65),
            "property": document()["components"]["schemas"]["FitRequest"]["properties"].get(
                "toy_pages"
            ),
            "help": CliRunner().invoke(main, ["check", "--help"]).output,
        }
    )
)
