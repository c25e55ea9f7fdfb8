"""The documentation at /docs: where it is built, each page runs its own scripts alone."""

from base64 import b64encode
from hashlib import sha256

import pytest
from litestar.testing import create_test_client

from fitgauge.api.controllers import docs
from fitgauge.api.problem_responses import on_request_error
from fitgauge.api.problems import RequestError

SCRIPT = "start('<b>')"
HASH = b64encode(sha256(SCRIPT.encode()).digest()).decode()
PAGES = {
    "index.html": "<h1>Fitgauge</h1>",
    "hosts/index.html": f"<h1>Hosts</h1><script>{SCRIPT}</script><script src='../a.js'></script>",
    "a.js": "search()",
}


@pytest.fixture
def site(tmp_path, monkeypatch):
    """Provide a client of a service whose documentation is built."""
    for name, text in PAGES.items():
        tmp_path.joinpath(name).parent.mkdir(exist_ok=True)
        tmp_path.joinpath(name).write_text(text)
    monkeypatch.setattr(docs, "FILES", docs.read_site(tmp_path))
    with create_test_client(docs.DocsController) as client:
        yield client


@pytest.mark.parametrize(
    "path, name",
    [("/docs/", "index.html"), ("/docs/hosts/", "hosts/index.html"), ("/docs/a.js", "a.js")],
)
def test_a_page_is_served_once(site, path, name):
    response = site.get(path)
    assert response.status_code == 200
    assert response.text == PAGES[name]
    assert site.get(path, headers={"If-None-Match": response.headers["ETag"]}).status_code == 304


@pytest.mark.parametrize("path, target", [("/docs", "docs/"), ("/docs/hosts", "hosts/")])
def test_the_address_of_a_page_ends_in_a_slash_under_every_prefix(site, path, target):
    response = site.get(path, follow_redirects=False)
    assert response.is_redirect
    assert response.headers["Location"] == target


def test_a_policy_allows_the_inline_scripts_of_its_own_page_alone(site):
    scripts = {
        path: next(
            rule
            for rule in site.get(path).headers["Content-Security-Policy"].split("; ")
            if rule.startswith("script-src")
        )
        for path in ("/docs/", "/docs/hosts/")
    }
    assert scripts == {
        "/docs/": "script-src 'self'",
        "/docs/hosts/": f"script-src 'self' 'sha256-{HASH}'",
    }


@pytest.mark.parametrize("path", ["/docs/nothing", "/docs/../index.html", "/docs/%2e%2e/docs.py"])
def test_nothing_else_is_served(site, path):
    assert site.get(path).status_code == 404


def test_a_service_without_it_says_how_it_is_built(monkeypatch):
    monkeypatch.setattr(docs, "FILES", {})
    with create_test_client(
        docs.DocsController, exception_handlers={RequestError: on_request_error}
    ) as client:
        problem = client.get("/docs/hosts/").json()
    assert (problem["status"], problem["code"]) == (404, "unknown-path")
    assert "make docs" in problem["hint"]
