"""The page as it is served: complete, small, from here alone, and under a strict policy."""

import gzip
import re
from pathlib import Path

import httpx
import pytest

from fitgauge.api.controllers.page import FILES

MOST_BYTES = 60_000
LONGEST_MODULE = 300
MODULES = [name for name in FILES if name.endswith(".js") and name != "vendor.js"]


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_served_under_the_policy_and_once(http, name):
    path = "/" if name == "index.html" else f"/web/{name}"
    response = httpx.get(http.base_url.join(path))
    assert response.status_code == 200
    assert response.content == FILES[name].content
    policy = response.headers["Content-Security-Policy"]
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    again = httpx.get(http.base_url.join(path), headers={"If-None-Match": response.headers["ETag"]})
    assert again.status_code == 304
    assert again.content == b""


def test_the_page_names_the_documentation_where_the_service_has_it(http):
    page = httpx.get(http.base_url).text
    docs = httpx.get(http.base_url.join("/docs/"))
    assert ('<link rel="help"' in page) == (docs.status_code == 200)


@pytest.mark.parametrize(
    "path", ["/web/", "/web/nothing.js", "/web/../page.py", "/web/%2e%2e/app.py"]
)
def test_nothing_else_is_served(http, path):
    assert httpx.get(f"{str(http.base_url).rstrip('/')}{path}").status_code == 404


def test_the_whole_page_is_small():
    assert len(gzip.compress(b"".join(file.content for file in FILES.values()))) <= MOST_BYTES


@pytest.mark.parametrize("name", MODULES)
def test_a_module_is_short_and_says_what_it_is(name):
    lines = FILES[name].content.decode().splitlines()
    assert len(lines) <= LONGEST_MODULE
    assert lines[0].startswith("// ")


@pytest.mark.parametrize("name", [*MODULES, "index.html", "style.css"])
def test_nothing_comes_from_elsewhere_and_no_text_becomes_markup(name):
    text = FILES[name].content.decode()
    assert not re.search(r"https?://", text)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", text)


def test_every_import_is_a_file_of_the_page():
    for name in MODULES:
        folder = name.rpartition("/")[0]
        for target in re.findall(r"from '([^']+)'", FILES[name].content.decode()):
            parts = [part for part in f"{folder}/{target}".split("/") if part not in ("", ".")]
            path: list[str] = []
            for part in parts:
                path = path[:-1] if part == ".." else [*path, part]
            assert "/".join(path) in FILES, (name, target)


def test_every_module_is_loaded_at_once_and_the_first_text_is_the_pages_own():
    index = FILES["index.html"].content.decode()
    preloaded = re.findall(r'rel="modulepreload" href="web/([^"]+)"', index)
    assert sorted([*preloaded, "main.js"]) == sorted([*MODULES, "vendor.js"])
    english = FILES["texts/en.js"].content.decode()
    for text in re.findall(r"<(?:h1|p)>([^<]+)<", index):
        assert f"'{text}'" in english


def test_both_languages_have_the_page_texts():
    keys = {
        code: set(re.findall(r"^  '([^']+)':", FILES[f"texts/{code}.js"].content.decode(), re.M))
        for code in ("en", "zh")
    }
    assert keys["en"] <= keys["zh"]
    own = {key.partition(".")[0] for key in keys["zh"] - keys["en"]}
    assert own <= {"name", "code", "assumed"}


def test_every_code_has_a_chinese_text():
    chinese = FILES["texts/zh.js"].content.decode()
    pages = Path(__file__).parents[2] / "docs" / "CODES.md"
    codes = set(re.findall(r"^\| `([a-z0-9-]+)` \|", pages.read_text("utf-8"), re.M))
    assert len(codes) > 100
    assert codes == set(re.findall(r"^  'code\.([^']+)'", chinese, re.M))


def test_names_are_found_by_their_words(http):
    names = http.get("/v1/names", params={"search": "qwen3 8b"}).json()
    assert names["models"][0] == "Qwen/Qwen3-8B"
    assert names["gpus"] == []
    assert "H200" in " ".join(http.get("/v1/names", params={"search": "h200"}).json()["gpus"])
    assert len(http.get("/v1/names").json()["models"]) == 20


@pytest.mark.parametrize("query", ["search=a&search=b", "find=a", f"search={'a' * 201}"])
def test_a_search_that_is_none_is_refused(http, query):
    assert http.get(f"/v1/names?{query}").status_code == 422
