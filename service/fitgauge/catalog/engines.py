"""The engines' measured profiles, by version: data/engines.json, a row a release from which on
something is otherwise.

The first row of an engine is whole; each later one holds what is not as in the row before it.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import msgspec
from msgspec import structs

from fitgauge.catalog import tables
from fitgauge.engine.serving.profile import EngineProfile
from fitgauge.errors import InvalidRequestError

Row = dict[str, Any]

_ANY_BUILD = (0, 1)
"""What begins before any numbered release: llama.cpp counts builds, Ollama from 0.1."""


class Engines:
    """Profiles by engine: each holds from its version until the next."""

    def __init__(self, profiles: tuple[EngineProfile, ...]) -> None:
        self._profiles: dict[str, list[EngineProfile]] = {}
        for profile in sorted(profiles, key=lambda profile: profile.since):
            self._profiles.setdefault(profile.engine, []).append(profile)

    def profile(self, engine: str, version: tuple[int, ...] | None) -> EngineProfile:
        """Return the profile that holds for a version; the newest without a version, and for a
        release of another engine. Raises InvalidRequestError for one that is older than all."""
        of_engine = self._profiles[engine]
        if version is None:
            return of_engine[-1]
        number = (*version, 0)  # a build is one number
        holding = [profile for profile in of_engine if profile.since <= number]
        if not holding and self._is_of_another(version):
            return of_engine[-1]
        if not holding:
            oldest = ".".join(str(part) for part in of_engine[0].since)
            raise InvalidRequestError(
                f"{engine} {'.'.join(map(str, version))} is too old: it has no profile.",
                hint=f"Send a version from {oldest}.",
                field="engine_version",
                code="unsupported-version",
            )
        return holding[-1]

    def with_own_shares(
        self, shares: Mapping[tuple[str, tuple[int, int]], dict[str, float]]
    ) -> "Engines":
        """Return these profiles with `own_shares`, by engine and first release."""
        return Engines(
            tuple(
                structs.replace(profile, own_shares=shares.get((profile.engine, profile.since), {}))
                for profiles in self._profiles.values()
                for profile in profiles
            )
        )

    def until(self, engine: str, version: tuple[int, ...]) -> "Engines":
        """Return the profiles as if the engine had no release after `version`. Raises
        InvalidRequestError for a release newer than all that were read, and for one that is older
        than all profiles."""
        newest = self._profiles[engine][-1].newest
        if version[:3] > _numbers(newest):
            raise InvalidRequestError(
                f"{engine} {'.'.join(map(str, version))} is unknown: the newest release that was"
                f" read is {newest}.",
                hint=f"Send a version up to {newest}.",
                field="engine_version",
                code="unsupported-version",
            )
        last = self.profile(engine, version)
        return Engines(
            tuple(
                profile
                for profiles in self._profiles.values()
                for profile in profiles
                if profile.engine != engine or profile.since <= last.since
            )
        )

    def _is_of_another(self, version: tuple[int, ...]) -> bool:
        """Return whether an engine whose releases are numbered like it has had this one: not those
        whose first profile holds for every build."""
        return any(
            _ANY_BUILD < profiles[0].since <= version <= _numbers(profiles[-1].newest)
            for profiles in self._profiles.values()
        )

    def oldest(self, engine: str) -> str:
        """Return the first version that has a profile."""
        return ".".join(str(part) for part in self._profiles[engine][0].since)


@cache
def load_engines() -> Engines:
    """Return the bundled profiles; unknown fields, missing ones and wrong types are refused."""
    raw = (tables.DATA / "engines.json").read_bytes()
    return Engines(
        msgspec.convert(whole(msgspec.json.decode(raw, type=list[Row])), tuple[EngineProfile, ...])
    )


def whole(rows: Iterable[Row]) -> list[Row]:
    """Return every row with what it leaves as in the row before it of the same engine."""
    latest: dict[Any, Row] = {}
    newest_rows = []
    for row in rows:
        latest[row["engine"]] = {**latest.get(row["engine"], {}), **row}
        newest_rows.append(latest[row["engine"]])
    return newest_rows


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split("."))
