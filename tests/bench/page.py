"""The page in Chromium: what is sent, when the first text is drawn, what moves afterwards, and how
long a slider takes from its move to the new answer, each position never asked before."""

import gzip
import shutil
import statistics
import tempfile
from pathlib import Path

CHROMIUM = shutil.which("chromium")
POSITIONS = 50
QUERY = "?model=Qwen/Qwen3-32B&gpu=2x%20RTX%204090&quantization=awq&context_length=8192"
OBSERVED = """() => {
    window.moved = 0;
    new PerformanceObserver((list) => {
        for (const one of list.getEntries()) if (!one.hadRecentInput) window.moved += one.value;
    }).observe({type: 'layout-shift', buffered: true});
}"""
SLIDE = """async (positions) => {
    const slider = document.querySelector('input[name=context_length]');
    const drawn = () => document.querySelector('.terms data').closest('section').innerText
        + document.querySelector('.summary').innerText;
    const move = (position) => {
        slider.value = position;
        slider.dispatchEvent(new Event('input', {bubbles: true}));
    };
    const changed = (before) => new Promise((resolve) => {
        const watch = new MutationObserver(() => {
            if (drawn() === before) return;
            watch.disconnect();
            resolve();
        });
        watch.observe(document.querySelector('.answer'),
            {subtree: true, childList: true, characterData: true, attributes: true});
    });
    const slides = [];
    const bare = [];
    for (const position of positions) {
        const start = performance.now();
        const done = changed(drawn());
        move(position);
        await done;
        slides.push(performance.now() - start);
        const asked = performance.now();
        await (await fetch('health/live')).text();
        bare.push(performance.now() - asked);
        await new Promise((resolve) => setTimeout(resolve, 400));
    }
    return [slides, bare];
}"""


def lines():
    """Yield a line for each figure; one line that says why where there is no Chromium."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        sync_playwright = None
    if CHROMIUM is None or sync_playwright is None:
        yield "page                            not measured: no Chromium (make system installs it)"
        return
    from browser.conftest import FLAGS
    from hub_stand_in import HubStandIn
    from live.process import running

    folder = Path(tempfile.mkdtemp())
    with (
        HubStandIn() as hub,
        running(hub.url, folder, HF_HUB_OFFLINE="1") as service,
        sync_playwright() as playwright,
    ):
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = chromium.new_page(viewport={"width": 1440, "height": 900})
        bodies = {}
        page.on("response", lambda one: bodies.update({one.url: one}))
        page.goto(f"{service.url}/{QUERY}")
        page.wait_for_selector(".heat td.fits")
        page.evaluate(OBSERVED)
        page.wait_for_timeout(500)
        painted = page.evaluate(
            "performance.getEntriesByName('first-contentful-paint')[0].startTime"
        )
        moved = page.evaluate("window.moved")
        files = [one.body() for url, one in bodies.items() if "/v1/" not in url]
        count = int(page.get_attribute("input[name=context_length]", "max"))
        first = count + 1 - POSITIONS
        slides, bare = page.evaluate(SLIDE, list(range(first, count + 1)))
        chromium.close()
    size = len(gzip.compress(b"".join(files))) / 1000
    p95, beside = (statistics.quantiles(times, n=20)[-1] for times in (slides, bare))
    yield f"page, gzipped                   {size:8.1f} kB          (at most 60)"
    yield f"page, first paint               {painted:8.0f} ms"
    yield f"page, layout shift              {moved:8.3f}             (at most 0.1)"
    yield (
        f"page, a slider's answer         {statistics.median(slides):8.0f} ms, p95 {p95:.0f} ms of"
        f" {POSITIONS} positions (at most 100; of an empty request in turns with it {beside:.0f})"
    )
