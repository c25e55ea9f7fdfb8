"""Questions that an MCP host offers ready-made."""

import json
from collections.abc import Mapping

import mcp_types as types
from mcp.shared.exceptions import MCPError

_LONGEST = 4_000
"""Characters of an argument that go into a prompt."""


def _argument(name: str, description: str, *, required: bool = True) -> types.PromptArgument:
    return types.PromptArgument(name=name, description=description, required=required)


LISTED = [
    types.Prompt(
        name="will_it_fit",
        title="Will it fit?",
        description="Ask whether a model fits on a GPU, and what does if it does not.",
        arguments=[
            _argument("model", "A model, such as Qwen/Qwen3-32B."),
            _argument("gpu", "A GPU, such as 2x RTX 4090."),
        ],
    ),
    types.Prompt(
        name="which_gpu",
        title="Which GPU?",
        description="Ask which GPUs to serve or to train a model on.",
        arguments=[
            _argument("model", "A model, such as Qwen/Qwen3-32B."),
            _argument("task", "serving or training.", required=False),
        ],
    ),
    types.Prompt(
        name="out_of_memory",
        title="Why out of memory?",
        description="Ask why a GPU ran out of memory, and what to change.",
        arguments=[_argument("log", "The log or the message, as printed.")],
    ),
]

_TEXTS = {
    "will_it_fit": "Call check_fit with the model {model} and the gpu {gpu}. Say the verdict, what"
    " was assumed and the command; if it does not fit, what to change.",
    "which_gpu": "Call recommend_gpus with the model {model} and the task {task}. Compare the"
    " options by price and speed.",
    "out_of_memory": "Call explain_log with this log, given as a JSON string: {log}. Say what took"
    " the memory and what to change.",
}
_DEFAULTS = {"task": "serving"}


def get(name: str, arguments: Mapping[str, str]) -> types.GetPromptResult:
    """Return a prompt with its arguments quoted. Raises MCPError for an unknown prompt, and where
    an argument is missing."""
    prompt = next((prompt for prompt in LISTED if prompt.name == name), None)
    if prompt is None:
        raise MCPError(types.INVALID_PARAMS, f"Unknown prompt {name[:64]!r}.")
    values = {}
    for argument in prompt.arguments or []:
        value = arguments.get(argument.name) or _DEFAULTS.get(argument.name)
        if not value:
            raise MCPError(types.INVALID_PARAMS, f"The argument {argument.name!r} is missing.")
        # quoted, so that whatever stands in it is read as data
        values[argument.name] = json.dumps(value[:_LONGEST], ensure_ascii=False)
    text = types.TextContent(text=_TEXTS[name].format(**values))
    return types.GetPromptResult(
        description=prompt.description, messages=[types.PromptMessage(role="user", content=text)]
    )
