"""The picture of an answer in a chat, in the official host of MCP Apps in a real Chromium.

`make hosts` fetches the host's bridge and bundles it; without it the test is skipped, unless
FITGAUGE_HOSTS is set: then it fails."""

import os
import subprocess
from importlib.resources import files
from pathlib import Path

import httpx
import pytest

from browser.conftest import HOSTILE

ROOT = Path(__file__).parents[2]
PACKAGES = ROOT / ".hosts/node_modules"
BAR = files("fitgauge_plugin").joinpath("bar.html").read_text("utf-8")

pytestmark = pytest.mark.skipif(
    not os.environ.get("FITGAUGE_HOSTS") and not (PACKAGES / ".bin/esbuild").exists(),
    reason="no bridge: make hosts",
)


@pytest.fixture(scope="module")
def bridge(tmp_path_factory):
    """Provide the host, bundled."""
    bundle = tmp_path_factory.mktemp("bridge") / "host.js"
    command = [PACKAGES / ".bin/esbuild", ROOT / "tests/hosts/app/host.mjs", "--bundle"]
    environment = {**os.environ, "NODE_PATH": str(PACKAGES)}
    subprocess.run(
        [*command, f"--outfile={bundle}", "--log-level=error"], env=environment, check=True
    )
    return bundle.read_text("utf-8")


@pytest.fixture
def show(browser, bridge):
    """Provide a function that draws an answer and returns the page and the picture's frame."""
    page = browser.new_page(viewport={"width": 700, "height": 240})
    complaints = []
    page.on("pageerror", lambda error: complaints.append(str(error)))

    def draw(answer):
        page.set_content("<!doctype html><title>host</title><body></body>")
        page.add_script_tag(content=bridge)
        result = {"content": [{"type": "text", "text": ""}], "structuredContent": answer}
        page.evaluate("([html, result]) => show(html, result)", [BAR, result])
        page.wait_for_function("events.some(event => event.startsWith('height'))")
        return page, page.frames[1]

    yield draw
    page.close()
    assert complaints == []


def answer_of(url, **question):
    return httpx.post(f"{url}/tools/check_fit", json=question, timeout=60).json()


@pytest.mark.parametrize("gpu,verdict", [("RTX 4090", "fits"), ("8GB", "does_not_fit")])
def test_an_answer_is_drawn_as_a_bar_with_its_terms(show, url, tmp_path, gpu, verdict):
    model = "acme/tiny" if verdict == "fits" else "70b"
    answer = answer_of(url, model=model, gpu=gpu)
    assert answer["verdict"] == verdict
    page, frame = show(answer)
    page.screenshot(path=tmp_path / "bar.png")
    assert answer["answer"] in frame.inner_text("body")
    bar = frame.query_selector(".bar").bounding_box()
    widths = [part.bounding_box()["width"] for part in frame.query_selector_all(".bar i")]
    assert len(widths) >= len(answer["parts_gib"])
    assert 0 < sum(widths) <= bar["width"] + len(widths)
    assert page.evaluate("events")[0] == "initialized"


def test_a_hostile_name_stays_text(show, url):
    answer = answer_of(url, model="acme/tiny", gpu="RTX 4090")
    answer["answer"] = f"{HOSTILE} fits"
    answer["parts_gib"][HOSTILE] = 0.2
    page, frame = show(answer)
    assert frame.inner_text("body").count(HOSTILE) == 2
    assert frame.query_selector_all("img") == []
    assert frame.evaluate("window.hostile") is None
    assert page.evaluate("window.hostile") is None
