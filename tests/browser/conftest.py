"""A real Chromium on the page of a real service.

Without a Chromium these tests are skipped, unless FITGAUGE_SYSTEM is set, as `make system` does:
then they fail."""

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from hub_stand_in import HubStandIn, safetensors_repository
from live import serving

REQUIRED = bool(os.environ.get("FITGAUGE_SYSTEM"))
CHROMIUM = shutil.which("chromium")
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
ONLY_ON_THE_HUB = "acme/glimmer-3b"
HOSTILE = '<img src=x onerror="window.hostile=1">'


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip where there is no browser and none is required."""
    if not REQUIRED and not (CHROMIUM and has_playwright()):
        for item in items:
            if "tests/browser" in item.path.as_posix():
                item.add_marker(pytest.mark.skip(reason="no Chromium: apt-get install chromium"))


def has_playwright() -> bool:
    """Return whether the driver of the browser is installed (make system installs it)."""
    try:
        import playwright  # noqa: F401
    except ImportError:
        return False
    return True


@pytest.fixture(scope="session")
def url() -> Iterator[str]:
    """Provide the address of a service whose Hub is the stand-in."""
    repositories = (safetensors_repository("acme/tiny"), safetensors_repository(ONLY_ON_THE_HUB))
    with HubStandIn(*repositories) as hub, serving(hub) as address:
        yield address


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Provide a Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


class Opened:
    """A page, and what the browser complained of."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.complaints: list[str] = []
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def _on_console(self, message: Any) -> None:
        # a problem of the API is an answer here, whatever the browser makes of its status
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.complaints.append(message.text)

    def answered(self) -> Any:
        """Wait until the newest answer is drawn, and return the page."""
        self.page.wait_for_selector(".answer[aria-busy=false] :is(.verdict, .problem)")
        return self.page


@pytest.fixture
def open_page(browser: Any, url: str) -> Iterator[Any]:
    """Provide a function that opens the page at a query; nothing may be complained of."""
    contexts: list[Any] = []
    opened: list[Opened] = []

    def open_at(
        query: str = "", *, width: int = 1440, dark: bool = False, locale: str = "en-US"
    ) -> Opened:
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if dark else "light",
            locale=locale,
        )
        context.set_default_timeout(20_000)
        contexts.append(context)
        page = Opened(context.new_page())
        page.page.goto(f"{url}/{query}")
        opened.append(page)
        return page

    yield open_at
    for context in contexts:
        context.close()
    assert [page.complaints for page in opened if page.complaints] == []
