"""`fitgauge check -f`: files, folders, standard input, formats of the answer, exit codes."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from fitgauge.cli import main

DATA = Path(__file__).parents[1] / "services/manifests/data"
FITS = DATA / "deployment-vllm.yaml"
TIGHT = DATA / "deployment-tgi.yaml"
NO_GPU = DATA / "compose-sglang.yaml"


def run(*arguments, text=None, columns=80):
    environment = {"HF_HUB_OFFLINE": "1", "COLUMNS": str(columns)}
    return CliRunner().invoke(main, ["check", *map(str, arguments)], input=text, env=environment)


@pytest.mark.parametrize(
    "files, code",
    [
        ((FITS,), 0),
        ((TIGHT,), 3),
        ((FITS, TIGHT), 3),
        ((NO_GPU,), 2),
        ((FITS, NO_GPU), 2),
        ((TIGHT, NO_GPU), 2),
    ],
)
def test_the_exit_code_is_that_of_the_worst(files, code):
    assert run(*(part for file in files for part in ("-f", file))).exit_code == code


def test_what_does_not_fit_is_worse_than_no_answer():
    assert run("-f", FITS, "-f", NO_GPU, "--gpu", "T4", "--context-length", "30000").exit_code == 1


def test_a_gpu_is_set_where_a_manifest_names_none():
    result = run("-f", NO_GPU, "--gpu", "L40S", "--json")
    assert result.exit_code == 0
    (server,) = json.loads(result.output)["servers"]
    assert server["request"]["gpu"] == "L40S"


def test_standard_input_is_a_file():
    result = run("-f", "-", "--json", text=FITS.read_text("utf-8"))
    assert [server["file"] for server in json.loads(result.output)["servers"]] == ["stdin"]


def test_a_folder_is_read_without_hidden_files(tmp_path):
    for name in ("b.yml", "a.yaml", ".git/c.yaml", "c.json", "d.txt"):
        path = tmp_path / "k8s" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(FITS.read_text("utf-8"), "utf-8")
    answer = json.loads(run("-f", tmp_path / "k8s", "--json").output)
    assert [Path(server["file"]).name for server in answer["servers"]] == [
        "a.yaml", "b.yml", "c.json",
    ]  # fmt: skip


def test_every_line_fits_eighty_columns_but_names_and_notes():
    lines = run("-f", FITS, "-f", TIGHT).output.splitlines()
    wide = [line for line in lines if len(line) > 80]
    assert all("deployment-" in line for line in wide)
    assert any(line.startswith("fits") for line in lines)
    assert any(line.startswith("tight") for line in lines)


def test_sarif_and_markdown_are_printed():
    assert json.loads(run("-f", TIGHT, "--sarif").output)["runs"][0]["results"]
    assert run("-f", TIGHT, "--markdown").output.startswith("### ")


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("Qwen/Qwen3-8B", "--gpu", "L4"),
        ("Qwen/Qwen3-8B", "--sarif"),
        ("Qwen/Qwen3-8B", "-f", FITS),
        ("-f", "missing.yaml"),
    ],
)
def test_misuse_is_no_answer(arguments):
    assert run(*arguments).exit_code == 2
