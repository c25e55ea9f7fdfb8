"""Settings of a server in a mapping of YAML, as the flags that they stand for: the file that a flag
names, and the engine_kwargs of Ray Serve.

Source: vllm/utils/argparse_utils.py, load_config_file (a true one is a flag alone, a false one
none, what is given on the command line counts); sglang/srt/server_args_config_parser.py;
tensorrt_llm/commands/serve.py (--extra_llm_api_options)."""

import json
from collections.abc import Iterator, Mapping

from fitgauge.services.manifests.yaml_text import (
    Block,
    Items,
    Node,
    Text,
    UnreadableYamlError,
    at_line,
    documents,
    text_of,
)


def setting_words(settings: Block, *, dotted: bool = False) -> Iterator[Text]:
    """Yield settings as words of a command line, mappings as JSON; dotted: as flags of their
    keys."""
    for key, value in settings.items():
        line = getattr(value, "line", settings.line)
        if value is None or value == "false":
            continue
        if dotted and isinstance(value, Block):
            nested = Block({f"{key}.{name}": one for name, one in value.items()})
            yield from setting_words(nested, dotted=True)
            continue
        yield text_of(f"--{key}", line)
        if isinstance(value, Block):
            yield text_of(json.dumps(_plain(value)), line)
        elif isinstance(value, Items):
            yield from (text_of(one, line) for one in value if isinstance(one, Text))
        elif value != "true":
            yield text_of(value, line)


def file_words(files: Mapping[str, Text], path: str, *, dotted: bool) -> list[Text] | None:
    """Return the settings in the file at a path as words of a command line, as `setting_words`
    does; None where no such file is known, or it is no YAML."""
    text = files.get(path)
    if text is None:
        return None
    try:
        held = documents(text, text.line + 1)
    except UnreadableYamlError:
        return None
    blocks = [at_line(one, text.line) if not text.in_file else one for one in held]
    return [
        word
        for one in blocks
        if isinstance(one, Block)
        for word in setting_words(one, dotted=dotted)
    ]


def _plain(value: Node) -> object:
    """Return a node as JSON has it, numbers as numbers."""
    if isinstance(value, Block):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, Items):
        return [_plain(one) for one in value]
    try:
        return json.loads(value) if value is not None else None
    except ValueError:
        return str(value)
