"""The terminal checks own catalogs, and follows the one that is set."""

import json

import pytest
from click.testing import CliRunner

from fitgauge.catalog.overlay_file import schema
from fitgauge.cli import main

LAB = {
    "id": "lab-x1",
    "name": "Lab X1",
    "vendor": "NVIDIA",
    "marketed_bytes": 48 * 10**9,
    "usable": 47 * 10**9,
}


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run a command beside files of these contents; FITGAUGE_CATALOG is set where `catalog`
    names one."""
    monkeypatch.chdir(tmp_path)

    def ran(*arguments, files=(), catalog=None, **environment):
        for name, contents in dict(files).items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(contents)
        variables = {"FITGAUGE_CATALOG": catalog, "HF_HUB_OFFLINE": "1", **environment}
        return CliRunner().invoke(main, arguments, env=variables)

    return ran


def test_a_sound_catalog_is_told_with_what_it_makes(run):
    told = run(
        "catalog",
        "check",
        "own.json",
        files={"own.json": json.dumps({"accelerators": [LAB], "quotas": {"L4": 2}})},
    )
    assert told.exit_code == 0
    assert "own.json: valid." in told.output
    assert "1 quotas" in told.output


def test_a_folder_is_checked_as_one_catalog(run):
    files = {
        "mounted/a.json": json.dumps({"accelerators": [LAB]}),
        "mounted/b.toml": 'names = {lab = "lab-x1"}',
        "mounted/.c.json": "{",
    }
    told = run("catalog", "check", "mounted", files=files)
    assert told.exit_code == 0
    assert "a.json, b.toml: valid." in told.output


@pytest.mark.parametrize(
    "path, files, told",
    [
        (
            "own.toml",
            {"own.toml": "[quotas]\nL4 = -1"},
            "own.toml, line 2: quotas, 'L4': it must be at least 0.",
        ),
        (
            "own.yaml",
            {"own.yaml": "quotas: {}"},
            "own.yaml: the name of an overlay must end in .toml or .json.",
        ),
        ("mounted", {"mounted/readme.md": ""}, "mounted: a folder without a .toml or .json file."),
        (
            "mounted",
            {
                "mounted/a.json": '{"names": {"x": "L4"}}',
                "mounted/b.json": '{"names": {"X": "T4"}}',
            },
            "b.json: names, 'X': named twice.",
        ),
        (
            "mounted",
            {f"mounted/{n}.json": " " * 2**19 + "{}" for n in range(3)},
            "mounted: more than 1048576 bytes in all.",
        ),
    ],
)
def test_a_bad_catalog_is_exit_code_2_with_file_row_and_field(run, path, files, told):
    refused = run("catalog", "check", path, files=files)
    assert refused.exit_code == 2
    assert told in refused.output


def test_the_schema_is_printed(run):
    assert json.loads(run("catalog", "schema").output) == schema()


def test_commands_follow_the_catalog_that_is_set(run):
    files = {"own.json": json.dumps({"accelerators": [LAB], "names": {"rig": "2x lab-x1"}})}
    assert "lab-x1" in run("gpus", "lab", files=files, catalog="own.json").output
    checked = run("check", "7b", "rig", "--json", catalog="own.json")
    assert json.loads(checked.output)["gpu"] == {"id": "lab-x1", "name": "Lab X1", "count": 2}


@pytest.mark.parametrize("command", [("gpus",), ("check", "7b", "L4"), ("serve", "--port", "0")])
def test_a_bad_catalog_ends_every_command_with_exit_code_2(run, command):
    refused = run(*command, files={"own.json": '{"quotas": {"L4": "two"}}'}, catalog="own.json")
    assert refused.exit_code == 2
    sentence = "own.json, line 1: quotas, 'L4': it must be a whole number, not text."
    assert sentence in refused.output


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "often", "1e9"])
def test_a_catalog_is_looked_at_neither_all_the_time_nor_never(run, seconds):
    refused = run("serve", FITGAUGE_CATALOG_SECONDS=seconds)
    assert refused.exit_code == 2
    assert "FITGAUGE_CATALOG_SECONDS" in refused.output
