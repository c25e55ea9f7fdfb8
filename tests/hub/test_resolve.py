"""What a resolve costs and brings."""

import asyncio
import json
from pathlib import Path

import pytest

from fitgauge.errors import HubUnreachableError
from fitgauge.hub import Reference, parse_reference
from hub_stand_in import gguf_repository, llama_config, safetensors_repository
from hub_stand_in.formats import gguf_header
from hub_stand_in.server import TOKEN
from notes import codes

TINY = Reference("acme/tiny")


def resolved(open_hub, text, **settings):
    async def run():
        async with open_hub(**settings) as hub:
            return await hub.resolve(parse_reference(text))

    return asyncio.run(run())


@pytest.mark.parametrize("shards", [1, 5, 163])
def test_a_cold_resolve_is_two_requests_whatever_the_number_of_shards(stand_in, open_hub, shards):
    stand_in.add(safetensors_repository("acme/tiny", shards=shards))
    model = resolved(open_hub, "acme/tiny")
    assert [request.path for request in sorted(stand_in.requests, key=lambda r: r.path)] == [
        "/acme/tiny/resolve/main/config.json",
        "/api/models/acme/tiny",
    ]
    assert model.source == "hub"
    assert model.revision == stand_in.repositories["acme/tiny"].sha
    assert model.spec.parameters == 1_987_840
    assert model.stored is not None
    assert model.stored.elements == {"BF16": 1_987_840}
    assert model.warnings == ()


def test_the_two_requests_are_under_way_at_the_same_time(stand_in, open_hub):
    async def run():
        async with open_hub(wait_seconds=0.3) as hub:
            with pytest.raises(HubUnreachableError):
                await hub.resolve(TINY)

    stand_in.fault(hang=True)
    asyncio.run(run())
    assert stand_in.count("/api/models/") == stand_in.count("/config.json") == 1


def test_a_thousand_simultaneous_cold_requests_are_one_resolve(stand_in, open_hub):
    async def run():
        async with open_hub() as hub:
            return await asyncio.gather(*(hub.resolve(TINY) for _ in range(1000)))

    stand_in.fault(delay=0.2)
    models = asyncio.run(run())
    assert len(models) == 1000
    assert len({id(model) for model in models}) == 1
    assert stand_in.count() == 2


def test_a_warm_answer_needs_no_request_and_no_await(stand_in, open_hub):
    async def run():
        async with open_hub() as hub:
            assert hub.peek(TINY) is None
            model = await hub.resolve(TINY)
            assert hub.peek(TINY) is model
            assert await hub.resolve(TINY) is model

    asyncio.run(run())
    assert stand_in.count() == 2


def test_one_caller_that_leaves_does_not_take_the_resolve_with_it(stand_in, open_hub):
    async def run():
        async with open_hub() as hub:
            first = asyncio.create_task(hub.resolve(TINY))
            second = asyncio.create_task(hub.resolve(TINY))
            await asyncio.sleep(0.05)
            first.cancel()
            return await second

    stand_in.fault(delay=0.2)
    assert asyncio.run(run()).id == "acme/tiny"
    assert stand_in.count() == 2


def test_a_pinned_revision_is_the_one_that_is_read(stand_in, open_hub):
    old = safetensors_repository("acme/tiny", llama_config(num_hidden_layers=1))
    stand_in.repositories["acme/tiny"].revisions |= {"v1": old, "refs/pr/1": old, old.sha: old}
    for revision in ("v1", "refs/pr/1", old.sha):
        model = resolved(open_hub, f"acme/tiny@{revision}")
        assert (model.revision, model.spec.layers) == (old.sha, 1)


def test_a_name_without_an_owner_is_a_repository_too(stand_in, open_hub):
    stand_in.add(safetensors_repository("gpt2"))
    assert resolved(open_hub, "gpt2").id == "gpt2"


def test_a_push_between_the_two_requests_is_read_at_one_commit(stand_in, open_hub):
    stand_in.fault(
        "config.json",
        times=1,
        headers={"X-Repo-Commit": "f" * 40},
        body=json.dumps(llama_config(num_hidden_layers=9)).encode(),
    )
    assert resolved(open_hub, "acme/tiny").spec.layers == 2
    sha = stand_in.repositories["acme/tiny"].sha
    assert stand_in.requests[-1].path == f"/acme/tiny/resolve/{sha}/config.json"


def test_a_renamed_repository_is_answered_with_its_new_name(stand_in, open_hub):
    stand_in.renamed["old/name"] = "acme/tiny"
    model = resolved(open_hub, "old/name")
    assert model.id == "acme/tiny"
    assert codes(model.warnings) == {("repository-renamed", "model")}


def test_quantization_kept_in_its_own_file_costs_one_more_request(stand_in, open_hub):
    repository = safetensors_repository("acme/tiny-FP8")
    repository.files["hf_quant_config.json"] = json.dumps(
        {"quantization": {"quant_algo": "FP8"}}
    ).encode()
    stand_in.add(repository)
    assert resolved(open_hub, "acme/tiny-FP8").spec.quantization == {
        "quantization": {"quant_algo": "FP8"}
    }
    assert stand_in.count() == 3


def test_quantization_in_the_config_needs_no_further_request(stand_in, open_hub):
    repository = safetensors_repository(
        "acme/tiny-FP8", llama_config(quantization_config={"quant_method": "fp8"})
    )
    repository.files["hf_quant_config.json"] = b"{}"
    stand_in.add(repository)
    assert resolved(open_hub, "acme/tiny-FP8").spec.quantization == {"quant_method": "fp8"}
    assert stand_in.count() == 2


@pytest.mark.parametrize(("inside", "requests"), [({}, 3), ({"kv_cache_scheme": None}, 2)])
def test_a_cache_that_a_mixed_config_leaves_out_is_looked_up(stand_in, open_hub, inside, requests):
    settings = {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", **inside}
    repository = safetensors_repository(
        "acme/tiny-NVFP4", llama_config(quantization_config=settings)
    )
    repository.files["hf_quant_config.json"] = json.dumps(
        {"quantization": {"quant_algo": "MIXED_PRECISION", "kv_cache_quant_algo": "FP8"}}
    ).encode()
    stand_in.add(repository)
    apart = {} if inside else {"hf_quant_config": {"kv_cache_quant_algo": "FP8"}}
    found = resolved(open_hub, "acme/tiny-NVFP4").spec.quantization
    assert found == {**settings, **apart}
    assert stand_in.count() == requests


def test_weights_the_hub_did_not_count_are_left_empty_with_a_warning(stand_in, open_hub):
    stand_in.add(safetensors_repository("acme/tiny", summary=False))
    model = resolved(open_hub, "acme/tiny")
    assert model.stored is not None
    assert model.stored.elements == {}
    assert codes(model.warnings) == {("hub-counts-missing", "model")}


def test_dtypes_are_canonical_and_unknown_ones_are_named(stand_in, open_hub):
    told = stand_in.repositories["acme/tiny"].description()
    told["safetensors"] = {
        "parameters": {"F8_E4M3FN": 5, "bf16": 2, "BF16": 1, "F99": 7},
        "total": 15,
    }
    stand_in.fault("/api/", body=json.dumps(told).encode())
    model = resolved(open_hub, "acme/tiny")
    assert model.stored is not None
    assert model.stored.elements == {"F8_E4M3": 5, "BF16": 3}
    assert model.warnings[0].code == "dtype-unknown"
    assert "F99" in model.warnings[0].message


def test_the_token_is_sent_and_never_stored(stand_in, open_hub, tmp_path: Path):
    resolved(open_hub, "acme/tiny", token=TOKEN)
    assert {request.headers["authorization"] for request in stand_in.requests} == {
        f"Bearer {TOKEN}"
    }
    files = list((tmp_path / "hub").iterdir())
    assert len(files) == 1
    assert TOKEN.encode() not in files[0].read_bytes()


def test_no_token_is_sent_where_there_is_none(stand_in, open_hub):
    resolved(open_hub, "acme/tiny")
    assert not any("authorization" in request.headers for request in stand_in.requests)


def test_a_config_with_infinity_is_read(stand_in, open_hub):
    stand_in.add(
        safetensors_repository("acme/tiny", llama_config(time_step_limit=[0.0, float("inf")]))
    )
    assert resolved(open_hub, "acme/tiny").spec.layers == 2


LLAMA_KEYS = {
    "general.architecture": "llama", "llama.block_count": 2, "llama.context_length": 4096,
    "llama.embedding_length": 256,
    "llama.feed_forward_length": 704, "llama.attention.head_count": 8,
    "llama.attention.head_count_kv": 4,
    "llama.rope.dimension_count": 32,
    "tokenizer.ggml.tokens": [str(number) for number in range(1000)],
}  # fmt: skip
SIZES = {
    "tiny.Q8_0.gguf": 8000, "tiny.Q4_K_M.gguf": 4000, "Q6_K/tiny-Q6_K-00001-of-00002.gguf": 3000,
    "Q6_K/tiny-Q6_K-00002-of-00002.gguf": 2500, "mmproj-tiny-F16.gguf": 99,
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "name", "size"),
    [
        ("acme/tiny-GGUF:q8_0", "tiny.Q8_0.gguf", 8000),
        ("acme/tiny-GGUF:tiny.Q8_0.gguf", "tiny.Q8_0.gguf", 8000),
        ("acme/tiny-GGUF:Q6_K", "Q6_K/tiny-Q6_K-00001-of-00002.gguf", 5500),
        ("acme/tiny-GGUF", "tiny.Q4_K_M.gguf", 4000),
    ],
)
def test_a_gguf_repository_costs_four_requests_and_its_shards_are_summed(
    stand_in, open_hub, text, name, size
):
    stand_in.add(gguf_repository("acme/tiny-GGUF", LLAMA_KEYS, SIZES))
    model = resolved(open_hub, text)
    assert stand_in.count() == 4
    assert model.stored is not None
    assert (model.stored.file_name, model.stored.file_bytes) == (name, size)
    assert (model.spec.model_type, model.spec.parameters) == ("llama", 1_987_840)
    assert model.spec.max_context_length == 4096


def test_the_hubs_count_tells_whether_a_gguf_head_is_tied(stand_in, open_hub):
    tied = 1_987_840 - 256 * 1000
    stand_in.add(gguf_repository("acme/tiny-GGUF", LLAMA_KEYS, SIZES, gguf_parameters=tied))
    model = resolved(open_hub, "acme/tiny-GGUF:Q8_0")
    assert model.spec.tied_embeddings
    assert model.spec.parameters == tied


def test_a_store_that_ignores_ranges_is_read_no_further_than_needed(stand_in, open_hub):
    stand_in.add(gguf_repository("acme/tiny-GGUF", {}, SIZES))
    stand_in.fault(".gguf", body=gguf_header(LLAMA_KEYS) + bytes(10**6))
    assert resolved(open_hub, "acme/tiny-GGUF:Q8_0").spec.parameters == 1_987_840


def test_key_values_beyond_the_first_piece_cost_one_more_request(stand_in, open_hub):
    late = {
        "general.architecture": "llama",
        **{f"pad.{number}": "x" * 60_000 for number in range(6)},
        **LLAMA_KEYS,
    }
    stand_in.add(gguf_repository("acme/tiny-GGUF", late, SIZES))
    assert resolved(open_hub, "acme/tiny-GGUF:Q8_0").spec.parameters == 1_987_840
    assert stand_in.count() == 5


def test_an_architecture_that_does_not_add_up_to_the_hubs_count_is_assumed(stand_in, open_hub):
    stand_in.add(gguf_repository("acme/tiny-GGUF", LLAMA_KEYS, SIZES, gguf_parameters=3_000_000))
    model = resolved(open_hub, "acme/tiny-GGUF:Q8_0")
    assert model.spec.basis == "assumed"
    assert codes(model.warnings) == {("parameter-count-differs", "model")}


def test_a_config_beside_gguf_files_saves_reading_their_key_values(stand_in, open_hub):
    files = {"config.json": json.dumps(llama_config()).encode()}
    stand_in.add(gguf_repository("acme/tiny-GGUF", LLAMA_KEYS, SIZES, files=files))
    assert resolved(open_hub, "acme/tiny-GGUF:Q8_0").spec.layers == 2
    assert not any("range" in request.headers for request in stand_in.requests)


def test_a_stub_of_a_config_beside_gguf_files_is_passed_over(stand_in, open_hub):
    stand_in.add(
        gguf_repository(
            "acme/tiny-GGUF", LLAMA_KEYS, SIZES, files={"config.json": b'{"model_type": "llama"}'}
        )
    )
    assert resolved(open_hub, "acme/tiny-GGUF:Q8_0").spec.parameters == 1_987_840


def test_safetensors_come_before_gguf_files_of_the_same_repository(stand_in, open_hub):
    repository = safetensors_repository("acme/both")
    repository.files["both-Q8_0.gguf"] = b"GGUF"
    stand_in.add(repository)
    assert resolved(open_hub, "acme/both").stored.file_name is None
