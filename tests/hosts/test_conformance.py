"""The official conformance suite of the Model Context Protocol.

Most of its scenarios call tools, resources and prompts of the suite: a server of tests has them, on
the HTTP stack that the service has. Those that need none are run against the service itself."""

import re

import pytest

from hosts.conftest import ENVIRONMENTS, HERE, attempt, node
from hosts.suite_server import serving_suite

pytestmark = pytest.mark.filterwarnings("ignore:The logging capability is deprecated")

REVISIONS = ("2026-07-28", "2025-11-25")
MOST_EXPECTED = 6
OF_THE_SERVICE = {
    "2026-07-28": (
        "caching", "dns-rebinding-protection", "http-header-validation",
        "input-required-result-unsupported-methods", "prompts-list", "resources-list",
        "sep-2164-resource-not-found", "tools-list",
    ),
    "2025-11-25": (
        "dns-rebinding-protection", "ping", "prompts-list", "resources-list", "server-initialize",
        "tools-list",
    ),
}  # fmt: skip
SCENARIOS = [(revision, name) for revision, names in OF_THE_SERVICE.items() for name in names]


def conformance(url: str, *options: str) -> tuple[bool, str]:
    """Run the suite; return whether it is content, and its report."""
    suite = str(ENVIRONMENTS / "node_modules/.bin/conformance")
    return attempt(node(), suite, "server", "--url", url, *options)


def failed(report: str) -> set[str]:
    """Return the scenarios that failed of those that the revision requires; the suite counts one
    with warnings alone as passed."""
    summary, _, not_scored = report.partition("=== SUMMARY ===")[2].partition("Not scored")
    assert "Total:" in summary
    every = re.findall(r"✗ ([\w-]+):", summary)
    return set(every) - set(re.findall(r"✗ ([\w-]+) \(", not_scored))


@pytest.fixture(scope="module")
def suite_url():
    with serving_suite() as url:
        yield url


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_revision_is_spoken_as_it_requires(revision, suite_url):
    lines = (HERE / f"baseline-{revision}.yml").read_text("utf-8").splitlines()
    expected = dict(re.findall(r"^  - ([\w-]+) # (.+)$", "\n".join(lines), re.MULTILINE))
    assert len(expected) == sum(line.startswith("  - ") for line in lines) <= MOST_EXPECTED
    _, report = conformance(suite_url, "--requirements", revision)
    assert failed(report) == set(expected)


@pytest.mark.parametrize("revision,scenario", SCENARIOS)
def test_the_service_passes_what_needs_no_tool_of_the_suite(revision, scenario, url):
    passed, report = conformance(f"{url}/mcp", "--spec-version", revision, "--scenario", scenario)
    assert passed, report
