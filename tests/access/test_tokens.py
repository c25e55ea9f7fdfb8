"""Tokens of an identity provider, and the ways to forge one (RFC 8725)."""

import asyncio
import base64
import hashlib
import hmac
import json
import time

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from fitgauge.api.access.caller import AccessError
from fitgauge.api.access.signing_keys import RETRY_SECONDS, STALE_SECONDS, SigningKeys
from fitgauge.api.access.tokens import LONGEST_TOKEN
from identity_provider import AUDIENCE, ISSUER, asked, bearer


def part(value):
    raw = json.dumps(value).encode() if not isinstance(value, bytes) else value
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def unsigned(provider, algorithm):
    claims = provider.token().split(".")[1]
    return f"{part({'alg': algorithm, 'typ': 'JWT', 'kid': 'rsa'})}.{claims}."


def signed_with_the_public_key(provider):
    """HS256 with the RSA public key as the shared secret, as it is published."""
    pem = provider.private["rsa"].public_key()
    secret = pem.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    claims = provider.token().split(".")[1]
    head = f"{part({'alg': 'HS256', 'kid': 'rsa'})}.{claims}"
    return f"{head}.{part(hmac.new(secret, head.encode(), hashlib.sha256).digest())}"


def refusals(provider):
    now = int(time.time())
    stranger = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    head, claims, signature = provider.token().split(".")
    return {
        "no algorithm": unsigned(provider, "none"),
        "no algorithm, spelt otherwise": unsigned(provider, "nOnE"),
        "shared secret": signed_with_the_public_key(provider),
        "expired": provider.token(exp=now - 60),
        "not valid yet": provider.token(nbf=now + 60),
        "issued later": provider.token(iat=now + 3600),
        "another audience": provider.token(aud="another"),
        "another issuer": provider.token(iss="https://evil.example"),
        "no expiry": provider.token(exp=None),
        "no audience": provider.token(aud=None),
        "no issuer": provider.token(iss=None),
        "no subject": provider.token(sub=None),
        "subject of two lines": provider.token(sub="alice\ndecision=allowed"),
        "long subject": provider.token(sub="x" * 201),
        "another key": provider.token(key=stranger),
        "key of another kind": provider.token(
            kid="ec", algorithm="RS256", key=provider.private["rsa"]
        ),
        "algorithm that is not allowed": provider.token(algorithm="PS256"),
        "unknown key": provider.token(header={"kid": "unknown"}),
        "key id that is no text": f"{part({'alg': 'RS256', 'kid': ['rsa']})}.{claims}.{signature}",
        "path as key id": provider.token(header={"kid": "../../dev/null"}),
        "own key in the header": provider.token(
            key=stranger, header={"jwk": {"kty": "RSA", "n": "AQAB", "e": "AQAB"}}
        ),
        "unknown critical header": provider.token(header={"crit": ["exp2"], "exp2": 1}),
        "other claims": f"{head}.{part({'sub': 'root'})}.{signature}",
        "no signature": f"{head}.{claims}.",
        "huge": provider.token(more="x" * LONGEST_TOKEN),
        "deep": f"{part(b'[' * 5000)}.{claims}.{signature}",
    }


def test_a_token_lets_in(everything, provider, caplog):
    caplog.set_level("INFO", "fitgauge.audit")
    assert asked(everything, bearer(provider.token())).status_code == 200
    several = provider.token(kid="ec", algorithm="ES256", aud=["another", AUDIENCE])
    assert asked(everything, bearer(several)).status_code == 200
    late = provider.token(exp=int(time.time()) - 10)  # within what clocks may differ
    assert asked(everything, bearer(late)).status_code == 200
    assert caplog.text.count('caller="token:alice"') == 3


def test_no_forged_token_does(everything, provider):
    for what, token in refusals(provider).items():
        refused = asked(everything, bearer(token))
        assert (refused.status_code, refused.json()["code"]) == (401, "invalid-credentials"), what


def test_a_scope_may_be_needed(guarded, provider):
    with guarded(
        jwt_keys=str(provider.path), jwt_issuer=ISSUER, jwt_audience=AUDIENCE, jwt_scope="fit:ask"
    ) as http:
        for granted in ({"scope": "fit:ask other"}, {"scp": ["fit:ask"]}):
            assert asked(http, bearer(provider.token(**granted))).status_code == 200
        for granted in ({}, {"scope": "fit:asking"}, {"scope": 7}, {"scp": None}):
            refused = asked(http, bearer(provider.token(**granted)))
            assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
            challenge = refused.headers["www-authenticate"]
            assert 'error="insufficient_scope", scope="fit:ask"' in challenge


class Served:
    """Keys of a provider as they are read, and how often."""

    def __init__(self, *keys):
        self.keys = list(keys)
        self.reads = 0
        self.now = 0.0
        self.fails = False

    async def read(self):
        self.reads += 1
        if self.fails:
            raise OSError
        return json.dumps({"keys": self.keys}).encode()

    def signing_keys(self):
        return SigningKeys("", lambda: self.now, self.read)


def test_a_new_key_is_read_when_it_is_used_and_a_removed_one_is_forgotten(provider):
    async def work():
        served = Served(provider.jwk("rsa"))
        keys = served.signing_keys()
        assert await keys.find("rsa", "RS256")
        served.keys = [provider.jwk("ec")]
        served.now = RETRY_SECONDS
        assert await keys.find("ec", "ES256")
        assert await keys.find("rsa", "RS256") is None
        assert served.reads == 2

    asyncio.run(work())


def test_made_up_key_ids_do_not_make_the_service_ask_the_provider_again(provider):
    async def work():
        served = Served(provider.jwk("rsa"))
        keys = served.signing_keys()
        for number in range(100):
            assert await keys.find(f"made-up-{number}", "RS256") is None
        assert await asyncio.gather(*(keys.find(f"{n}", "RS256") for n in range(100)))
        assert served.reads == 1
        served.now = RETRY_SECONDS
        await keys.find("made-up", "RS256")
        assert served.reads == 2

    asyncio.run(work())


def test_keys_are_used_for_a_while_where_the_provider_does_not_answer(provider):
    async def work():
        served = Served(provider.jwk("rsa"))
        keys = served.signing_keys()
        await keys.find("rsa", "RS256")
        served.fails = True
        served.now = STALE_SECONDS
        assert await keys.find("rsa", "RS256")
        served.now += 1
        with pytest.raises(AccessError) as refused:
            await keys.find("rsa", "RS256")
        assert (refused.value.status, refused.value.slug) == (503, "signing-keys-unavailable")

    asyncio.run(work())


def test_keys_that_must_not_verify_are_left_out(provider):
    secret = {"kty": "oct", "k": part(b"x" * 32), "kid": "secret"}
    short = rsa.generate_private_key(public_exponent=65537, key_size=1024).public_key()
    numbers = short.public_numbers()
    weak = {
        "kty": "RSA",
        "kid": "weak",
        "n": part(numbers.n.to_bytes(128, "big")),
        "e": part(numbers.e.to_bytes(3, "big")),
    }
    private = {**provider.jwk("ec"), "d": "AAAA", "kid": "private"}
    encrypts = {**provider.jwk("rsa"), "use": "enc", "kid": "encrypts"}

    async def work():
        keys = Served(secret, weak, private, encrypts).signing_keys()
        for kid, algorithm in [
            ("secret", "RS256"),
            ("weak", "RS256"),
            ("private", "ES256"),
            ("encrypts", "RS256"),
        ]:
            assert await keys.find(kid, algorithm) is None, kid

    asyncio.run(work())


def test_a_key_is_for_the_algorithm_that_it_names(provider):
    async def work():
        keys = Served({**provider.jwk("rsa"), "alg": "RS256"}, provider.jwk("ec")).signing_keys()
        assert await keys.find("rsa", "RS256")
        assert await keys.find("rsa", "RS512") is None
        assert await keys.find(None, "RS256") is None  # there are two

    asyncio.run(work())


@pytest.mark.parametrize("content", [b"", b"[]", b'{"keys": 1}', b"\xff", b"[" * 9999])
def test_what_is_no_set_of_keys_is_a_provider_that_does_not_answer(content):
    async def read():
        return content

    async def work():
        with pytest.raises(AccessError) as refused:
            await SigningKeys("", lambda: 0.0, read).find("rsa", "RS256")
        assert refused.value.status == 503

    asyncio.run(work())
