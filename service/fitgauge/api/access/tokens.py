"""Tokens of an identity provider: signed JWT (RFC 7519, RFC 8725), checked by PyJWT."""

import re
from typing import Any, NoReturn

import jwt

from fitgauge.api.access.caller import AccessError, Caller
from fitgauge.api.access.signing_keys import SigningKeys

LONGEST_TOKEN = 8 * 1024
_LONGEST_NAME = 200
_PRINTABLE = re.compile(r"[^\x00-\x1f\x7f]+")
_REQUIRED = ["exp", "iss", "aud", "sub"]

SAFE_ALGORITHMS = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512",
    "ES256", "ES384", "ES512", "EdDSA",
)  # fmt: skip
"""Asymmetric ones: what verifies a token cannot sign one."""


class Tokens:
    """Checks tokens: signature, issuer, audience, times."""

    def __init__(
        self,
        keys: SigningKeys,
        issuer: str,
        audience: str,
        algorithms: tuple[str, ...],
        leeway_seconds: float,
    ) -> None:
        """leeway_seconds: how far clocks may differ."""
        self._keys = keys
        self._issuer = issuer
        self._audience = audience
        self._algorithms = frozenset(algorithms) & frozenset(SAFE_ALGORITHMS)
        self._leeway_seconds = leeway_seconds

    async def caller(self, token: str) -> Caller:
        """Return whose token it is. Raise AccessError 401 where it is not valid, 503 where no
        keys can be read."""
        if len(token) > LONGEST_TOKEN:
            _refuse("The token is too long.")
        try:
            header = jwt.get_unverified_header(token)
        except jwt.PyJWTError:
            _refuse("The token is not a JWT.")
        algorithm, kid = header.get("alg"), header.get("kid")
        if algorithm not in self._algorithms:
            _refuse("The token is signed by an algorithm that is not accepted.")
        key = await self._keys.find(kid, algorithm)
        if key is None:
            _refuse("The token is signed by an unknown key.")
        return self._caller(self._claims(token, key, algorithm))

    def _claims(self, token: str, key: jwt.PyJWK, algorithm: str) -> dict[str, Any]:
        try:
            return jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                issuer=self._issuer,
                audience=self._audience,
                leeway=self._leeway_seconds,
                options={"require": _REQUIRED},
            )
        except jwt.ExpiredSignatureError:
            _refuse("The token has expired.")
        except jwt.InvalidAudienceError:
            _refuse("The token is for another audience.")
        except jwt.InvalidIssuerError:
            _refuse("The token is from another issuer.")
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError):
            _refuse("The token is not valid.")

    def _caller(self, claims: dict[str, Any]) -> Caller:
        subject = claims["sub"]
        if (
            not isinstance(subject, str)
            or len(subject) > _LONGEST_NAME
            or not _PRINTABLE.fullmatch(subject)
        ):
            _refuse("The token's subject is not a name.")
        return Caller(subject, "token", _scopes(claims))


def _scopes(claims: dict[str, Any]) -> frozenset[str]:
    """Return the scopes of a token: `scope` (RFC 9068) or `scp`, as text or as a list."""
    granted = claims.get("scope", claims.get("scp", ""))
    words = granted.split() if isinstance(granted, str) else granted
    return frozenset(str(word) for word in words) if isinstance(words, list) else frozenset()


def _refuse(detail: str) -> NoReturn:
    raise AccessError(401, "invalid-credentials", detail, "Send a token that is valid now.")
