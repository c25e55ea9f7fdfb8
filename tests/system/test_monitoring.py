"""The dashboard and the alert rules: every metric in them is one that the service shows, and
promtool proves the expressions."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import get_args

import pytest
import yaml

from fitgauge.api.problems import RequestCode
from fitgauge.errors import ErrorCode
from fitgauge.settings import Settings
from hub_stand_in import HubStandIn, safetensors_repository
from live import client, serving
from live.conformance import OPERATIONS

FILES = Path(__file__).parents[2] / "helm" / "fitgauge" / "files"
PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(
    PROMTOOL is None and not os.environ.get("FITGAUGE_SYSTEM"),
    reason="no promtool: apt-get install prometheus",
)


def expressions():
    """Return every expression of the rules and of the dashboard, by what it is for."""
    rules = yaml.safe_load(FILES.joinpath("alerts.yaml").read_text())
    named = {
        rule.get("alert") or rule["record"]: rule["expr"]
        for group in rules["groups"]
        for rule in group["rules"]
    }
    panels = json.loads(FILES.joinpath("dashboard.json").read_text())["panels"]
    for panel in panels:
        for target in panel.get("targets", []):
            named[f"{panel['title']} {target['refId']}"] = target["expr"]
    return named


EXPRESSIONS = expressions()


def metrics_of(expression):
    return set(re.findall(r"(?<![:\w])(?:fitgauge|process)_\w+", expression))


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """Return what /metrics shows of a service with everything that has metrics, in use."""
    catalog = tmp_path_factory.mktemp("catalog") / "own.toml"
    catalog.write_text('[names]\n"our card" = "RTX 4090"\n')
    settings = Settings(
        log_level="critical", catalog=str(catalog), shared_state="valkey://127.0.0.1:9/0"
    )
    with (
        HubStandIn(safetensors_repository("acme/tiny")) as hub,
        serving(hub, settings) as url,
        client(url) as http,
    ):
        http.post("/v1/fit", json={"model": "acme/tiny", "gpu": "our card"})
        http.get("/v1/models/acme/none")
        return http.get("/metrics").text


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_a_metric_of_an_expression_is_shown(name, shown):
    samples = {re.split(r"[{ ]", line)[0] for line in shown.splitlines()}
    metrics = metrics_of(EXPRESSIONS[name])
    recorded = re.findall(r"\bjob:\w+:\w+", EXPRESSIONS[name])
    assert metrics or recorded
    assert metrics <= samples
    assert set(recorded) <= set(EXPRESSIONS)


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_a_code_and_a_route_of_an_expression_are_those_of_the_service(name):
    codes = {*get_args(ErrorCode), *get_args(RequestCode)}
    for text in re.findall(r'code=~?"([^"]*)"', EXPRESSIONS[name]):
        assert set(text.split("|")) <= codes
    for route in re.findall(r'route="([^"]*)"', EXPRESSIONS[name]):
        assert route in {operation.path for operation in OPERATIONS}


def test_every_alert_is_tested():
    tests = FILES.joinpath("alerts_test.yaml").read_text()
    alerts = [name for name in EXPRESSIONS if name.startswith("Fitgauge")]
    assert len(alerts) > 5
    assert [name for name in alerts if f"alertname: {name}" not in tests] == []


def promtool(*arguments, **options):
    done = subprocess.run([PROMTOOL, *arguments], capture_output=True, text=True, **options)
    return done.returncode, done.stdout + done.stderr


@needs_promtool
def test_the_rules_fire_where_they_should_and_only_there():
    assert promtool("test", "rules", "alerts_test.yaml", cwd=FILES)[0] == 0


@needs_promtool
def test_the_expressions_of_the_dashboard_are_prometheus_own(tmp_path):
    rules = [
        {"record": "checked", "expr": re.sub(r"\$__rate_interval", "5m", expression)}
        for name, expression in EXPRESSIONS.items()
        if not name.startswith(("Fitgauge", "job:"))
    ]
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    code, said = promtool("check", "rules", "--lint=none", str(path))
    assert (code, f"{len(rules)} rules" in said) == (0, True), said


@needs_promtool
def test_what_is_shown_is_written_as_prometheus_wants_it(shown):
    code, said = promtool("check", "metrics", input=shown)
    assert code == 0, said
