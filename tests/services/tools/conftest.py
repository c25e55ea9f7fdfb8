"""Calls of the tools over the bundled snapshot."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from fitgauge.services.facade import Services
from fitgauge.services.tools.service import Tools


@pytest.fixture(scope="session")
def call(questions: Services) -> Callable[..., dict[str, Any]]:
    """Provide the answer of a tool to the arguments of a call, as JSON has it."""

    def answered(name: str, **arguments: Any) -> dict[str, Any]:
        return msgspec.to_builtins(asyncio.run(Tools(questions).call(name, arguments)))

    return answered
