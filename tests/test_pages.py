"""The pages for people: every command runs, every link leads somewhere, every page is in the site.

A command of a block of `sh`, or after `$ ` in a block of output, is run here without a network: by
the command line, by the service, by Helm's own library."""

import os
import re
import shlex
import shutil
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import click
import helm_python
import pytest
import yaml
from click.testing import CliRunner
from litestar.testing import TestClient

from checkpoints import gguf_bytes, write_folder
from fitgauge.app import create_app
from fitgauge.cli import COMMANDS, main
from fitgauge.hub import Hub, HubSettings
from fitgauge.settings import Settings
from live import PATIENCE
from live.conformance import OPERATIONS, operation_at

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text("utf-8")
    for path in sorted((*ROOT.glob("*.md"), *DOCS.rglob("*.md")))
}
SITE = tomllib.loads(ROOT.joinpath("zensical.toml").read_text("utf-8"))["project"]
SERVERS = {"serve", "mcp", "slack", "measure", "train-measure", "snapshot"}
"""Commands that run until they are stopped, run an engine or read the Hub: here only their options
are read."""
REFERENCE = {"docs/api.md", "docs/command.md"}
"""Pages written from the code, which list everything and show how to do nothing."""

EXIT = {"fits": 0, "does not fit": 1, "tight": 3}
"""Exit codes by what a comment after a command promises; without one every answer is right."""

ANSWERS = {0, 1, 3, 4}
_BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def commands() -> Iterator[str]:
    """Yield every command of the pages."""
    for page, text in PAGES.items():
        for indent, language, block in _BLOCK.findall("" if page in REFERENCE else text):
            lines = [line.removeprefix(indent).strip() for line in block.splitlines()]
            if language == "sh":
                yield from filter(None, lines)
            else:
                yield from (line[2:] for line in lines if line.startswith("$ "))


def words_of(line: str) -> list[str]:
    """Return the words of a command, without variables set before it."""
    words = shlex.split(line, comments=True)
    while re.match(r"[A-Z_]+=", words[0]):
        words.pop(0)
    return [Path(words[0]).name, *words[1:]]


BY_PROGRAM: dict[str, list[list[str]]] = {}
PROMISED: dict[str, int] = {}
for _line in sorted(set(commands())):
    _program, *_arguments = words_of(_line)
    if _arguments not in BY_PROGRAM.setdefault(_program, []):
        BY_PROGRAM[_program].append(_arguments)
    if _line.partition("# ")[2] in EXIT:
        PROMISED[shlex.join(_arguments)] = EXIT[_line.partition("# ")[2]]


def test_a_promise_of_the_pages_is_read():
    assert sorted(PROMISED.values()) == [0, 0, 1]


def test_every_program_of_the_pages_is_run_here():
    assert set(BY_PROGRAM) == {"curl", "docker", "fitgauge", "helm", "kubectl", "make"}


def command_of(arguments: list[str]) -> tuple[list, list[str]]:
    """Return a command's names and the command itself, and its own arguments."""
    names, command = [], main
    for name in arguments:
        if not isinstance(command, click.Group):
            break
        command = command.get_command(click.Context(command), name)
        assert command is not None, arguments
        names.append(name)
    return [*names, command], arguments[len(names) :]


def names_of_commands(group: click.Group, *names: str) -> Iterator[tuple[str, ...]]:
    """Yield the names of every command of a group and of its groups."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from names_of_commands(command, *names, name)
        else:
            yield (*names, name)


def test_every_command_has_a_how_to_whose_commands_run_here():
    shown = {tuple(command_of(arguments)[0][:-1]) for arguments in BY_PROGRAM["fitgauge"]}
    assert set(names_of_commands(main)) == shown


def test_every_operation_has_a_how_to_whose_requests_are_answered_here():
    asked = [request_of(arguments) for arguments in BY_PROGRAM["curl"]]
    found = {str(operation_at(method, path.partition("?")[0])) for method, path, _ in asked}
    assert [one.path for one in OPERATIONS if str(one.raw) not in found] == []


@pytest.mark.parametrize("arguments", BY_PROGRAM["fitgauge"], ids=shlex.join)
def test_a_command_of_the_pages_runs(arguments, tmp_path, monkeypatch):
    tmp_path.joinpath("docs").symlink_to(DOCS)
    shutil.copy(DOCS / "own-catalog.toml", tmp_path)
    tmp_path.joinpath("my-model").mkdir()
    write_folder(tmp_path / "my-model")
    tmp_path.joinpath("model-Q4_K_M.gguf").write_bytes(gguf_bytes({}))
    tmp_path.joinpath("fitgauge-slack").mkdir()
    tmp_path.joinpath("fitgauge-slack", "truth.jsonl").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setenv("FITGAUGE_QUESTION_SECONDS", f"{PATIENCE}")  # of a loaded machine
    if arguments[0] in SERVERS:
        (*path, command), rest = command_of(arguments)
        assert command.make_context(" ".join(path), rest)
        return
    result = CliRunner().invoke(main, arguments)
    promised = PROMISED.get(shlex.join(arguments))
    assert result.exit_code in (ANSWERS if promised is None else {promised}), result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)


def printed() -> Iterator[tuple[str, str]]:
    """Yield every check of the pages with the output that stands under it."""
    for text in PAGES.values():
        for _, _, block in _BLOCK.findall(text):
            command, _, output = block.partition("\n")
            if command.startswith(("$ fitgauge check", "$ .venv/bin/fitgauge check")):
                yield command[2:], output


@pytest.mark.parametrize("command, output", list(printed()))
def test_a_page_prints_what_the_command_prints(command, output, monkeypatch):
    """But for the warnings, and for numbers within a twentieth."""
    monkeypatch.setenv("COLUMNS", "130")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    lines = CliRunner().invoke(main, words_of(command)[1:]).output.splitlines()
    now = "\n".join(line for line in lines if not line.startswith("- "))
    shown, now = (" ".join(re.sub("[█▉▊▋▌▍▎▏]", "", text).split()) for text in (output, now))
    assert _NUMBER.sub("#", now).startswith(_NUMBER.sub("#", shown))
    numbers = [
        [float(number.replace(",", "")) for number in _NUMBER.findall(text)]
        for text in (shown, now)
    ]
    assert numbers[0] == pytest.approx(numbers[1][: len(numbers[0])], rel=0.05, abs=0.2)


@pytest.fixture(scope="module")
def service() -> Iterator[TestClient]:
    """Provide the service without a Hub."""
    settings = Settings(log_level="error", question_seconds=PATIENCE, mcp=False)
    with TestClient(create_app(settings, Hub(HubSettings(offline=True)))) as client:
        yield client


def request_of(arguments: list[str]) -> tuple[str, str, str | None]:
    """Return method, path with its query, and body of `curl [-d BODY] ADDRESS`."""
    *options, address = arguments
    assert options[:1] in ([], ["-d"])
    assert address.startswith("http://127.0.0.1:8000/")
    path = address.removeprefix("http://127.0.0.1:8000")
    return ("POST", path, options[1]) if options else ("GET", path, None)


@pytest.mark.parametrize("arguments", BY_PROGRAM["curl"], ids=shlex.join)
def test_a_request_of_the_pages_is_answered(service, arguments):
    method, path, body = request_of(arguments)
    if "ANSWER_ID" in path:
        answer = service.post("/v1/fit", json={"model": "Qwen/Qwen3-8B", "gpu": "H100"}).json()
        path = path.replace("ANSWER_ID", answer["answer_id"])
    response = service.request(
        method,
        path,
        content=body,
        headers={"Content-Type": "application/x-www-form-urlencoded"} if body else {},  # as curl -d
    )
    assert response.status_code == 200, response.text


def test_a_target_of_the_pages_is_one_of_the_makefile():
    targets = set(re.findall(r"^([a-z]+):", ROOT.joinpath("Makefile").read_text(), re.MULTILINE))
    inline = re.findall(r"`make ([a-z]+)", "\n".join(PAGES.values()))
    named = {arguments[0] for arguments in BY_PROGRAM["make"]} | set(inline)
    assert {"serve", "test", "accuracy", "docs"} <= named <= targets


def test_an_inline_command_of_the_pages_is_one_of_the_command_line():
    named = set(re.findall(r"`(?:\.venv/bin/)?fitgauge ([a-z][a-z-]*)", "\n".join(PAGES.values())))
    assert {"serve", "config", "mcp"} <= named <= set(COMMANDS)


def rendered(arguments: list[str]) -> list[dict]:
    """Return what `helm install NAME CHART --set ... -f FILE` makes, whatever the chart's tests
    are; a reader's file is one of the value sets."""
    _, name, chart, *options = (word for word in arguments if word != "--install")
    values: dict = {}
    for flag, pair in zip(options[::2], options[1::2], strict=True):
        if flag == "-f":
            values |= yaml.safe_load(ROOT.joinpath("tests/helm/values/keys.yaml").read_text())
            continue
        assert flag == "--set"
        path, _, value = pair.partition("=")
        *parents, last = path.split(".")
        inner = values
        for parent in parents:
            inner = inner.setdefault(parent, {})
        inner[last] = yaml.safe_load(value)
    with helm_python.Chart.load(ROOT / chart) as loaded:
        defaults = loaded.values
        files = loaded.render(values, name=name, namespace="default")
    for path in values:
        assert path in defaults
    return [
        one
        for file, text in files.items()
        if file.endswith(".yaml")
        for one in yaml.safe_load_all(text)
        if one
    ]


@pytest.mark.parametrize("arguments", BY_PROGRAM["helm"], ids=shlex.join)
def test_a_release_of_the_pages_renders(arguments):
    assert arguments[0] in ("install", "upgrade")
    assert {"Deployment", "Service"} <= {one["kind"] for one in rendered(arguments)}


@pytest.mark.parametrize("arguments", BY_PROGRAM["kubectl"], ids=shlex.join)
def test_a_forwarded_port_of_the_pages_is_the_services(arguments):
    action, target, ports = arguments
    (service,) = [one for one in rendered(BY_PROGRAM["helm"][0]) if one["kind"] == "Service"]
    assert (action, target) == ("port-forward", f"svc/{service['metadata']['name']}")
    assert int(ports.partition(":")[2]) == service["spec"]["ports"][0]["port"]


def test_what_the_image_copies_is_there_and_not_ignored():
    ignored, *rules = ROOT.joinpath(".dockerignore").read_text().split()
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", ROOT.joinpath("Dockerfile").read_text(), re.M)
    assert ignored == "*"
    for name in " ".join(copied).split():
        assert ROOT.joinpath(name).exists()
        assert any(fnmatch(name, rule[1:]) for rule in rules if rule.startswith("!")), name


def slug(heading: str) -> str:
    """Return the anchor of a heading, as the site and code hosts make it."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w -]", "", plain.lower()).strip().replace(" ", "-")


@pytest.mark.parametrize("page", PAGES)
def test_every_link_of_a_page_leads_somewhere(page):
    text = _BLOCK.sub("", PAGES[page])
    folder = ROOT.joinpath(page).parent
    for link in _LINK.findall(text):
        if "://" in link:
            continue
        target, _, anchor = link.partition("#")
        path = Path(os.path.normpath(folder / target)) if target else ROOT / page
        assert path.exists(), link
        if folder.is_relative_to(DOCS):
            assert path.is_relative_to(DOCS), f"{link} is no page of the site"
        if anchor:
            headings = _HEADING.findall(path.read_text("utf-8"))
            assert anchor in map(slug, headings), link


def in_navigation(entry: str | list | dict) -> Iterator[str]:
    """Yield the pages of the site's navigation."""
    if isinstance(entry, str):
        yield entry
        return
    for inner in entry.values() if isinstance(entry, dict) else entry:
        yield from in_navigation(inner)


def test_the_navigation_has_every_page_once():
    listed = sorted(in_navigation(SITE["nav"]))
    assert listed == sorted(
        page.removeprefix("docs/") for page in PAGES if page.startswith("docs/")
    )
