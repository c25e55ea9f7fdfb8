"""The catalog in force, and the health of the process."""

from litestar import Controller, get
from litestar.di import NamedDependency

from fitgauge import __version__
from fitgauge.api.conditions import Conditions
from fitgauge.api.documentation import errors
from fitgauge.api.query_parameters import strict_query
from fitgauge.catalog.accuracy import accuracy
from fitgauge.catalog.overlay_reload import OverlayReload
from fitgauge.services.common.catalog_status import (
    AccuracyList,
    CatalogState,
    Readiness,
    catalog_state,
    standing,
)
from fitgauge.services.common.problem_schemas import Health
from fitgauge.services.facade import Services


class CatalogController(Controller):
    """The catalog in force."""

    @get(
        "/v1/catalog",
        operation_id="get_catalog",
        summary="Which catalog is in force?",
        description=(
            "How many accelerators, names, quotas and instance types are known, and of a catalog"
            " that a company mounts over the bundled one: its files, when they were read, and why"
            " the newest were refused, if they were."
        ),
        responses=errors(422),
        guards=[strict_query],
    )
    async def get_catalog(
        self, services: NamedDependency[Services], overlay: NamedDependency[OverlayReload | None]
    ) -> CatalogState:
        """Describe the catalog in force."""
        state = catalog_state(services.catalog, overlay)
        state.as_of = services.as_of()
        return state

    @get(
        "/v1/accuracy",
        operation_id="get_accuracy",
        summary="How far are estimates off?",
        description=(
            "Errors of the estimates against measured runs, by what is compared and by set of"
            " runs; nothing was fitted to the set called check."
        ),
        responses=errors(422),
        guards=[strict_query],
    )
    async def get_accuracy(self) -> AccuracyList:
        """Return the headline of the accuracy page."""
        return AccuracyList(items=list(accuracy()))


class HealthController(Controller):
    """Probes of Kubernetes."""

    path = "/health"
    opt = {"open": True}  # noqa: RUF012 - Litestar's

    @get(
        "/live",
        operation_id="health_live",
        summary="Does the process live?",
        description="Answers as long as the process runs.",
        responses=errors(is_open=True),
    )
    async def live(self) -> Health:
        """Answer as long as the process runs."""
        return Health(status="ok", version=__version__)

    @get(
        "/ready",
        operation_id="health_ready",
        summary="Can it answer?",
        description=(
            "Answers when the catalog is loaded; the Hub is not asked, because the service answers"
            " without it too. Says whether an own catalog is in force, or refused in its newest"
            " form, and in `reasons` what answers lack at the moment."
        ),
        responses=errors(is_open=True),
    )
    async def ready(
        self,
        overlay: NamedDependency[OverlayReload | None],
        conditions: NamedDependency[Conditions],
    ) -> Readiness:
        """Answer when the catalog is loaded; do not ask the Hub."""
        return Readiness(
            status="ok", version=__version__, catalog=standing(overlay), reasons=conditions()
        )
