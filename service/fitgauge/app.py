"""Composition root: wire the settings, the Hub, the services and the API."""

import asyncio
import gc
import logging
import sys
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from functools import partial
from importlib import import_module
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from litestar import Litestar, MediaType, Response, get
from litestar.config.compression import CompressionConfig
from litestar.datastructures import State
from litestar.exceptions import HTTPException
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp, Receive, Scope, Send
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, generate_latest

from fitgauge import __version__
from fitgauge.api.access.access import Access, AccessOptions
from fitgauge.api.access.caller import CALLER, CARRIED
from fitgauge.api.access.limits import SharedCounts
from fitgauge.api.access_log import access_log
from fitgauge.api.admission import Admission
from fitgauge.api.answer_cache import AnswerCache
from fitgauge.api.application import Application
from fitgauge.api.conditional_gets import ConditionalGets
from fitgauge.api.conditions import conditions_of
from fitgauge.api.controllers import CONTROLLERS
from fitgauge.api.controllers.docs import DocsController
from fitgauge.api.controllers.page import PageController
from fitgauge.api.controllers.pictures import PICTURES
from fitgauge.api.controllers.tools import ToolsController
from fitgauge.api.dependencies import dependencies
from fitgauge.api.gateway import Gateway
from fitgauge.api.log_lines import configure
from fitgauge.api.manifests import mcp_tools
from fitgauge.api.mcp_endpoint import McpEndpoint
from fitgauge.api.metrics import (
    RequestMetrics,
    StateMetrics,
    add_process_metrics,
    add_shared_state_metrics,
    watch_hub,
)
from fitgauge.api.middleware import ObservabilityMiddleware
from fitgauge.api.openapi import EncodedDocument, weights
from fitgauge.api.problem_responses import (
    on_defect,
    on_fitgauge_error,
    on_http_error,
    on_request_error,
)
from fitgauge.api.problems import RequestError
from fitgauge.api.request_parsing import ApiRequest
from fitgauge.catalog.catalog import bundled
from fitgauge.catalog.overlay_reload import OverlayReload
from fitgauge.errors import FitgaugeError
from fitgauge.extras import create_shared_state, create_tracing
from fitgauge.garbage import collect_rarely
from fitgauge.hub import Hub
from fitgauge.mounted_catalog import create_mounted
from fitgauge.questions import create_hub, create_questions
from fitgauge.services.facade import Services
from fitgauge.settings import Settings

if TYPE_CHECKING:
    from fitgauge.shared_state import ValkeyState
    from fitgauge.tracing import Tracing

_BODY_BYTES = 16 * 2**20
"""Of request bodies in progress; reading a log takes several times its size."""

_GZIP_LEVEL = 5
"""Of answers: level 9, Litestar's default, takes three times as long for a tenth fewer
bytes."""


def create_app(settings: Settings, hub: Hub | None = None) -> ASGIApp:
    """Return the ASGI application. hub: replaces that of the settings. Raises InvalidCatalogError
    where the mounted catalog has a bad row, InvalidSettingsError where runs of one's own have."""
    configure(settings.log_level, settings.log_format)
    hub = hub or create_hub(settings)
    shared, tracing = create_shared_state(settings), create_tracing(settings)
    registry = CollectorRegistry()
    mounted = create_mounted(settings)
    services = create_questions(hub, mounted.current.catalog if mounted else bundled(), settings)
    services.build()
    answers = AnswerCache(services)
    watch_hub(hub, registry)

    access = create_access(settings, shared)
    mcp = McpEndpoint(lambda: serve_mcp(settings, app)) if settings.mcp else None
    app = Application(
        route_handlers=[
            *CONTROLLERS,
            ToolsController,
            PageController,
            DocsController,
            *PICTURES,
            *_documents(settings, registry),
            *([mcp.handler()] if mcp else []),
            *(access.routes if access else ()),
        ],
        middleware=[access.middleware] if access else (),
        guards=[access.guard] if access else (),
        request_class=ApiRequest,
        state=State({"answers": answers}),
        dependencies=dependencies(
            services, answers, mounted, settings.public_url, conditions_of(hub, mounted, shared)
        ),
        lifespan=[
            *([partial(_traced, tracing)] if tracing else []),
            *([partial(_state_shared, shared, hub, registry)] if shared else []),
            partial(_hub_running, hub, services),
            *([partial(_reloading, mounted, settings, services, registry)] if mounted else []),
            *([mcp.running] if mcp else []),
        ],
        exception_handlers={
            FitgaugeError: on_fitgauge_error,
            RequestError: on_request_error,
            HTTPException: on_http_error,
            Exception: on_defect,
            **(access.exception_handlers if access else {}),
        },
        request_max_body_size=settings.max_body_bytes,
        compression_config=CompressionConfig("gzip", gzip_compress_level=_GZIP_LEVEL)
        if settings.compression
        else None,
        openapi_config=None,
        logging_config=None,
    )
    admission, requests = Admission(app, _BODY_BYTES), RequestMetrics(registry)
    registry.register(StateMetrics(requests, services, hub, answers, admission))
    add_process_metrics(registry)
    inner = ConditionalGets(admission, private=access is not None)
    observed = _observability(settings, requests)(tracing.requests(inner) if tracing else inner)
    return Gateway(observed, settings.trusted_proxies, settings.root_path)


def _documents(settings: Settings, registry: CollectorRegistry) -> list[HTTPRouteHandler]:
    """Return the routes of the metrics and of the OpenAPI document."""

    @get("/metrics", opt={"open": settings.open_metrics})
    async def metrics() -> Response[bytes]:
        return Response(
            generate_latest(registry), media_type=CONTENT_TYPE_LATEST.partition("; charset")[0]
        )

    openapi = EncodedDocument(settings.public_url)

    @get("/schema/openapi.json", media_type=MediaType.JSON)
    async def openapi_document() -> bytes:
        return await openapi.encoded()

    return [openapi_document, metrics]


def _observability(settings: Settings, requests: RequestMetrics) -> ObservabilityMiddleware:
    """Return what counts and bounds requests, and logs them at the level info and below."""
    log_requests = logging.getLevelNamesMapping()[settings.log_level.upper()] <= logging.INFO
    return ObservabilityMiddleware(
        requests,
        settings.requests_per_second,
        access_log(settings.log_format, sys.stderr.write) if log_requests else None,
        weights(),
    )


@asynccontextmanager
async def _traced(tracing: "Tracing", _: Litestar) -> AsyncIterator[None]:
    tracing.start()
    yield
    await tracing.close()


@asynccontextmanager
async def _state_shared(
    shared: "ValkeyState", hub: Hub, registry: CollectorRegistry, _: Litestar
) -> AsyncIterator[None]:
    models = hub.share(shared)
    add_shared_state_metrics(shared, models, registry)
    async with _in_background(shared.follow()):
        yield
    await shared.close()


@asynccontextmanager
async def _hub_running(hub: Hub, services: Services, _: Litestar) -> AsyncIterator[None]:
    await hub.start()
    gc.collect()
    collect_rarely()
    yield
    await services.close()
    await hub.close()


@asynccontextmanager
async def _reloading(
    mounted: OverlayReload,
    settings: Settings,
    services: Services,
    registry: CollectorRegistry,
    _: Litestar,
) -> AsyncIterator[None]:
    _add_catalog_metrics(mounted, registry)
    async with _in_background(mounted.follow(settings.catalog_seconds, services.use)):
        yield


def create_access(settings: Settings, shared: SharedCounts | None = None) -> Access | None:
    """Return the rules of access in force, None where everybody may ask.

    Raise InvalidAccessError."""
    values = {name: getattr(settings, name) for name in AccessOptions.__struct_fields__}
    options = AccessOptions(**values)
    return Access(options, weights(), shared) if options.is_on else None


@asynccontextmanager
async def serve_mcp(settings: Settings, app: Litestar) -> AsyncIterator[ASGIApp]:
    """Run the plugin's MCP server over this very application. It is imported here, since that
    takes longer than all else together."""
    plugin = await asyncio.to_thread(import_module, "fitgauge_plugin.mcp_in_process")
    gc.collect()
    gc.freeze()
    hosts, origins = mcp_callers(settings)

    async def for_caller(scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a tool's request as that of the caller of /mcp."""
        scope[CARRIED] = CALLER.get()  # type: ignore[literal-required]
        await app(scope, receive, send)

    async with plugin.serve(for_caller, mcp_tools(), __version__, hosts, origins) as application:
        yield application


def mcp_callers(settings: Settings) -> tuple[list[str], list[str]]:
    """Return the Host and Origin headers that MCP hosts may send beyond those of this machine."""
    hosts, origins = _listed(settings.mcp_hosts), _listed(settings.mcp_origins)
    if settings.public_url.startswith("http"):
        address = urlsplit(settings.public_url)
        hosts.append(address.netloc)
        origins.append(f"{address.scheme}://{address.netloc}")
    if not (settings.mcp_hosts or is_loopback(settings.host)):
        hosts.append("*")  # gateways and probes name it as they like
    return hosts, origins


def _listed(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches an address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@asynccontextmanager
async def _in_background(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run `work` in the background."""
    task = asyncio.create_task(work)
    yield
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def _add_catalog_metrics(mounted: OverlayReload, registry: CollectorRegistry) -> None:
    """Add metrics of the mounted catalog, named like those of Prometheus' own configuration."""
    successful = Gauge(
        "fitgauge_catalog_last_reload_successful",
        "Whether the mounted catalog overlay is in force.",
        registry=registry,
    )
    successful.set_function(lambda: float(mounted.refused is None))
    loaded = Gauge(
        "fitgauge_catalog_loaded_timestamp_seconds",
        "When the catalog overlay in force was read.",
        registry=registry,
    )
    loaded.set_function(lambda: mounted.current.at)
