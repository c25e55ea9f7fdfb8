"""OpenTelemetry by its own packages: spans of requests, model lookups, requests to the Hub,
estimates and searches. Only a service that traces imports this module.

Where they are sent, how many, and under which name is what OTEL_* variables say."""

import asyncio
import os
from contextlib import AbstractContextManager

from litestar.enums import ScopeType
from litestar.types import ASGIApp, Message, Receive, Scope, Send
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, format_span_id, format_trace_id
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from fitgauge import __version__, spans
from fitgauge.hub.request_context import REQUEST_IDS
from fitgauge.services.common.answered import ANSWERED

_PROPAGATOR = TraceContextTextMapPropagator()


class Tracing:
    """Starts spans and exports them in the background.

    No span holds a path, a query, a header or the text of an exception: they hold what callers
    made up, and secrets. Other libraries get no tracer for the same reason."""

    def __init__(self) -> None:
        name = os.environ.get("OTEL_SERVICE_NAME", "fitgauge")
        resource = Resource.create({"service.name": name, "service.version": __version__})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("fitgauge", __version__)

    def start(self) -> None:
        """Let the service start its spans."""
        spans.use(self._span)

    async def close(self) -> None:
        """Start no more spans, and export those that ended."""
        spans.use(None)
        await asyncio.to_thread(self._provider.shutdown)

    def _span(self, name: str, attributes: dict[str, str]) -> AbstractContextManager[Span]:
        named = {f"fitgauge.{key}": value for key, value in attributes.items()}
        return self._tracer.start_as_current_span(
            name, attributes=named, record_exception=False, set_status_on_exception=False
        )

    def requests(self, app: ASGIApp) -> ASGIApp:
        """Return the application with a span for every request, which continues the caller's
        trace. Requests to the Hub continue this one."""

        async def traced(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != ScopeType.HTTP:
                await app(scope, receive, send)
                return
            ids, status = REQUEST_IDS.get(), 500

            async def sent(message: Message) -> None:
                nonlocal status
                if message["type"] == "http.response.start":
                    status = message["status"]
                await send(message)

            with self._tracer.start_as_current_span(
                scope["method"],
                context=_PROPAGATOR.extract(ids.headers()),
                kind=SpanKind.SERVER,
                record_exception=False,
                set_status_on_exception=False,
            ) as span:
                REQUEST_IDS.set(ids._replace(traceparent=_traceparent(span)))
                try:
                    await app(scope, receive, sent)
                finally:
                    _describe(span, scope, status)

        return traced


def _traceparent(span: Span) -> str:
    context = span.get_span_context()
    ids = f"{format_trace_id(context.trace_id)}-{format_span_id(context.span_id)}"
    return f"00-{ids}-{context.trace_flags:02x}"


def _describe(span: Span, scope: Scope, status: int) -> None:
    """Name a span by OpenTelemetry's conventions for servers of HTTP: method and route."""
    route = scope.get("path_template") or "unknown"
    span.update_name(f"{scope['method']} {route}")  # type: ignore[typeddict-item]
    span.set_attributes(
        {
            "http.request.method": scope["method"],  # type: ignore[typeddict-item]
            "http.route": route,
            "http.response.status_code": status,
            "fitgauge.request_id": REQUEST_IDS.get().request_id,
        }
    )
    answered = ANSWERED.get()
    if answered is not None and answered.model:
        span.set_attribute("fitgauge.model", answered.model)
    if answered is not None and answered.verdicts:
        span.set_attribute("fitgauge.verdict", answered.verdicts[-1].verdict)
    if status >= 500:
        span.set_status(Status(StatusCode.ERROR))
