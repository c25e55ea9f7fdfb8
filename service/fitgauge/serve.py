"""Runs the service under its server. docs/SERVER.md says why this one."""

import errno
import os
import signal
import socket
import sys
from typing import Any

import uvicorn

from fitgauge.api.connection_limits import BoundedConnection
from fitgauge.app import create_app
from fitgauge.errors import InvalidSettingsError
from fitgauge.settings import Settings

OPTIONS: dict[str, Any] = {
    "http": BoundedConnection,
    "interface": "asgi3",  # the application is a callable that is no coroutine function
    "ws": "none",
    "log_config": None,
    "access_log": False,
    "proxy_headers": False,  # fitgauge.api.gateway reads them, by its own setting
    "server_header": False,
    "timeout_graceful_shutdown": 10,
}
"""of uvicorn, wherever the service runs"""

_BACKLOG = 2048

SWITCH_SECONDS = 0.001
"""The longest that a thread of long questions holds the interpreter while the event loop waits
for it."""


def run(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT, finish the requests under way, and exit with code 0.

    Raises InvalidSettingsError where the address cannot be listened on.
    """
    listeners = listen(settings.host, settings.port)
    for number in (signal.SIGTERM, signal.SIGINT):  # uvicorn raises them again after it has ended
        signal.signal(number, lambda *_: sys.exit(0))
    sys.setswitchinterval(SWITCH_SECONDS)
    app = create_app(settings)
    uvicorn.Server(uvicorn.Config(app, **OPTIONS)).run(listeners)


def listen(host: str, port: int) -> list[socket.socket]:
    """Return a socket for each address of the host.

    Raise InvalidSettingsError, which says what to set.
    """
    listeners: list[socket.socket] = []
    try:
        flags = socket.AI_PASSIVE
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
        for family, address in dict.fromkeys((info[0], info[4]) for info in addresses):
            listeners.append(socket.create_server(address, family=family, backlog=_BACKLOG))
    except (OSError, UnicodeError) as error:
        for listener in listeners:
            listener.close()
        number = error.errno if isinstance(error, OSError) else None
        reason = os.strerror(number) if number and number > 0 else error.args[-1]
        detail = f"Cannot listen on {host}:{port}: {reason}."
        raise InvalidSettingsError(detail, hint=_hint(number)) from None
    return listeners


def _hint(number: int | None) -> str:
    if number == errno.EADDRINUSE:
        return "Set FITGAUGE_PORT or --port to a free port, or stop what listens there."
    if number in (errno.EACCES, errno.EPERM):
        return "Set FITGAUGE_PORT or --port to a port from 1024."
    return "Set FITGAUGE_HOST or --host to an address of this machine, such as 0.0.0.0."
