"""A stranger's YAML as plain mappings, lists and texts that know their line.

Nothing is constructed from tags, every scalar is a text, and size, depth and what aliases repeat
are bounded before they are believed."""

from collections.abc import Iterator
from typing import TypeAlias, TypeVar

import yaml

LONGEST = 4 * 1024 * 1024
"""Characters of a file."""
DEEPEST = 64
"""Mappings and lists within one another."""
MOST_NODES = 400_000
"""Nodes of a file, those that aliases repeat counted each time."""

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_MERGE = "<<"


class Text(str):
    """A scalar."""

    line: int = 1
    """Its line in the file, from 1."""
    in_file: bool = True
    """Whether its lines follow in the file; false of what another file holds."""


class Block(dict[str, "Node"]):
    """A mapping."""

    line: int = 1
    """The line of its first key."""


class Items(list["Node"]):
    """A list."""

    line: int = 1
    """The line of its first item."""


Node: TypeAlias = Text | Block | Items | None
NodeT = TypeVar("NodeT", bound=Node)


class UnreadableYamlError(ValueError):
    """A text that is no YAML, or is out of bounds.

    line: where, from 1."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


def text_of(value: str, line: int) -> Text:
    """Return a text with its line."""
    text = Text(value)
    text.line = line
    return text


def documents(text: str, first_line: int = 1) -> list[Node]:
    """Return the documents of a YAML file. first_line: the line of its first one.

    Raises UnreadableYamlError."""
    if len(text) > LONGEST:
        raise UnreadableYamlError(f"longer than {LONGEST:,} characters", first_line)
    try:
        return list(_Builder(text, first_line).documents())
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = first_line + (mark.line if mark is not None else 0)
        problem = getattr(error, "problem", None) or getattr(error, "reason", None)
        raise UnreadableYamlError(str(problem or "no YAML"), line) from None


class _Builder:
    """Builds documents from the events of the parser, without recursion."""

    def __init__(self, text: str, first_line: int) -> None:
        self._text = text
        self._first = first_line
        self._anchors: dict[str, tuple[Node, int]] = {}
        self._nodes = 0

    def documents(self) -> Iterator[Node]:
        """Yield every document."""
        stack: list[tuple[Block | Items, str | None, int]] = []
        keys: list[Text | None] = []
        for event in yaml.parse(str(self._text), Loader=_LOADER):
            line = self._first + event.start_mark.line
            match event:
                case yaml.DocumentStartEvent():
                    self._anchors.clear()
                    root: Node = None
                    continue
                case yaml.DocumentEndEvent():
                    yield root
                    continue
                case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                    is_block = isinstance(event, yaml.MappingStartEvent)
                    opened: Block | Items = Block() if is_block else Items()
                    opened.line = line
                    stack.append((opened, event.anchor, self._nodes))
                    keys.append(None)
                    if len(stack) > DEEPEST:
                        raise UnreadableYamlError(f"deeper than {DEEPEST} levels", line)
                    continue
                case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                    node, anchor, before = stack.pop()
                    keys.pop()
                    self._add(1, line)
                    self._anchor(anchor, node, self._nodes - before)
                    value: Node = node
                case yaml.AliasEvent():
                    value, size = self._aliased(event.anchor, line)
                    self._add(size, line)
                case yaml.ScalarEvent():
                    value = self._scalar(event, line)
                    self._add(1, line)
                    self._anchor(event.anchor, value, 1)
                case _:
                    continue
            if not stack:
                root = value
            elif isinstance(stack[-1][0], Items):
                stack[-1][0].append(value)
            elif keys[-1] is None:
                keys[-1] = value if isinstance(value, Text) else text_of("", line)
            else:
                _set(stack[-1][0], keys[-1], value)
                keys[-1] = None

    def _scalar(self, event: "yaml.ScalarEvent", line: int) -> Text | None:
        if not event.style and event.value in _NULLS and event.tag is None:
            return None
        return text_of(event.value, line)

    def _add(self, nodes: int, line: int) -> None:
        self._nodes += nodes
        if self._nodes > MOST_NODES:
            raise UnreadableYamlError(f"more than {MOST_NODES:,} nodes", line)

    def _anchor(self, anchor: str | None, node: Node, size: int) -> None:
        if anchor is not None:
            self._anchors[anchor] = (node, size)

    def _aliased(self, anchor: str, line: int) -> tuple[Node, int]:
        if anchor not in self._anchors:
            raise UnreadableYamlError(f"unknown alias *{anchor}", line)
        return self._anchors[anchor]


def _set(block: Block, key: Text, value: Node) -> None:
    """Set a key; `<<` adds those of the mappings that it names and are not set."""
    if key != _MERGE:
        block[key] = value
        return
    for merged in value if isinstance(value, Items) else (value,):
        if isinstance(merged, Block):
            for name, one in merged.items():
                block.setdefault(name, one)


def at_line(node: NodeT, line: int) -> NodeT:
    """Return a copy of what another file holds, all on one line."""
    copy: Node
    if isinstance(node, Text):
        copy = text_of(node, line)
        copy.in_file = False
        return copy  # type: ignore[return-value]
    if isinstance(node, Block):
        copy = Block({key: at_line(value, line) for key, value in node.items()})
    elif isinstance(node, Items):
        copy = Items(at_line(value, line) for value in node)
    else:
        return node
    copy.line = line
    return copy  # type: ignore[return-value]


def block_at(node: Node, *keys: str) -> Block:
    """Return the mapping under these keys; an empty one where there is none."""
    for key in keys:
        node = node.get(key) if isinstance(node, Block) else None
    return node if isinstance(node, Block) else Block()


def items_at(node: Node, *keys: str) -> list[Node]:
    """Return the items of the list under these keys; none where there is no list."""
    *parents, last = keys
    value = block_at(node, *parents).get(last)
    return value if isinstance(value, Items) else []


def blocks_at(node: Node, *keys: str) -> list[Block]:
    """Return the mappings in the list under these keys."""
    return [item for item in items_at(node, *keys) if isinstance(item, Block)]


def text_at(node: Node, *keys: str) -> Text | None:
    """Return the text under these keys; None where there is none."""
    *parents, last = keys
    value = block_at(node, *parents).get(last)
    return value if isinstance(value, Text) else None


def texts_at(node: Node, *keys: str) -> list[Text]:
    """Return the texts in the list under these keys."""
    return [item for item in items_at(node, *keys) if isinstance(item, Text)]
