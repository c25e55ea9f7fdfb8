"""What people type for a model on the Hub."""

import pytest
from huggingface_hub import hf_hub_url
from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import validate_repo_id
from hypothesis import given
from hypothesis import strategies as st

from fitgauge.errors import InvalidRequestError
from fitgauge.hub import Reference, parse_reference
from fitgauge.hub.client import file_url

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("acme/tiny", Reference("acme/tiny")),
        ("  acme/tiny\n", Reference("acme/tiny")),
        ("gpt2", Reference("gpt2")),
        ("bert-base-uncased", Reference("bert-base-uncased")),
        ("acme/tiny@v1.0", Reference("acme/tiny", "v1.0")),
        ("acme/tiny@refs/pr/3", Reference("acme/tiny", "refs/pr/3")),
        (f"acme/tiny@{COMMIT}", Reference("acme/tiny", COMMIT)),
        ("acme/tiny-GGUF:Q4_K_M", Reference("acme/tiny-GGUF", None, "Q4_K_M")),
        ("acme/tiny-GGUF@main:Q4_K_M", Reference("acme/tiny-GGUF", "main", "Q4_K_M")),
        ("acme/tiny-GGUF:tiny.Q8_0.gguf", Reference("acme/tiny-GGUF", None, "tiny.Q8_0.gguf")),
        ("https://huggingface.co/acme/tiny", Reference("acme/tiny")),
        ("https://huggingface.co/acme/tiny/", Reference("acme/tiny")),
        (
            "http://www.huggingface.co/acme/tiny?not-for-all-audiences=true#usage",
            Reference("acme/tiny"),
        ),
        ("https://huggingface.co/acme/tiny/tree/v1.0", Reference("acme/tiny", "v1.0")),
        (
            "https://huggingface.co/acme/tiny/tree/refs%2Fpr%2F3",
            Reference("acme/tiny", "refs/pr/3"),
        ),
        ("https://huggingface.co/acme/tiny/blob/main/config.json", Reference("acme/tiny", "main")),
        (
            "https://huggingface.co/acme/tiny-GGUF/blob/main/tiny.Q8_0.gguf",
            Reference("acme/tiny-GGUF", "main", "tiny.Q8_0.gguf"),
        ),
        ("https://huggingface.co/gpt2/tree/main", Reference("gpt2", "main")),
        ("hf.co/acme/tiny-GGUF:Q4_K_M", Reference("acme/tiny-GGUF", None, "Q4_K_M")),
        ("huggingface.co/acme/tiny", Reference("acme/tiny")),
        ("hf://acme/tiny", Reference("acme/tiny")),
    ],
)
def test_reads_what_people_type(text, meant):
    assert parse_reference(text) == meant


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "/", "acme/", "a/b/c", "../etc/passwd", "acme/..", "acme/ti ny", "acme/tiny\x00",
        "acme/tiny\nx", "acme/tiny@",
        "acme/tiny:",
        "acme/tiny@../main", "acme/tiny:../../x.gguf", "acme/tiny@a@b", "acme/tïny", "-acme/tiny",
        "acme/tiny.git", "acme--tiny",
        "https://example.org/acme/tiny", "ftp://huggingface.co/acme/tiny", "https://[/x", "a" * 201,
            "acme/tiny@/etc", "acme/tiny@a//b",
        "https://huggingface.co/", "https://huggingface.co/datasets/acme/rows",
        "https://huggingface.co/spaces/acme/demo",
    ],
)  # fmt: skip
def test_refuses_what_cannot_be_a_name(text):
    with pytest.raises(InvalidRequestError) as refusal:
        parse_reference(text)
    assert refusal.value.hint


@given(st.text(max_size=220))
def test_any_text_is_a_reference_or_an_invalid_question(text):
    try:
        reference = parse_reference(text)
    except InvalidRequestError:
        return
    assert parse_reference(str(reference)) == reference


def test_only_a_commit_is_pinned():
    assert Reference("acme/tiny", COMMIT).pinned
    assert not Reference("acme/tiny", "main").pinned
    assert not Reference("acme/tiny").pinned


@given(st.from_regex(r"[A-Za-z0-9._-]{1,99}(/[A-Za-z0-9._-]{1,99})?", fullmatch=True))
def test_takes_the_ids_that_huggingface_hub_takes(text):
    try:
        validate_repo_id(text)
        valid = True
    except HFValidationError:
        valid = False
    try:
        assert parse_reference(text) == Reference(text)
        assert valid
    except InvalidRequestError:
        assert not valid


@pytest.mark.parametrize("revision", ["main", COMMIT, "refs/pr/3", "v1.0 beta"])
@pytest.mark.parametrize("name", ["config.json", "folder/a file+%.gguf", "größe.json"])
def test_the_address_of_a_file_is_that_of_huggingface_hub(revision: str, name: str) -> None:
    endpoint = "https://hub.example:8443/mirror"
    expected = hf_hub_url("acme/tiny", name, revision=revision, endpoint=endpoint)
    assert file_url(endpoint, "acme/tiny", revision, name) == expected
