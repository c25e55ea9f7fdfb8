"""Checkpoints of this machine are read as those of the Hub are."""

import json
import struct

import pytest

from checkpoints import TINY, gguf_bytes, write_folder
from fitgauge.errors import MalformedModelError, ModelWithoutWeightsError, UnknownModelError
from fitgauge.hub.local_files import is_path, read_local


def test_a_folder_is_read_from_its_config_and_headers(tmp_path):
    elements = write_folder(tmp_path)
    model = read_local(str(tmp_path))
    assert model.source == "config"
    assert model.stored.elements == {"F32": elements}
    assert model.spec.parameters == elements


def test_a_file_is_read_with_its_shards(tmp_path):
    for number in (1, 2):
        path = tmp_path / f"m-Q8_0-0000{number}-of-00002.gguf"
        path.write_bytes(gguf_bytes({"token_embd.weight": (64, 256)} if number == 1 else {}))
    model = read_local(str(tmp_path / "m-Q8_0-00001-of-00002.gguf"))
    assert model.stored.file_bytes == sum(path.stat().st_size for path in tmp_path.iterdir())
    assert model.spec.layers == 2


def test_a_file_tells_a_tied_head_by_its_tensors(tmp_path):
    """The head is as large as the embedding: which of both counts is nearer says it."""
    layer = {"rest": (read_size(tmp_path, tied=True) - 256 * 64,)}
    for tied in (True, False):
        path = tmp_path / f"{tied}.gguf"
        head = {} if tied else {"output.weight": (64, 256)}
        path.write_bytes(gguf_bytes({"token_embd.weight": (64, 256), **head, **layer}))
        assert read_local(str(path)).spec.tied_embeddings is tied


def read_size(folder, *, tied):
    """Return the parameters of the tiny model."""
    write_folder(folder, TINY | {"tie_word_embeddings": tied})
    return read_local(str(folder)).spec.parameters


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0" * 7,
        struct.pack("<Q", 2**60) + b"{}",
        struct.pack("<Q", 2) + b"[]",
        struct.pack("<Q", 9) + b'{"a": 7}\n',
        struct.pack("<Q", 40) + b'{"a":{"dtype":"F32","shape":[999999999]}}',
        struct.pack("<Q", 41) + b'{"a":{"dtype":"F32","shape":[-1, -1, 10]}}',
    ],
)
def test_a_broken_safetensors_file_is_refused(tmp_path, content):
    (tmp_path / "config.json").write_text(json.dumps(TINY))
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(MalformedModelError):
        read_local(str(tmp_path))


def test_a_broken_gguf_file_is_refused(tmp_path):
    path = tmp_path / "m.gguf"
    for content in (b"", b"GGUF", b"no", gguf_bytes({})[:40]):
        path.write_bytes(content)
        with pytest.raises(MalformedModelError):
            read_local(str(path))


def test_what_is_not_there_or_no_model_is_refused(tmp_path):
    with pytest.raises(UnknownModelError):
        read_local(str(tmp_path / "none"))
    with pytest.raises(ModelWithoutWeightsError):
        read_local(str(tmp_path))


def test_a_hub_id_is_no_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "org").mkdir()
    write_folder(tmp_path / "org")
    (tmp_path / "m.gguf").write_bytes(gguf_bytes({}))
    assert [is_path(text) for text in ("org", "org/name", "./org", "m.gguf", "no.gguf")] == [
        False,
        False,
        True,
        True,
        False,
    ]


def test_an_empty_folder_is_not_told_of_an_upload(tmp_path):
    with pytest.raises(ModelWithoutWeightsError) as refusal:
        read_local(str(tmp_path))
    assert "holds no file" in refusal.value.detail
    assert "Hub ID" in refusal.value.hint
