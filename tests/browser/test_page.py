"""The page in a real browser: every journey, with what is drawn asserted."""

import json
import re
from itertools import pairwise, product
from urllib.parse import parse_qs, quote, urlsplit

import httpx
import msgspec
import pytest

from browser.conftest import ONLY_ON_THE_HUB
from fitgauge.engine.quantity import Bytes, gib
from fitgauge.pictures.geometry import marks, segments
from fitgauge.services.common.schemas import TermAnswer

FITS = "?model=Qwen/Qwen3-32B&gpu=2x%20RTX%204090&quantization=awq&context_length=8192"
DOES_NOT_FIT = "?model=Qwen/Qwen3-32B&gpu=RTX%204090"
TRAINING = "?task=training&model=Qwen/Qwen3-8B&gpu=RTX%204090"
NEEDS = "?model=Qwen/Qwen3-8B"
UNKNOWN = "?model=Qwen/Qwen3-8B&gpu=" + quote("RTX 40900")
WIDTHS = (1440, 768, 390)
DRAWN = """() => {
    const one = (selector) => document.querySelector(selector);
    const at = (node, name) => Number(node.getAttribute(name));
    const clipped = [...document.querySelectorAll('.answer :is(h2, h3, p, li, dt, dd, span, data)')]
        .filter((node) => node.scrollWidth > node.clientWidth && node.clientWidth > 0);
    const interval = one('.bar .interval');
    return {
        verdict: one('.verdict .chip').innerText,
        title: one('.verdict h2').innerText,
        parts: [...document.querySelectorAll('.bar .part')].map(
            (part) => [part.dataset.term, at(part, 'x'), at(part, 'width')]),
        capacity: at(one('.bar .capacity'), 'x1'),
        beyond: one('.bar .beyond') !== null,
        interval: [at(interval, 'x'), at(interval, 'width')],
        label: one('.bar svg').getAttribute('aria-label'),
        legend: document.querySelectorAll('.bar .legend li').length,
        clipped: clipped.map((node) => node.outerHTML.slice(0, 80)),
        widest: document.documentElement.scrollWidth,
    };
}"""
"""What is drawn of an answer."""


def value_at(answer, path):
    """Return what stands at a path of an answer."""
    for key in path.split("."):
        answer = answer[int(key)] if isinstance(answer, list) else answer[key]
    return answer


def request_of(page):
    """Return the path and the body of the request that the address of the page stands for."""
    query = {name: values[0] for name, values in parse_qs(urlsplit(page.url).query).items()}
    path = "/v1/training-fit" if query.pop("task") == "training" else "/v1/fit"
    return path, {
        name: int(value) if value.isdigit() and name != "model" else value
        for name, value in query.items()
    }


@pytest.mark.parametrize("query", [FITS, DOES_NOT_FIT, TRAINING, NEEDS])
def test_every_number_is_the_answers_own(open_page, url, query):
    page = open_page(query).answered()
    path, body = request_of(page)
    answer = httpx.post(f"{url}{path}", json=body | {"detail": "full"}).json()
    figures = page.eval_on_selector_all(
        "data[data-path]", "all => all.map(one => [one.dataset.path, one.value, one.textContent])"
    )
    assert len(figures) >= 4
    for place, value, text in figures:
        assert json.loads(value) == value_at(answer, place), place
        assert re.search(r"\d", text), place


def test_how_fast_it_is_stands_before_the_limits(open_page):
    page = open_page(FITS).answered()
    shown = page.eval_on_selector_all(".limits data", "all => all.map(one => one.dataset.path)")
    assert shown[:2] == [
        "speed.tokens_per_second_per_request.expected",
        "speed.seconds_to_first_token.expected",
    ]
    assert page.inner_text(".limits h3 >> nth=0") == "Expected speed"


def test_what_fits_is_drawn_up_to_the_capacity_line(open_page, url):
    page = open_page(FITS).answered()
    assert page.inner_text(".verdict .chip") == "fits"
    capacity = float(page.get_attribute(".bar .capacity", "x1"))
    parts = page.eval_on_selector_all(
        ".bar .part", "all => all.map(one => [+one.getAttribute('x'), +one.getAttribute('width')])"
    )
    assert parts[0][0] == 0
    assert all(abs(left + width - after) < 1e-6 for (left, width), (after, _) in pairwise(parts))
    assert sum(parts[-1]) < capacity <= 1000
    assert page.locator(".bar .beyond").count() == 0
    path, body = request_of(page)
    launch = httpx.post(f"{url}{path}", json=body).json()["launch"]
    assert page.text_content(".command code >> nth=0") == launch["command"]


def test_what_does_not_fit_passes_the_line_and_has_no_command(open_page):
    page = open_page(DOES_NOT_FIT).answered()
    assert page.inner_text(".verdict .chip") == "does not fit"
    assert page.locator(".bar .beyond").count() == 1
    assert page.locator(".command code").count() == 0


def test_a_fix_is_applied_by_a_click(open_page):
    page = open_page(DOES_NOT_FIT).answered()
    page.click(".fixes li.fits button >> nth=0")
    page.wait_for_selector(".verdict.fits")
    assert "vllm serve" in page.inner_text(".command code")


def test_another_gpu_is_applied_by_a_click(open_page):
    page = open_page("?model=deepseek-ai/DeepSeek-V3&gpu=2x%20RTX%204090").answered()
    page.click(".fixes li.fits:has-text('instead') button >> nth=0")
    page.wait_for_selector(".verdict.fits")
    assert "RTX 4090" not in page.inner_text(".verdict h2")


def test_sizes_are_rounded_as_in_the_services_sentences(open_page):
    page = open_page("")
    sizes = [2**27, 2**30 + 2**27, 3 * 2**27, 5 * 2**27, 7 * 2**27]
    shown = page.page.evaluate(
        "sizes => import('/web/format.js').then((format) => sizes.map(format.gib))", sizes
    )
    assert shown == [gib(size) for size in sizes]


@pytest.mark.parametrize(
    "title,begins", [("Kubernetes", "apiVersion: apps/v1\n"), ("Helm values", "# vllm-stack")]
)
def test_a_manifest_of_the_judged_command_is_copied(open_page, title, begins):
    page = open_page(FITS).answered()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    manifest = page.locator(f".command details:has-text('{title}')")
    manifest.locator("summary").click()
    shown = manifest.locator("code").text_content()
    assert shown.startswith(begins)
    assert "--max-model-len" in shown
    manifest.locator("button").click()
    manifest.locator("button:has-text('Copied')").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == shown


def test_sliders_end_at_the_models_longest_context(open_page):
    page = open_page(FITS).answered()
    page.locator("input[name=context_length]").press("End")
    page.wait_for_function("new URL(location).searchParams.get('context_length') === '40960'")
    page.wait_for_selector(".verdict:has-text('40k tokens')")


def test_a_term_opens_its_formula(open_page):
    page = open_page(FITS).answered()
    page.click(".terms details:has-text('kv cache') summary")
    shown = page.inner_text(".terms details[open]")
    assert "64 layers" in shown
    assert "kv_cache_planning.py" in shown


def test_a_slider_asks_again_and_the_address_follows(open_page):
    opened = open_page(FITS)
    page = opened.answered()
    cache = ".terms details:has-text('kv cache') data"
    before = page.get_attribute(cache, "value")
    slider = page.locator("input[name=context_length]")
    for _ in range(8):
        slider.press("ArrowRight")
    page.wait_for_function("new URL(location).searchParams.get('context_length') === '16384'")
    page.wait_for_selector(".verdict:has-text('16k tokens')")
    opened.answered()
    page.wait_for_selector(f"{cache}:not([value='{before}'])")
    assert int(page.get_attribute(cache, "value")) == pytest.approx(2 * int(before), rel=0.01)


def test_a_permalink_opens_the_same_answer(open_page):
    page = open_page(FITS).answered()
    page.fill("input[list=gpu-names]", "H100")
    page.keyboard.press("Tab")
    page.wait_for_function("new URL(location).searchParams.get('gpu') === 'H100'")
    page.wait_for_selector("h2:has-text('H100')")
    summary = page.inner_text(".summary")
    again = open_page("?" + urlsplit(page.url).query).answered()
    assert again.inner_text(".summary") == summary


def test_a_sentence_becomes_the_question(open_page):
    page = open_page(NEEDS).answered()
    page.fill("#sentence", "will qwen3 32b awq fit on 2x4090 with 16k context?")
    page.keyboard.press("Enter")
    page.wait_for_selector("h2:has-text('2 × RTX 4090')")
    assert parse_qs(urlsplit(page.url).query)["context_length"] == ["16384"]


def test_options_of_a_sentence_are_named_as_they_were_understood(open_page):
    page = open_page(NEEDS).answered()
    page.fill("#sentence", "gpt-oss-120b on a 4090 with --n-cpu-moe 36")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=n cpu moe 36")
    assert "[object" not in page.inner_text("body")


@pytest.mark.parametrize(
    "sentence, field, value",
    [
        ("qwen3.6-27b text only on an H100", "language_model_only", "true"),
        ("qwen3-8b on an H100 with turboquant kv", "kv_cache_dtype", "turboquant_4bit_nc"),
        ("vllm serve Qwen/Qwen3-8B --enforce-eager on an H100", "enforce_eager", "true"),
    ],
)
def test_all_that_a_sentence_sets_is_asked(open_page, sentence, field, value):
    page = open_page(NEEDS).answered()
    page.fill("#sentence", sentence)
    page.keyboard.press("Enter")
    page.wait_for_selector("h2:has-text('1 × H100')")
    assert parse_qs(urlsplit(page.url).query)[field] == [value]


@pytest.mark.parametrize("width", WIDTHS)
def test_a_comparison_is_drawn_whole_and_a_row_is_asked_by_a_click(open_page, width):
    page = open_page(NEEDS, width=width).answered()
    page.fill("#sentence", "Qwen3-8B or Qwen3-14B on a 4090 or 2x L40S, 16k context?")
    page.keyboard.press("Enter")
    page.wait_for_selector(".ask tbody tr")
    rows = page.eval_on_selector_all(
        ".ask tbody tr", "all => all.map(one => [...one.cells].map(cell => cell.innerText))"
    )
    models = ("Qwen/Qwen3-8B", "Qwen/Qwen3-14B")
    gpus = ("1 × RTX 4090", "2 × L40S")
    assert [tuple(row[:2]) for row in rows] == [*product(models, gpus)]
    assert [row[2] for row in rows] == ["fits", "fits", "does not fit", "fits"]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    table = page.locator(".ask .scroll")
    assert table.evaluate("one => one.scrollWidth <= one.clientWidth")
    page.click(".ask tbody tr:nth-child(4) button")
    page.wait_for_selector("h2:has-text('Qwen/Qwen3-14B · 2 × L40S')")
    assert parse_qs(urlsplit(page.url).query)["context_length"] == ["16384"]


def test_on_a_phone_the_answer_stands_before_the_fields(open_page):
    page = open_page(DOES_NOT_FIT, width=390).answered()
    assert page.locator(".verdict .chip").bounding_box()["y"] < 600
    assert not page.is_visible("input[list=gpu-names]")
    page.click("text=Change the question")
    page.fill("input[list=gpu-names]", "H200")
    page.keyboard.press("Tab")
    page.wait_for_selector(".verdict.fits")


@pytest.mark.parametrize(
    "sentence, summary, heading",
    [
        ("Qwen3-8B or Qwen3-14B on a 4090?", "1 of 2 fit", "Qwen/Qwen3-8B · 1 × RTX 4090"),
        ("plan full fine-tuning of qwen3-8b on 16 H100", "First plan", "16 × H100 SXM"),
        ("cheapest gpu on aws for qwen3-8b", "cheapest", "Qwen/Qwen3-8B"),
    ],
)
def test_what_the_page_does_not_draw_is_answered_in_a_sentence(
    open_page, sentence, summary, heading
):
    page = open_page().answered()
    page.fill("#sentence", sentence)
    page.keyboard.press("Enter")
    page.wait_for_selector(f".ask b:has-text('{summary}')")
    page.wait_for_selector(f"h2:has-text('{heading}')")
    assert page.locator(".problem").count() == 0


def test_a_training_that_ran_out_of_memory_is_drawn_as_one(open_page):
    page = open_page().answered()
    message = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.96 GiB. GPU 0 has a total"
        " capacity of 23.64 GiB of which 1.12 GiB is free. Including non-PyTorch memory, this"
        " process has 22.51 GiB memory in use."
    )
    page.fill("#sentence", f"{message} -- unsloth lora on a 4090, qwen3-8b")
    page.keyboard.press("Enter")
    page.wait_for_selector(".ask b:has-text('ran out of memory')")
    page.wait_for_selector("[aria-pressed=true]:has-text('Training')")


def test_gpus_of_several_kinds_are_counted_by_their_name(open_page):
    page = open_page(
        "?model=Qwen%2FQwen3-8B&quantization=q4_k_m&gpu=RTX+4090+%2B+RTX+3090"
    ).answered()
    assert page.inner_text("h2").endswith("· RTX 4090 + RTX 3090")
    assert "in all" not in page.inner_text(".figures")


def test_a_table_that_comes_late_is_not_drawn_below_another_question(open_page):
    page = open_page().page  # its table is on its way
    page.fill("#sentence", "qlora of qwen3-8b on a 4090 with 4k sequences")
    page.keyboard.press("Enter")
    page.wait_for_selector("h2:has-text('Qwen3-8B')")
    page.wait_for_timeout(600)
    assert page.locator(".heat").count() == 0


def test_a_sentence_about_something_else_is_said_to_be(open_page):
    page = open_page(NEEDS).answered()
    page.fill("#sentence", "what is the weather in Paris?")
    page.keyboard.press("Enter")
    page.wait_for_selector(".ask p:has-text('not a question about')")


def test_names_are_suggested_while_typing(open_page):
    page = open_page(NEEDS).answered()
    page.type("input[list=gpu-names]", "h200")
    page.wait_for_selector("#gpu-names option[value*=H200]", state="attached")
    page.fill("input[list=model-names]", "")
    page.type("input[list=model-names]", "qwen3 8b")
    page.wait_for_selector("#model-names option[value='Qwen/Qwen3-8B']", state="attached")


def test_names_that_only_the_hub_has_follow(open_page):
    page = open_page(NEEDS).answered()
    option = page.locator(f"#model-names option[value='{ONLY_ON_THE_HUB}']")
    for _ in range(8):  # a search waits a second at most, which a busy machine may need by itself
        page.fill("input[list=model-names]", "")
        page.type("input[list=model-names]", "glimmer")
        page.wait_for_timeout(2500)
        if option.count():
            return
    pytest.fail("The Hub's names did not follow.")


@pytest.mark.parametrize("query", [FITS, DOES_NOT_FIT, TRAINING])
@pytest.mark.parametrize("width", [WIDTHS[0], WIDTHS[-1]])
def test_the_facts_of_a_drawn_bar(open_page, url, query, width):
    page = open_page(query, width=width).answered()
    path, body = request_of(page)
    answer = httpx.post(f"{url}{path}", json=body | {"detail": "full"}).json()
    drawn = page.evaluate(DRAWN)
    per_gpu, terms = answer["per_gpu"], [one for one in answer["terms"] if one["bytes"]]
    required = per_gpu["required_bytes"]
    available = per_gpu["budget_bytes"] if path == "/v1/fit" else per_gpu["usable_bytes"]
    scale = 1000 / max(required["high"], available)
    shown = {"fits": "fits", "tight": "tight", "does_not_fit": "does not fit"}[answer["verdict"]]
    widths = [scale * term["bytes"] for term in terms]
    facts = {
        "verdict": drawn["verdict"] == shown,
        "model": answer["model"]["id"] in drawn["title"],
        "GPU": f"{answer['gpu']['count']} × {answer['gpu']['name']}" in drawn["title"],
        "names": [name for name, _, _ in drawn["parts"]] == [term["name"] for term in terms],
        "begins at 0": drawn["parts"][0][1] == 0,
        "no gaps": drawn["parts"][-1][1] == pytest.approx(sum(widths[:-1])),
        "widths": [width for *_, width in drawn["parts"]] == pytest.approx(widths),
        "capacity line": drawn["capacity"] == pytest.approx(scale * available),
        "beyond": drawn["beyond"] == (required["expected"] > available),
        "interval": drawn["interval"]
        == pytest.approx([scale * required["low"], scale * (required["high"] - required["low"])]),
        "label": drawn["label"].startswith(f"{shown}: "),
        "legend": drawn["legend"] == sum(term["bytes"] >= 2**30 / 200 for term in terms),
        "no text is clipped": drawn["clipped"] == [],
        "nothing beyond the window": drawn["widest"] <= width,
    }
    assert [name for name, holds in facts.items() if not holds] == []


def test_without_a_gpu_the_need_and_the_smallest_gpus_are_shown(open_page):
    page = open_page(NEEDS).answered()
    assert page.locator(".needs meter").count() >= 2
    page.click(".needs li button >> nth=0")
    page.wait_for_selector(".verdict:is(.fits, .tight)")


def test_training_compares_methods(open_page):
    page = open_page(TRAINING).answered()
    assert page.locator(".others li").count() == 2
    page.click(".others button:has-text('full')")
    page.wait_for_selector(".verdict.does_not_fit")


def test_the_heat_map_shows_the_wall_and_asks_by_a_click(open_page):
    page = open_page(FITS).answered()
    page.wait_for_selector(".heat td.fits")
    assert page.locator(".heat td.does_not_fit").count() > 0
    assert page.locator(".heat td").count() - 1 == 7 * 8
    page.click(".heat td.does_not_fit button >> nth=0")
    page.wait_for_selector(".verdict.does_not_fit")


def test_what_else_fits_is_found_and_taken(open_page):
    page = open_page(DOES_NOT_FIT).answered()
    page.click(".elsewhere > button")
    page.wait_for_selector(".elsewhere tbody tr")
    assert page.locator(".elsewhere tbody tr").count() <= 5
    page.click(".elsewhere tbody button >> nth=0")
    page.wait_for_selector(".verdict.fits")
    page.fill(".elsewhere input[type=search]", "qwen3")
    page.click(".elsewhere form button")
    page.wait_for_selector(".elsewhere table >> nth=1")
    assert "Qwen3" in page.inner_text(".elsewhere table >> nth=1")


def test_every_model_that_fits_is_asked_about_as_it_fits(open_page):
    page = open_page().answered()
    page.fill("#sentence", "which models fit on a 3090?")
    page.keyboard.press("Enter")
    page.wait_for_selector(".ask tbody tr")
    page.wait_for_selector("h2:has-text('1 × RTX 3090')")
    for number in range(1, 6):
        page.click(f".ask tbody tr:nth-child({number}) button")
        model = page.inner_text(f".ask tbody tr:nth-child({number}) button")
        page.wait_for_selector(f"h2:has-text('{model} · 1 × RTX 3090')")
        assert page.inner_text(".verdict .chip") in ("fits", "tight")


def test_gpus_to_take_are_a_table_and_taken_by_a_click(open_page):
    page = open_page(DOES_NOT_FIT).answered()
    page.fill("#sentence", "which gpu for llama 3.3 70b?")
    page.keyboard.press("Enter")
    page.wait_for_selector(".ask tbody tr")
    page.click(".ask tbody button >> nth=0")
    page.wait_for_selector("h2:has-text('Llama-3.3-70B-Instruct · ')")
    page.wait_for_selector(".verdict.fits")


@pytest.mark.parametrize(
    ("sentence", "heading"),
    [
        ("Qwen3-32B or gpt-oss-20b on a 4090?", "openai/gpt-oss-20b · 1 × RTX 4090"),
        ("Qwen3-32B or Qwen3-8B on a T4 or a 4090?", "Qwen/Qwen3-8B · 1 × RTX 4090"),
    ],
)
def test_below_a_table_its_best_row_is_drawn(open_page, sentence, heading):
    page = open_page(DOES_NOT_FIT).answered()
    page.fill("#sentence", sentence)
    page.keyboard.press("Enter")
    page.wait_for_selector(f"h2:has-text('{heading}')")


def test_a_log_is_explained(open_page):
    page = open_page(FITS).answered()
    page.fill("textarea", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.")
    page.click(".log form button")
    page.wait_for_selector(".log [role=status] li")


def test_a_problem_holds_its_remedies_as_buttons(open_page):
    page = open_page(UNKNOWN).answered()
    assert page.locator(".problem button").count() >= 1
    page.click(".problem button >> nth=0")
    page.wait_for_selector(".verdict")


def test_a_problem_speaks_of_the_page_and_not_of_paths(open_page):
    page = open_page("?model=7b&gpu=" + quote("RTX 4900")).answered()
    told = page.inner_text(".problem")
    assert "Use a name such as" in told
    assert "/v1/" not in told
    assert page.inner_text(".problem button >> nth=0") == "RTX 4090"


def test_nothing_typed_becomes_markup(open_page):
    hostile = '<img src=x onerror="window.hostile=1">'
    page = open_page(f"?model={quote(hostile)}&gpu={quote(hostile)}").answered()
    page.fill("#sentence", hostile)
    page.keyboard.press("Enter")
    page.fill("textarea", hostile)
    page.click(".log form button")
    page.wait_for_timeout(500)
    assert page.evaluate("window.hostile") is None
    assert page.locator("img").count() == 0


def test_a_network_that_is_cut_is_explained_and_comes_back(open_page):
    opened = open_page(FITS)
    page = opened.answered()
    page.context.set_offline(True)
    page.fill("input[list=gpu-names]", "H100")
    page.keyboard.press("Tab")
    page.wait_for_selector(".problem:has-text('no answer')")
    page.context.set_offline(False)
    page.fill("input[list=gpu-names]", "H200")
    page.keyboard.press("Tab")
    page.wait_for_selector(".verdict.fits")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("locale,verdict", [("en-US", "fits"), ("zh-CN", "装得下")])
def test_it_is_accessible_and_whole_at_every_size(
    open_page, tmp_path, width, dark, locale, verdict
):
    from axe_playwright_python.base import AXE_FILE_PATH

    page = open_page(FITS, width=width, dark=dark, locale=locale).answered()
    page.wait_for_selector(".heat td.fits")
    assert page.inner_text(".verdict .chip") == verdict
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.evaluate(AXE_FILE_PATH.read_text())
    violations = page.evaluate("axe.run()")["violations"]
    assert [(one["id"], [node["html"] for node in one["nodes"]]) for one in violations] == []
    page.screenshot(path=tmp_path / "page.png", full_page=True)
    assert (tmp_path / "page.png").stat().st_size > 10_000


def test_the_page_and_the_services_pictures_place_the_same(open_page, url):
    """One geometry, written twice: in pictures.js and in fitgauge.pictures.geometry."""
    page = open_page(FITS).answered()
    path, body = request_of(page)
    answer = httpx.post(f"{url}{path}", json=body | {"detail": "full"}).json()
    required, available = answer["per_gpu"]["required_bytes"], answer["per_gpu"]["budget_bytes"]
    placed = page.evaluate(
        """async ([terms, required, available]) => {
            const {marks, segments} = await import('/web/pictures.js');
            const parts = segments(terms, required, available);
            return [
                parts.map((one) => [one.term.name, one.left, one.width, one.colour]),
                Object.values(marks(required, available)),
            ];
        }""",
        [answer["terms"], required, available],
    )
    terms = [msgspec.convert(term, TermAnswer) for term in answer["terms"]]
    size = Bytes(**required)
    parts = [
        [one.name, one.left, one.width, one.colour] for one in segments(terms, size, available)
    ]
    assert placed == [parts, list(marks(size, available))]
