"""What every test shares."""

import ssl
from collections.abc import Iterator
from functools import cache

import pytest
from hypothesis import settings

from fitgauge.garbage import collect_rarely

settings.register_profile("untimed", deadline=None)  # a loaded machine is no failure
settings.load_profile("untimed")


@pytest.fixture(scope="session", autouse=True)
def certificates_read_once() -> Iterator[None]:
    """Provide every client of HTTP reads the machine's certificates when it is made, which takes
    20 ms; here all share one reading."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ssl, "create_default_context", cache(ssl.create_default_context))
        yield


def pytest_collection_finish() -> None:
    """Collect garbage as rarely as the service does: it was an eighth of what tests compute."""
    collect_rarely()
