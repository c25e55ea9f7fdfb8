"""Each host's own code takes the seven tools with every parameter, and calls them.

docs/HOSTS.md has a row for each: its host, version and count are held to what is measured here."""

import json
import re
from typing import NamedTuple

import httpx
import pytest

from fitgauge.api.tools_document import VERSION_30, arguments_schema, tools_document
from fitgauge.services.tools.faces import TOOLS
from hosts.conftest import ENVIRONMENTS, HERE, ROOT, node, run, run_host

FIT = {"model": "acme/tiny", "gpu": "RTX 4090"}
PARAMETERS = {name: set(arguments_schema(tool)["properties"]) for name, tool in TOOLS.items()}
EXAMPLES = str(ROOT / "plugin/examples")
PUBLIC = "https://fit.example.com"


class Host(NamedTuple):
    """One host and how its code is run."""

    package: str
    environment: str
    script: str
    imports: str


HOSTS = {
    "Semantic Kernel": Host("semantic-kernel", "semantic_kernel", "kernel_import.py", "document"),
    "Open WebUI": Host("open-webui", "langchain", "webui_import.py", "document"),
    "LibreChat": Host("librechat-data-provider", "node", "librechat.mjs", "document"),
    "Microsoft 365 Copilot": Host("@microsoft/m365-spec-parser", "node", "m365.mjs", "3.0"),
    "LangChain": Host("langchain-mcp-adapters", "langchain", "langchain_mcp.py", "mcp"),
    "LlamaIndex": Host("llama-index-tools-mcp", "agents", "llama_index_mcp.py", "mcp"),
    "OpenAI Agents SDK": Host("openai-agents", "agents", "openai_agents_mcp.py", "mcp"),
}  # fmt: skip


def pinned(package: str) -> str:
    """Return the version that `make hosts` installs."""
    packages = json.loads((HERE / "package.json").read_text("utf-8"))["dependencies"]
    if package in packages:
        return str(packages[package])
    locked = "".join(path.read_text("utf-8") for path in (HERE / "requirements").glob("*.txt"))
    version = re.search(rf"^{re.escape(package)}==(\S+)", locked, re.MULTILINE)
    assert version, package
    return version[1]


def rows() -> dict[str, list[str]]:
    """Return the rows of the table of hosts, by host."""
    page = (ROOT / "docs/HOSTS.md").read_text("utf-8")
    lines = [line for line in page.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines]
    return {row[0]: row[1:] for row in cells if row[-1] in ("code", "rule")}


@pytest.fixture(scope="session")
def documents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Provide the files of the tools' documents, by kind."""
    folder = tmp_path_factory.mktemp("documents")
    made = {"document": tools_document(PUBLIC), "3.0": tools_document(PUBLIC, VERSION_30)}
    paths = {kind: folder / f"{kind}.json" for kind in made}
    for kind, path in paths.items():
        path.write_text(json.dumps(made[kind]), "utf-8")
    return {kind: str(path) for kind, path in paths.items()}


@pytest.mark.parametrize("name", HOSTS)
def test_a_host_takes_every_tool_with_every_parameter(name, documents, url):
    host = HOSTS[name]
    source = documents.get(host.imports, f"{url}/mcp")
    wheels = [str(path) for path in (ENVIRONMENTS / "open_webui").glob("*.whl")]
    output = run_host(
        host.environment, host.script, source, *(wheels if name == "Open WebUI" else [])
    )
    tools = output["tools"] if host.imports == "mcp" else output
    assert {tool: set(parameters) for tool, parameters in tools.items()} == PARAMETERS
    if host.imports == "mcp":
        assert output["answer"] == httpx.post(f"{url}/tools/check_fit", json=FIT).json()
    version, _, count, _ = rows()[name]
    assert (version, count) == (f"{host.package} {pinned(host.package)}", f"{len(tools)} of 7")


def test_the_inspector_lists_and_calls(url):
    command = [node(), "node_modules/.bin/mcp-inspector", "--cli", f"{url}/mcp"]
    command += ["--transport", "http", "--method"]
    listed = json.loads(run(*command, "tools/list"))
    assert [tool["name"] for tool in listed["tools"]] == list(TOOLS)
    arguments = [f"--tool-arg={name}={value}" for name, value in FIT.items()]
    called = json.loads(run(*command, "tools/call", "--tool-name", "check_fit", *arguments))
    assert called["structuredContent"]["verdict"] == "fits"


def test_the_skill_is_valid():
    run(
        str(ENVIRONMENTS / "agents/bin/agentskills"),
        "validate",
        str(ROOT / "plugin/skills/fitgauge"),
    )


def test_an_agent_of_langgraph_asks_and_answers(url):
    verdict, kinds = run_host("langchain", "langgraph_scripted.py", f"{url}/mcp", EXAMPLES)
    assert verdict == "fits"
    assert kinds == ["system", "human", "ai", "tool", "ai"]


def test_an_agent_of_openai_asks_and_answers(url):
    assert run_host("agents", "openai_agent_scripted.py", f"{url}/mcp", EXAMPLES) == "fits"
