"""What the plugin holds ready-made agrees with the service, without the hosts' environments."""

import json
import re
from pathlib import Path

import yaml

from fitgauge import __version__
from fitgauge.services.tools.faces import TOOLS

ROOT = Path(__file__).parents[2]
MOST_DESCRIPTION = 100
"""Characters of a description in the MCP registry."""
URL_TEMPLATE = r"(https?://[^\s]+|\{[a-zA-Z_][a-zA-Z0-9_]*\}[^\s]*)"
"""Of a remote, by the registry's docs/reference/server-json/draft/server.schema.json."""


def test_the_skill_names_every_tool_and_no_other():
    text = (ROOT / "plugin/skills/fitgauge/SKILL.md").read_text("utf-8")
    _, head, body = text.split("---\n", 2)
    assert yaml.safe_load(head)["name"] == "fitgauge"
    assert set(re.findall(r"\| `(\w+)` \|", body)) == set(TOOLS)


def test_the_entry_of_the_registry_is_of_this_version():
    entry = json.loads((ROOT / "plugin/server.json").read_text("utf-8"))
    assert entry["version"] == __version__
    assert len(entry["description"]) <= MOST_DESCRIPTION
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", entry["name"])
    assert entry["$schema"].endswith("/schemas/2025-12-11/server.schema.json")
    for remote in entry["remotes"]:
        assert re.fullmatch(URL_TEMPLATE, remote["url"])
        assert set(re.findall(r"\{(\w+)\}", remote["url"])) == set(remote["variables"])
