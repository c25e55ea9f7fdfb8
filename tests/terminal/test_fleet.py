"""`fitgauge fleet`: its table, lines of JSON, results that it reads again, parts, exit codes."""

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from fitgauge.cli import main
from fitgauge.commands.fleet import fleet as fleet_command

DOCS = Path(__file__).parents[2] / "docs" / "fleet"
FLEET = """
[[models]]
model = "Qwen/Qwen3-8B"

[[models]]
model = "openai/gpt-oss-20b"
replicas = 3

[[gpus]]
gpu = "H100"
count = 8
usd_per_hour = 2.0

[[gpus]]
gpu = "RTX 4090"
per_machine = 1
usd_per_hour = 0.5
"""


@pytest.fixture
def fleet(tmp_path, monkeypatch):
    """Return the result of the command on a file's text."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.chdir(tmp_path)

    def run(*arguments, text=FLEET, name="fleet.toml"):
        tmp_path.joinpath(name).write_text(text, "utf-8")
        return CliRunner().invoke(main, ["fleet", name, *arguments], env={"COLUMNS": "120"})

    return run


def lines(result):
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_the_first_line_is_the_summary(fleet):
    result = fleet()
    assert result.exit_code == 0
    assert result.stdout.startswith("2 of 2 models fit; fewest GPUs: 4")


def test_lines_of_json_are_rows_then_the_answer(fleet):
    *rows, answer = lines(fleet("--json"))
    assert [row["kind"] for row in rows] == ["row"] * 4
    assert answer["kind"] == "answer"
    fewest, cheapest = answer["plans"]
    assert (fewest["gpus"], cheapest["usd_per_hour"]) == (4, 2.0)


def test_rows_of_a_results_file_are_not_answered_again(fleet, tmp_path):
    first = lines(fleet("--json", "--results", "rows.ndjson"))
    file = tmp_path / "rows.ndjson"
    whole = file.read_bytes()
    assert whole.count(b"\n") == 4
    file.write_bytes(whole[:-40])  # as an interrupted run leaves it
    assert lines(fleet("--json", "--results", "rows.ndjson"))[:-1] == first[:-1]
    again = lines(fleet("--json", "--results", "rows.ndjson"))
    assert (again[:-1], again[-1]["skipped"]) == (first[:-1], 4)


def test_parts_in_a_folder_are_the_whole(fleet, tmp_path, monkeypatch):
    monkeypatch.setenv("JOB_COMPLETION_INDEX", "1")
    for part in ("1/2", "2"):
        result = fleet("--json", "--shard", part, "--results", "results")
        assert (result.exit_code, lines(result)[-1]["plans"]) == (0, [])
    names = sorted(path.name for path in tmp_path.joinpath("results").iterdir())
    assert names == ["1-of-2.ndjson", "2-of-2.ndjson"]
    whole = lines(fleet("--json", "--results", "results"))
    assert (whole[-1]["rows"], whole[-1]["skipped"]) == (4, 4)
    assert len(whole[-1]["plans"]) == 2


@pytest.mark.parametrize("part", ["0/2", "3/2", "2", "a/b", "1/", "-1/2"])
def test_a_part_that_is_none_is_refused(fleet, part):
    assert fleet("--shard", part).exit_code == 2


@pytest.mark.parametrize(
    "old, new, code",
    [
        ("Qwen/Qwen3-8B", "no-such-model-at-all", 2),
        ('gpu = "H100"', 'gpu = "GPU of 1899"', 2),
        ("count = 8", "counts = 8", 2),
        ("Qwen/Qwen3-8B", "meta-llama/Llama-3.1-405B", 1),
        ("[[models]]", "[[models", 2),
    ],
)
def test_exit_codes(fleet, old, new, code):
    assert fleet(text=FLEET.replace(old, new, 1)).exit_code == code


def test_a_part_has_no_verdict(fleet):
    text = FLEET.replace("Qwen/Qwen3-8B", "meta-llama/Llama-3.1-405B")
    assert fleet("--shard", "1/2", text=text).exit_code == 0


def test_what_is_wrong_is_named_with_its_line(fleet):
    result = fleet(text=FLEET.replace("replicas = 3", "replica = 3"))
    assert result.stdout.startswith("1 of 1 models fit")
    assert "line 7: Unknown key 'replica'" in result.stdout


def test_a_release_against_another(fleet):
    result = fleet("--engine-version", "0.33", "--against", "0.24", "--json")
    *_, answer = lines(result)
    assert (answer["engine"], answer["before"], answer["after"]) == ("vllm", "0.24", "0.33")
    assert result.exit_code == (1 if answer["stop"] else 0)


def test_a_release_that_was_not_read_is_unknown(fleet):
    result = fleet("--engine-version", "0.99", "--against", "0.33")
    assert result.exit_code == 2
    assert "0.99 is unknown" in result.stderr
    assert fleet("--engine-version", "0.99").exit_code == 2


def test_drift_takes_no_results(fleet):
    assert fleet("--against", "0.33", "--results", "rows.ndjson").exit_code == 2


def test_progress_is_on_standard_error(fleet):
    models = "\n".join(f'[[models]]\nmodel = "{size}b"' for size in range(1, 31))
    result = fleet("--json", text=f"{models}\n[[gpus]]\ngpu = 'H100'\n")
    assert "30 of 30 models" in result.stderr
    assert all(line["kind"] == "row" for line in lines(result)[:-1])


def test_the_job_of_the_page_runs_as_many_parts_as_it_has_pods(tmp_path):
    volume, job = yaml.safe_load_all(DOCS.joinpath("job.yaml").read_text("utf-8"))
    spec = job["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    name, file, *rest = container["args"]
    options = dict(zip(rest[::2], rest[1::2], strict=True))
    assert (spec["completionMode"], str(spec["completions"])) == ("Indexed", options["--shard"])
    assert fleet_command.make_context(name, [str(DOCS / Path(file).name), *rest])
    mounts = {one["mountPath"]: one["name"] for one in container["volumeMounts"]}
    claims = {one["name"]: one for one in spec["template"]["spec"]["volumes"]}
    claim = claims[mounts[options["--results"]]]["persistentVolumeClaim"]["claimName"]
    assert claim == volume["metadata"]["name"]
