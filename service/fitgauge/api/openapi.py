"""The OpenAPI 3.1 document: Litestar's, with msgspec's schemas and what Litestar cannot express."""

import asyncio
import gc
from functools import cache
from typing import Any

import msgspec
from litestar.handlers import HTTPRouteHandler
from litestar.openapi import OpenAPIConfig
from litestar.openapi.spec import Components, License, Reference, Schema, SecurityScheme, Server
from litestar.plugins import OpenAPISchemaPlugin
from litestar.routes import HTTPRoute
from litestar.typing import FieldDefinition
from litestar.utils.path import normalize_path
from msgspec import Struct, inspect

from fitgauge import __version__
from fitgauge.api.application import Application
from fitgauge.api.controllers import CONTROLLERS
from fitgauge.api.dependencies import dependencies
from fitgauge.api.media_types import NDJSON
from fitgauge.api.request_parsing import ApiRequest
from fitgauge.services.tools.faces import TOOLS

_SECONDS = {"type": "integer", "minimum": 1}
_RETRY_AFTER = {
    "Retry-After": {"description": "Seconds to wait.", "required": True, "schema": _SECONDS}
}
_ALLOW = {
    "Allow": {
        "description": "The methods it knows.",
        "required": True,
        "schema": {"type": "string"},
    }
}
_CHALLENGE = {
    "WWW-Authenticate": {
        "description": "How to get in (RFC 6750, RFC 9728).",
        "required": True,
        "schema": {"type": "string"},
    }
}
_HEADERS = {
    "401": _CHALLENGE,
    "405": _ALLOW,
    "424": _RETRY_AFTER,
    "429": _RETRY_AFTER,
    "503": _RETRY_AFTER,
}
_SECURITY_SCHEMES: dict[str, SecurityScheme | Reference] = {
    "bearer": SecurityScheme(
        type="http", scheme="bearer", description="An API key, or a JWT of the identity provider."
    ),
    "api_key": SecurityScheme(
        type="apiKey", name="X-API-Key", security_scheme_in="header", description="An API key."
    ),
}
"""How a caller says who they are; an open service asks for neither."""


def document(server: str = "/") -> dict[str, Any]:
    """Return the whole document. server: the public address, where clients need an absolute one."""
    return {**_document(), "servers": [{"url": server}]}


def weights() -> dict[str, int]:
    """Return how many requests one counts as under the rate limit, by path, up to its first
    parameter; 1 where absent."""
    counted = {}
    for controller in CONTROLLERS:
        base = vars(controller).get("path", "")
        for handler in vars(controller).values():
            if isinstance(handler, HTTPRouteHandler) and "weight" in handler.opt:
                for path in handler.paths:
                    whole = normalize_path(f"{base}/{path}")
                    counted[whole.partition("{")[0]] = handler.opt["weight"]
                if handler.operation_id in TOOLS:
                    counted[f"/tools/{handler.operation_id}"] = handler.opt["weight"]
    return counted


class EncodedDocument:
    """The document as it is sent, made for the first who asks: it takes a fifth of the start."""

    def __init__(self, server: str) -> None:
        """Describe the service at this public address."""
        self._server = server
        self._encoded: bytes | None = None
        self._making = asyncio.Lock()

    async def encoded(self) -> bytes:
        """Return the document as JSON."""
        async with self._making:
            if self._encoded is None:
                self._encoded = await asyncio.to_thread(self._encode)
            return self._encoded

    def _encode(self) -> bytes:
        encoded = msgspec.json.encode(document(self._server))
        _document.cache_clear()  # what it was made of takes several times its size
        _application.cache_clear()
        gc.collect()  # its parts hold one another, and the collector seldom looks
        return encoded


class StructSchemas(OpenAPISchemaPlugin):
    """Describe msgspec structs by msgspec's own JSON schema.

    Litestar's loses docstrings, `additionalProperties: false` and bounds inside optional fields.
    """

    @staticmethod
    def is_plugin_supported_type(value: Any) -> bool:  # noqa: ANN401 - the plugin's protocol
        """Return whether it is a struct."""
        return isinstance(value, type) and issubclass(value, Struct)

    def to_openapi_schema(
        self,
        field_definition: FieldDefinition,
        schema_creator: Any,  # noqa: ANN401 - Litestar's SchemaCreator is private
    ) -> Any:  # noqa: ANN401 - a Reference, which the protocol forgets
        """Register the schema of a struct and of those within it, and return its reference."""
        kind = field_definition.annotation
        registry = schema_creator.schema_registry
        named = FieldDefinition.from_annotation(kind)
        registered = registry.get_schema_for_field_definition(named)
        registered.__class__ = _JsonSchema
        registered.json = _struct_schema(kind)
        for nested in _nested(inspect.type_info(kind)):
            schema_creator.for_field_definition(FieldDefinition.from_annotation(nested))
        return registry.get_reference_for_field_definition(named)


class _JsonSchema(Schema):
    """A schema given as JSON."""

    json: dict[str, Any]

    def to_schema(self) -> dict[str, Any]:
        return self.json


@cache
def _application() -> Application:
    """Return an application that is never served, for its routes and its document."""
    return Application(
        CONTROLLERS,
        request_class=ApiRequest,
        dependencies=dependencies(),
        plugins=[StructSchemas()],
        openapi_config=OpenAPIConfig(
            title="Fitgauge",
            version=__version__,
            summary="Will model X fit on GPU Y, and if not, what will?",
            description=(
                "Memory estimates with evidence: every byte has a name, a formula, a basis and an"
                " interval. Sizes are bytes."
            ),
            license=License(name="Apache-2.0", identifier="Apache-2.0"),
            servers=[Server(url="/")],
            components=Components(security_schemes=_SECURITY_SCHEMES),
            security=[{}, {"bearer": []}, {"api_key": []}],
        ),
        logging_config=None,
    )


@cache
def _document() -> dict[str, Any]:
    application = _application()
    generated = application.openapi_schema.to_schema()
    paths: dict[str, Any] = {}
    for path, handler in _handlers(application):
        (method,) = (name.lower() for name in handler.http_methods)
        operation = generated["paths"][path][method]
        _complete(operation, handler)
        paths.setdefault(path, {})[method] = operation
    return {**generated, "paths": paths}


def _handlers(application: Application) -> list[tuple[str, HTTPRouteHandler]]:
    """Return each documented handler with its path, in the order of the controllers."""
    handlers = {
        str(handler.operation_id): (route.path_format, handler)
        for route in application.routes
        if isinstance(route, HTTPRoute)
        for handler in route.route_handlers
        if handler.operation_id
    }
    order = [
        handler.operation_id
        for controller in CONTROLLERS
        for handler in vars(controller).values()
        if isinstance(handler, HTTPRouteHandler)
    ]
    return [handlers[str(name)] for name in order]


def _complete(operation: dict[str, Any], handler: HTTPRouteHandler) -> None:
    """Add what Litestar has no argument for: examples and files of a body, headers of errors, rows.

    Drop its own 400, which this service never answers, and flags at their defaults."""
    operation.pop("deprecated", None)
    operation["x-openai-isConsequential"] = False
    for parameter in operation.get("parameters", ()):
        for flag in ("deprecated", "allowEmptyValue", "allowReserved"):
            parameter.pop(flag, None)
        (example,) = parameter.pop("examples").values()
        parameter["example"] = example["value"]
        parameter["schema"] = {
            key: int(value) if isinstance(value, float) else value  # Litestar writes 1 as 1.0
            for key, value in parameter["schema"].items()
            if key not in ("description", "examples")
        }
    if "requestBody" in operation:
        content = operation["requestBody"]["content"]
        content["application/json"] = {
            "schema": _reference(handler.opt["body"].kind),
            "examples": {name: {"value": value} for name, value in handler.opt["examples"].items()},
        }
        for media_type in handler.opt.get("uploads", ()):
            content[media_type] = {"schema": {"type": "string", "format": "binary"}}
    responses = operation["responses"]
    responses["200"] = {"description": "The answer.", "content": responses["200"]["content"]}
    if "row" in handler.opt:
        responses["200"]["content"][NDJSON] = {"schema": _reference(handler.opt["row"])}
    for status in sorted(responses):
        if status != "200" and int(status) not in (handler.responses or {}):
            del responses[status]
        elif status in _HEADERS:
            responses[status]["headers"] = _HEADERS[status]


def _reference(kind: type) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{kind.__name__}"}


def _nested(info: inspect.Type) -> list[type[Struct]]:
    """Return the structs directly within a type."""
    match info:
        case inspect.StructType():
            inner = [field.type for field in info.fields]
        case inspect.ListType() | inspect.VarTupleType():
            inner = [info.item_type]
        case inspect.DictType():
            inner = [info.value_type]
        case inspect.UnionType():
            inner = list(info.types)
        case inspect.Metadata():
            inner = [info.type]
        case _:
            inner = []
    structs: list[type[Struct]] = []
    for part in inner:
        if isinstance(part, inspect.Metadata):
            part = part.type
        structs += [part.cls] if isinstance(part, inspect.StructType) else _nested(part)
    return structs


def _struct_schema(kind: type[Struct]) -> dict[str, Any]:
    """Return the JSON schema of one struct.

    Answers send fields at their defaults too, unless declared otherwise: those are required."""
    template = "#/components/schemas/{name}"
    schema = msgspec.json.schema_components([kind], ref_template=template)[1][kind.__name__]
    config = kind.__struct_config__
    if not config.omit_defaults and not config.forbid_unknown_fields:
        properties = schema.get("properties", {})
        always = [name for name, field in properties.items() if "default" in field]
        schema = {**schema, "required": [*schema.get("required", ()), *always]}
    plain: dict[str, Any] = _plain(schema)
    return plain


def _plain(schema: Any) -> Any:  # noqa: ANN401 - JSON is any
    """Return the schema as tool hosts read it best: every node has a `type`, and a choice between
    types is a list of types.

    A nullable enum stays a choice: hosts that join an enum's values into a sentence fail on a
    null among them."""
    if isinstance(schema, list):
        return [_plain(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {
        key: _plain(value) for key, value in schema.items() if key != "default" or value is not None
    }
    if "enum" in plain:
        plain.setdefault("type", "string")
    options = plain.get("anyOf", [])
    if options and not any("enum" in option or "$ref" in option for option in options):
        del plain["anyOf"]
        plain |= {key: value for option in options for key, value in option.items()}
        plain["type"] = [option["type"] for option in options]
    return plain
