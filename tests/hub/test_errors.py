"""Every kind of repository that cannot be sized gets its own answer, and is asked for only once
in a while."""

import asyncio
import gzip
import json

import pytest

from fitgauge.errors import (
    GatedModelError,
    HubBusyError,
    HubUnreachableError,
    MalformedModelError,
    ModelWithoutWeightsError,
    RenamedModelError,
    UnknownModelError,
)
from fitgauge.hub import parse_reference
from fitgauge.hub.client import MAX_REDIRECTS
from hub_stand_in import Repository, gguf_repository, llama_config, safetensors_repository
from hub_stand_in.server import TOKEN
from notes import codes


def refusal(open_hub, text, error, **settings):
    async def run():
        async with open_hub(**settings) as hub:
            with pytest.raises(error) as refused:
                await hub.resolve(parse_reference(text))
            return refused.value

    found = asyncio.run(run())
    assert type(found) is error
    return found


def test_a_missing_repository_is_unknown(open_hub):
    error = refusal(open_hub, "acme/none", UnknownModelError)
    assert "no model acme/none, or it is private" in error.detail
    assert "HF_TOKEN" in error.hint


def test_a_private_repository_looks_missing_and_is_read_with_the_token(stand_in, open_hub):
    stand_in.add(safetensors_repository("acme/secret", private=True))
    refusal(open_hub, "acme/secret", UnknownModelError)

    async def run():
        async with open_hub(token=TOKEN) as hub:
            return await hub.resolve(parse_reference("acme/secret"))

    assert asyncio.run(run()).id == "acme/secret"


def test_a_private_repository_stays_unknown_to_a_token_that_may_not_read_it(open_hub):
    assert "read access" in refusal(open_hub, "acme/none", UnknownModelError, token=TOKEN).hint


def test_a_gated_repository_names_the_page_that_grants_access(stand_in, open_hub):
    stand_in.add(safetensors_repository("acme/gated", gated=True))
    error = refusal(open_hub, "acme/gated", GatedModelError)
    assert "Request access at https://huggingface.co/acme/gated" in error.hint


def test_a_token_the_hub_does_not_accept_is_said_to_be_rejected(stand_in, open_hub):
    stand_in.fault(
        status=401, headers={"X-Error-Message": "Invalid credentials in Authorization header"}
    )
    assert "token" in refusal(open_hub, "acme/tiny", GatedModelError).detail


def test_a_repository_the_token_may_not_read_is_said_to_be_forbidden(stand_in, open_hub):
    stand_in.fault(status=403, headers={"X-Error-Message": "Forbidden"})
    assert "forbids" in refusal(open_hub, "acme/tiny", GatedModelError).detail


def test_a_disabled_repository_is_said_to_be_disabled(stand_in, open_hub):
    stand_in.fault(status=403, headers={"X-Error-Message": "Access to this resource is disabled."})
    assert "disabled" in refusal(open_hub, "acme/tiny", UnknownModelError).detail


def test_a_missing_revision_is_named(open_hub):
    assert "no revision v9" in refusal(open_hub, "acme/tiny@v9", UnknownModelError).detail


def test_a_repository_that_moves_in_a_circle_is_refused(stand_in, open_hub):
    stand_in.renamed |= {"acme/a": "acme/b", "acme/b": "acme/a"}
    refusal(open_hub, "acme/a", RenamedModelError)
    assert stand_in.count() <= 2 * (MAX_REDIRECTS + 1)


def test_an_empty_repository_is_refused(stand_in, open_hub):
    stand_in.add(Repository("acme/empty", {".gitattributes": b"", "README.md": b""}))
    assert "empty" in refusal(open_hub, "acme/empty", ModelWithoutWeightsError).detail


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (["config.json", "tokenizer.json", "tokenizer.bin"], "holds no weights"),
        (["tokenizer.json"], "holds no weights"),
        (["adapter_config.json", "adapter_model.safetensors"], "is an adapter"),
        (["model_index.json", "unet/diffusion_pytorch_model.safetensors"], "diffusion pipeline"),
        (["mmproj-model-f16.gguf"], "holds no weights"),
    ],
)
def test_a_repository_with_nothing_to_load_says_what_it_is(stand_in, open_hub, files, said):
    header = safetensors_repository("x/y").files["model.safetensors"]
    stand_in.add(
        Repository(
            "acme/other", {name: b"{}" if name.endswith(".json") else header for name in files}
        )
    )
    assert said in refusal(open_hub, "acme/other", ModelWithoutWeightsError).detail


def test_a_plan_without_weights_is_sized_by_its_config(stand_in, open_hub):
    config = json.dumps(llama_config()).encode()
    stand_in.add(Repository("acme/plan", {"config.json": config}))

    async def resolve():
        async with open_hub() as hub:
            return await hub.resolve(parse_reference("acme/plan"))

    model = asyncio.run(resolve())
    assert model.source == "config"
    assert codes(model.warnings) == {("model-without-weights", "model")}


def test_weights_without_a_config_are_refused(stand_in, open_hub):
    stand_in.add(
        Repository(
            "acme/bare",
            {"consolidated.safetensors": safetensors_repository("x/y").files["model.safetensors"]},
        )
    )
    assert "no config.json" in refusal(open_hub, "acme/bare", MalformedModelError).detail


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"not json", "no JSON"),
        (b"[]", "not a JSON object"),
        (b'{"model_type": "ll\xff\xfe"}', "no JSON"),
        (b"[" * 100_000, "nested"),
        (b'{"a":' * 100_000, "nested"),
        (b'{"hidden_size": ' + b"9" * 5000 + b"}", "no JSON"),
        (json.dumps(llama_config(hidden_size=-1)).encode(), "hidden_size"),
        (b'{"model_type": ["llama"]}', "model_type"),
        (b'{"pad": "' + b"x" * (4 * 2**20) + b'"}', "exceeds the limit"),
    ],
)
def test_a_config_that_is_none_is_malformed(stand_in, open_hub, body, said):
    stand_in.fault("config.json", body=body)
    assert said in refusal(open_hub, "acme/tiny", MalformedModelError).detail


def test_a_config_without_an_end_is_malformed(stand_in, open_hub):
    stand_in.fault("config.json", endless=True)
    assert "exceeds the limit" in refusal(open_hub, "acme/tiny", MalformedModelError).detail


@pytest.mark.parametrize(
    "body",
    [
        b'{"id": 5}',
        b'{"id": "../../etc", "siblings": []}',
        b'{"siblings": [{"rfilename": 1}]}',
        b'{"siblings": "all"}',
        b'{"safetensors": {"parameters": {"BF16": "many"}}}',
        b'{"safetensors": {"parameters": {"BF16": -1}}}',
        b'{"safetensors": {"parameters": {"BF16": 9999999999999999999}}}',
        b"[]",
    ],
)
def test_a_description_that_says_nonsense_is_malformed(stand_in, open_hub, body):
    stand_in.fault("/api/", body=body)
    refusal(open_hub, "acme/tiny", MalformedModelError)


@pytest.mark.parametrize(
    "body",
    [b"<html>Sign in to the guest network</html>", b'{"id": "\xff"}', b'{"a":' * 100_000, b""],
)
def test_a_portal_that_answers_for_the_hub_is_no_hub(stand_in, open_hub, body):
    stand_in.fault("/api/", body=body)
    assert "is it a Hugging Face Hub?" in refusal(open_hub, "acme/tiny", HubUnreachableError).detail


@pytest.mark.parametrize("status", [401, 403, 404, 407, 451])
def test_a_proxy_that_forbids_the_hub_is_no_hub(stand_in, open_hub, status):
    stand_in.fault(
        status=status, headers={"Content-Type": "text/html"}, body=b"<h1>Blocked by policy</h1>"
    )
    assert "is it a Hugging Face Hub?" in refusal(open_hub, "acme/tiny", HubUnreachableError).detail


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (401, UnknownModelError),
        (403, GatedModelError),
        (404, UnknownModelError),
        (400, UnknownModelError),
    ],
)
def test_a_mirror_that_sends_no_codes_is_understood(stand_in, open_hub, status, error):
    stand_in.fault(
        status=status, headers={"Content-Type": "application/json"}, body=b'{"error": "no"}'
    )
    refusal(open_hub, "acme/tiny", error)


@pytest.mark.parametrize("kind", ["text/plain", "", "text/html"])
@pytest.mark.parametrize(
    ("status", "error"),
    [(401, UnknownModelError), (403, GatedModelError), (404, UnknownModelError)],
)
def test_a_mirror_that_sends_nothing_but_a_status_is_understood(
    stand_in, open_hub, status, error, kind
):
    stand_in.fault(status=status, headers={"Content-Type": kind} if kind else {}, body=b"")
    refusal(open_hub, "acme/tiny", error)


@pytest.mark.parametrize("status", [400, 405, 407, 451])
def test_another_bare_status_is_no_word_of_the_repository(stand_in, open_hub, status):
    stand_in.fault(status=status, headers={"Content-Type": "text/plain"}, body=b"no")
    refusal(open_hub, "acme/tiny", HubUnreachableError)


def test_a_json_text_of_very_many_values_is_refused(stand_in, open_hub):
    stand_in.fault("config.json", body=b'{"pad": [' + b"[]," * 100_000 + b"0]}")
    assert "more than 100,000 values" in refusal(open_hub, "acme/tiny", MalformedModelError).detail


@pytest.mark.parametrize("part", ["/api/", "config.json"])
def test_a_compressed_body_is_not_unpacked(stand_in, open_hub, part):
    stand_in.fault(part, body=gzip.compress(b"{}"), headers={"Content-Encoding": "gzip"})
    assert "compressed" in refusal(open_hub, "acme/tiny", HubUnreachableError, attempts=1).detail


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"GG",
        b"GGML" + bytes(60),
        b"GGUF\x01\x00\x00\x00" + bytes(60),
        b"GGUF\x03\x00\x00\x00" + b"\xff" * 60,
    ],
)
def test_a_gguf_file_that_is_none_is_malformed(stand_in, open_hub, body):
    stand_in.add(gguf_repository("acme/tiny-GGUF", {}, {"tiny.Q8_0.gguf": 8000}))
    stand_in.fault(".gguf", body=body)
    refusal(open_hub, "acme/tiny-GGUF:Q8_0", MalformedModelError)


def test_a_gguf_label_that_is_not_there_names_those_that_are(stand_in, open_hub):
    stand_in.add(
        gguf_repository("acme/tiny-GGUF", {}, {"tiny.Q8_0.gguf": 8000, "tiny.Q4_K_M.gguf": 4000})
    )
    error = refusal(open_hub, "acme/tiny-GGUF:Q2_K", UnknownModelError)
    assert error.matches == ("acme/tiny-GGUF:Q4_K_M", "acme/tiny-GGUF:Q8_0")


def test_a_gguf_label_needs_gguf_files(open_hub):
    assert refusal(open_hub, "acme/tiny:Q8_0", UnknownModelError).matches == ("acme/tiny",)


def test_missing_gguf_shards_are_refused(stand_in, open_hub):
    stand_in.add(
        gguf_repository(
            "acme/tiny-GGUF",
            {},
            {"tiny-Q8_0-00001-of-00003.gguf": 1, "tiny-Q8_0-00003-of-00003.gguf": 1},
        )
    )
    assert "2 of 3 shards" in refusal(open_hub, "acme/tiny-GGUF", MalformedModelError).detail


def test_a_refusal_is_remembered_for_a_while(stand_in, open_hub):
    async def run():
        now = [1000.0]
        async with open_hub(monotonic=lambda: now[0], refusal_seconds=30) as hub:
            for seconds in (0, 29, 30):
                now[0] = 1000.0 + seconds
                with pytest.raises(UnknownModelError):
                    await hub.resolve(parse_reference("acme/none"))
                counts.append(stand_in.count())

    counts: list[int] = []
    asyncio.run(run())
    assert counts == [2, 2, 4]


def test_errors_of_the_hub_are_not_remembered_as_the_models(stand_in, open_hub):
    async def run():
        now = [0.0]
        async with open_hub(monotonic=lambda: now[0], attempts=1, outage_seconds=5) as hub:
            with pytest.raises(HubBusyError):
                await hub.resolve(parse_reference("acme/tiny"))
            now[0] = 400.0
            return await hub.resolve(parse_reference("acme/tiny"))

    stand_in.fault(status=429, times=2, headers={"Retry-After": "300"})
    assert asyncio.run(run()).id == "acme/tiny"
