"""Convert a document of tools with Open WebUI's converter; print the parameters of every tool.

The functions are read out of the wheel: the rest of it takes gigabytes of requirements.
Arguments: the document's path, the wheel's path."""

import ast
import json
import sys
import zipfile
from copy import deepcopy
from typing import Any, Optional

MODULE = "open_webui/utils/tools.py"
NAMES = {"OPENAPI_HTTP_METHODS", "resolve_schema", "convert_openapi_to_tool_payload"}


def name(node: ast.stmt) -> str:
    """Return what a statement of a module defines."""
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    return node.name if isinstance(node, ast.FunctionDef) else ""


source = zipfile.ZipFile(sys.argv[2]).read(MODULE).decode()
nodes = [node for node in ast.parse(source).body if name(node) in NAMES]
assert {name(node) for node in nodes} == NAMES
scope = {"Any": Any, "Optional": Optional, "copy": sys.modules["copy"], "deepcopy": deepcopy}
exec(compile(ast.Module(nodes, []), MODULE, "exec"), scope)  # the host's own code
with open(sys.argv[1], encoding="utf-8") as file:
    payload = scope["convert_openapi_to_tool_payload"](json.load(file))
print(json.dumps({tool["name"]: list(tool["parameters"]["properties"]) for tool in payload}))
