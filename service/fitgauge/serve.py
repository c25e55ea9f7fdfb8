"""Runs the service under its server."""

import sys
from dataclasses import replace
from typing import Any

import uvicorn

from fitgauge.api.connections import BoundedConnection
from fitgauge.app import create_app
from fitgauge.settings import Settings

OPTIONS: dict[str, Any] = {
    "http": BoundedConnection,
    "log_config": None,
    "access_log": False,
    "server_header": False,
    "timeout_graceful_shutdown": 10,
}
"""of uvicorn, wherever the service runs"""


SWITCH_SECONDS = 0.001
"""The longest that a thread of long questions holds the interpreter while the event loop waits for it."""


def run(settings: Settings, **changed: Any) -> None:  # noqa: ANN401 - fields of Settings
    """Serves until SIGTERM or SIGINT; requests under way are finished first."""
    settings = replace(settings, **changed)
    sys.setswitchinterval(SWITCH_SECONDS)
    uvicorn.run(create_app(settings), host=settings.host, port=settings.port, **OPTIONS)
