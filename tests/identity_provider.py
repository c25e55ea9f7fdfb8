"""An identity provider whose tokens tests sign, and requests with credentials."""

import json
import time

import httpx
import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa

ISSUER, AUDIENCE = "https://login.example", "fitgauge"
QUESTION = {"model": "acme/tiny", "gpu": "RTX 4090"}


class Provider:
    """An identity provider: signs tokens, and writes its public keys to a file."""

    def __init__(self, path):
        self.path = path
        self.private = {
            "rsa": rsa.generate_private_key(public_exponent=65537, key_size=2048),
            "ec": ec.generate_private_key(ec.SECP256R1()),
        }
        self.publish()

    def jwk(self, kid):
        key = self.private[kid]
        algorithm = jwt.get_algorithm_by_name("RS256" if kid == "rsa" else "ES256")
        return {**json.loads(algorithm.to_jwk(key.public_key())), "kid": kid, "use": "sig"}

    def publish(self, *more):
        keys = [self.jwk(kid) for kid in self.private] + list(more)
        self.path.write_text(json.dumps({"keys": keys}))

    def token(self, *, kid="rsa", algorithm="RS256", key=None, header=None, **claims):
        """Return a token of alice for the next minute; None leaves a claim out."""
        now = int(time.time())
        usual = {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "iat": now, "exp": now + 60}
        payload = {name: one for name, one in {**usual, **claims}.items() if one is not None}
        return jwt.encode(
            payload,
            self.private[kid] if key is None else key,
            algorithm,
            headers={"kid": kid, **(header or {})},
        )


def bearer(credentials):
    return {"Authorization": f"Bearer {credentials}"}


def asked(http: httpx.Client, headers=None, **changes):
    return http.post("/v1/fit", json={**QUESTION, **changes}, headers=headers)
