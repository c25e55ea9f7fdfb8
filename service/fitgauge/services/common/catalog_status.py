"""get_catalog: which catalog is in force, and whether the one that a company mounts could be
used."""

from datetime import UTC, datetime
from typing import Annotated, Literal

from msgspec import UNSET, Struct

from fitgauge.catalog.accuracy import AccuracyFigure
from fitgauge.catalog.catalog import Catalog
from fitgauge.catalog.overlay_reload import OverlayReload
from fitgauge.field_docs import doc
from fitgauge.services.common.answer_facts import AnswerAsOf
from fitgauge.services.common.problem_schemas import Health

Standing = Literal["bundled", "own", "refused"]
ConditionCode = Literal["catalog-refused", "hub-away", "hub-offline", "shared-state-away"]


class CatalogRefusal(Struct, kw_only=True):
    """Why the files that are mounted now are not in force."""

    at: Annotated[str, doc("When the files were read (RFC 3339).")]
    detail: Annotated[str, doc("The file, row and field.")]
    hint: Annotated[str, doc("What to change.")]


class OwnCatalog(Struct, kw_only=True):
    """A company's own catalog, as it is in force."""

    files: Annotated[list[str], doc("Names of the files.")]
    sha256: Annotated[str, doc("Hash of the files: equal in replicas with the same files.")]
    loaded_at: Annotated[str, doc("RFC 3339.")]
    refused: Annotated[CatalogRefusal | None, doc("Null if the mounted files are in force.")]


class CatalogState(Struct, kw_only=True):
    """What may be asked about and chosen from."""

    standing: Annotated[
        Standing,
        doc("refused: the mounted files are invalid, and the previous catalog stays in force."),
    ]
    accelerators: Annotated[int, doc("Accelerators in all.")]
    names: Annotated[int, doc("Names the overlay defines.")]
    quotas: Annotated[dict[str, int], doc("Maximum usable GPUs by accelerator id.")]
    instances: Annotated[int, doc("Instance types in all.")]
    own: Annotated[OwnCatalog | None, doc("The mounted catalog; null without one.")]
    as_of: AnswerAsOf = UNSET
    """How old the facts of the answer are."""


class Condition(Struct):
    """Something that makes answers worse, and no reason to send none here."""

    code: Annotated[ConditionCode, doc("What it is.")]
    detail: Annotated[str, doc("In words.")]


class Readiness(Health, kw_only=True):
    """Whether it can answer, from which catalog, and what it lacks."""

    catalog: Annotated[Standing, doc("Which catalog is in force.")]
    reasons: Annotated[
        list[Condition], doc("Why answers are worse than they could be; empty where nothing lacks.")
    ]


def catalog_state(catalog: Catalog, mounted: OverlayReload | None) -> CatalogState:
    """Return the state of the catalog in force, which is that of `mounted` where there is one."""
    return CatalogState(
        standing=standing(mounted),
        accelerators=len(catalog.all()),
        names=len(catalog.names),
        quotas=dict(catalog.quotas),
        instances=len(catalog.offers.all()),
        own=_own(mounted) if mounted else None,
    )


def standing(mounted: OverlayReload | None) -> Standing:
    """Return whose catalog is in force, and whether a newer one was refused."""
    if mounted is None:
        return "bundled"
    return "refused" if mounted.refused else "own"


def _own(mounted: OverlayReload) -> OwnCatalog:
    loaded, refused = mounted.current, mounted.refused
    return OwnCatalog(
        files=list(loaded.files),
        sha256=loaded.digest,
        loaded_at=_written(loaded.at),
        refused=(
            CatalogRefusal(
                at=_written(refused.at), detail=refused.error.detail, hint=refused.error.hint
            )
            if refused
            else None
        ),
    )


def _written(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


class AccuracyList(Struct, kw_only=True):
    """How far estimates are off, against measured runs."""

    items: Annotated[list[AccuracyFigure], doc("One row a figure and set of runs.")]
