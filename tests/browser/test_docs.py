"""The documentation in a real Chromium, as Zensical builds it: nothing from elsewhere, nothing that
its policy refuses."""

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from fitgauge.api.controllers import docs

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module", autouse=True)
def built(tmp_path_factory):
    """Build the site, broken links refused, and serve it."""
    if find_spec("zensical") is None and not os.environ.get("FITGAUGE_SYSTEM"):
        pytest.skip("no Zensical: make docs")
    folder = tmp_path_factory.mktemp("docs")
    shutil.copy(ROOT / "zensical.toml", folder)
    shutil.copytree(ROOT / "docs", folder / "docs")
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    subprocess.run(command, cwd=folder, check=True, timeout=300)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(docs, "FILES", docs.read_site(folder / "service" / "fitgauge" / "site"))
        yield


def test_a_reader_comes_from_the_first_page_to_an_engine(open_page, url):
    page = open_page("docs").page
    requests = []
    page.on("request", lambda request: requests.append(request.url))
    page.get_by_role("link", name="how each engine counts").first.click()
    page.wait_for_url(f"{url}/docs/engines/")
    assert page.title() == "How each engine counts - Fitgauge"
    assert page.locator("table td", has_text="SGLang").first.is_visible()
    assert [address for address in requests if not address.startswith(url)] == []


def test_the_search_finds_a_variable(open_page):
    page = open_page("docs/tutorial/").page
    page.get_by_role("button", name="Search").first.click()
    page.keyboard.type("FITGAUGE_ROOT_PATH")
    page.get_by_text("Environment variables").last.wait_for()


@pytest.mark.parametrize("dark", [False, True])
def test_pages_follow_the_theme_of_the_system(open_page, dark):
    page = open_page("docs/engines/", dark=dark).page
    light = page.evaluate(
        "() => { const rgb = getComputedStyle(document.body).backgroundColor.match(/[0-9.]+/g);"
        " return rgb.slice(0, 3).every((value) => Number(value) > 127); }"
    )
    assert light is not dark


@pytest.mark.parametrize("name", ["", "api/", "FORMULAS/", "ACCURACY/", "HOSTS/"])
def test_no_page_is_wider_than_a_phone(open_page, name):
    page = open_page(f"docs/{name}", width=390).page
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
