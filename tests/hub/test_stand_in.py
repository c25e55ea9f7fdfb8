"""The stand-in is faithful: huggingface_hub's own client reads it, and its metadata are those of
the model."""

import struct

import pytest
from huggingface_hub import HfApi
from huggingface_hub.errors import (
    GatedRepoError,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from fitgauge.engine.model.families import read_config
from hub_stand_in import HubStandIn, gguf_repository, llama_config, safetensors_repository
from hub_stand_in.formats import elements_by_dtype


@pytest.fixture
def hub(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with HubStandIn(safetensors_repository("acme/tiny", shards=3)) as stand_in:
        yield stand_in


def api(hub):
    return HfApi(endpoint=hub.url, token=False)


def test_model_info_gives_the_parameters_of_all_shards(hub):
    info = api(hub).model_info("acme/tiny", expand=["safetensors", "sha", "siblings"])
    assert info.safetensors is not None
    assert info.safetensors.parameters == {"BF16": read_config(llama_config()).parameters}
    assert info.sha == hub.repositories["acme/tiny"].sha
    assert len(info.siblings or ()) == 7


def test_shards_hold_every_tensor_once_and_their_sizes_add_up(hub):
    repository = hub.repositories["acme/tiny"]
    shards = [
        content for name, content in repository.files.items() if name.endswith(".safetensors")
    ]
    lengths = [8 + struct.unpack("<Q", content[:8])[0] for content in shards]
    elements = sum(elements_by_dtype(content)["BF16"] for content in shards)
    assert elements == read_config(llama_config()).parameters
    assert sum(repository.sizes.values()) - sum(lengths) == 2 * elements


def test_experts_are_tensors_of_their_own():
    config = llama_config(model_type="mixtral", num_local_experts=4, num_experts_per_tok=2)
    repository = safetensors_repository("acme/mixture", config)
    assert b"experts.3." in repository.files["model.safetensors"]


def test_the_tree_gives_sizes(hub):
    hub.add(
        gguf_repository(
            "acme/tiny-GGUF",
            {},
            {"Q8/a-00001-of-00002.gguf": 5, "Q8/a-00002-of-00002.gguf": 6, "b.gguf": 7},
        )
    )
    assert {
        entry.path: entry.size for entry in api(hub).list_repo_tree("acme/tiny-GGUF", "Q8")
    } == {"Q8/a-00001-of-00002.gguf": 5, "Q8/a-00002-of-00002.gguf": 6}


def test_its_refusals_are_the_hubs(hub, tmp_path):
    hub.add(safetensors_repository("acme/gated", gated=True))
    hub.add(safetensors_repository("acme/private", private=True))
    for error, repository, file, revision in (
        (RepositoryNotFoundError, "acme/none", "config.json", "main"),
        (RepositoryNotFoundError, "acme/private", "config.json", "main"),
        (GatedRepoError, "acme/gated", "config.json", "main"),
        (RevisionNotFoundError, "acme/tiny", "config.json", "v9"),
        (RemoteEntryNotFoundError, "acme/tiny", "none.json", "main"),
    ):
        with pytest.raises(error):
            api(hub).hf_hub_download(repository, file, revision=revision, cache_dir=tmp_path)


def test_a_renamed_repository_is_found(hub):
    hub.renamed["old/name"] = "acme/tiny"
    assert api(hub).model_info("old/name").id == "acme/tiny"
