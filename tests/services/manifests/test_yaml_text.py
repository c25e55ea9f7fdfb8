"""A stranger's YAML: lines are kept, and what is out of bounds is refused in good time."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fitgauge.services.manifests import yaml_text
from fitgauge.services.manifests.reading import read_manifests
from fitgauge.services.manifests.yaml_text import (
    Text,
    UnreadableYamlError,
    block_at,
    documents,
    items_at,
    text_at,
)


def test_every_scalar_is_a_text_with_its_line():
    (document,) = documents("a: 1\nb:\n  - true\n  - 'x'\nc: ~\n")
    assert text_at(document, "a") == "1"
    assert [(item, item.line) for item in items_at(document, "b")] == [("true", 3), ("x", 4)]
    assert document["c"] is None


def test_a_tag_constructs_nothing():
    (document,) = documents("a: !!python/object/apply:os.system ['true']\n")
    assert items_at(document, "a") == ["true"]


def test_merged_keys_do_not_replace_those_that_are_set():
    (document,) = documents("base: &b {x: 1, y: 2}\nchild:\n  <<: *b\n  x: 3\n")
    assert dict(block_at(document, "child")) == {"x": "3", "y": "2"}


def test_documents_are_separate():
    first, second = documents("a: &x 1\n---\nb: 2\n")
    assert (dict(first), dict(second)) == ({"a": "1"}, {"b": "2"})


@pytest.mark.parametrize(
    "text, line",
    [
        ("a: [1, 2\nb: 3\n", 2),
        ("a: *missing\n", 1),
        ("\n".join(f"{'  ' * depth}k:" for depth in range(200)), 65),
        ("a: b\x00\n", 1),
    ],
)
def test_what_is_no_yaml_or_too_deep_is_refused_with_its_line(text, line):
    with pytest.raises(UnreadableYamlError) as refused:
        documents(text)
    assert refused.value.line == line


def test_aliases_that_repeat_aliases_are_counted(monkeypatch):
    monkeypatch.setattr(yaml_text, "MOST_NODES", 10_000)
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    begun = time.monotonic()
    with pytest.raises(UnreadableYamlError):
        documents("\n".join(lines))
    assert time.monotonic() - begun < 2


def test_a_file_that_is_too_long_is_refused():
    with pytest.raises(UnreadableYamlError):
        documents("#" * (yaml_text.LONGEST + 1))


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="vllm serve-:{}[]&*!|>\n \"'$()#,?%@`\t\\0", max_size=300))
def test_no_text_makes_reading_raise(text):
    manifest = read_manifests([f"image: vllm/vllm-openai\n{text}"])[0]
    assert manifest.unreadable is None or isinstance(manifest.unreadable.message, str)


def test_a_text_is_a_string_with_a_line():
    assert Text("a") == "a"
    assert Text("a").line == 1
