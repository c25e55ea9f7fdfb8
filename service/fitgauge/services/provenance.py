"""Dates and permalinks of answers."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Protocol

import msgspec
from msgspec import UNSET

from fitgauge.catalog.catalog import Catalog
from fitgauge.catalog.engines import Engines
from fitgauge.catalog.snapshot import Snapshot
from fitgauge.services.common.answer_facts import AnswerAsOf, AnswerId, AsOf
from fitgauge.services.common.answer_ids import answer_id
from fitgauge.services.common.fit_schemas import FitAnswer
from fitgauge.services.compare.schemas import CompareAnswer
from fitgauge.services.explain_log.schemas import LogAnswer
from fitgauge.services.models_for_gpu.schemas import ModelsForGpuAnswer
from fitgauge.services.recommend.schemas import RecommendAnswer
from fitgauge.services.requests import LINKED

_OPERATIONS = {request: operation for operation, request in LINKED.items()}


class _Dated(Protocol):
    as_of: AnswerAsOf
    """How old the facts of the answer are."""


class _Linked(_Dated, Protocol):
    answer_id: AnswerId
    """The permalink of the answer."""


class Provenance:
    """Says of answers how old their facts are and where to ask them again."""

    def __init__(self, snapshot: Snapshot, engines: Engines) -> None:
        self._snapshot = snapshot
        self._engines = engines

    def as_of(self, catalog: Catalog, releases: Mapping[str, str] | None = None) -> AsOf:
        """Return the dates. releases: of the engines that an answer judged."""
        return AsOf(catalog.date, self._snapshot.date, dict(releases or {}))

    def date(self, answer: _Dated, catalog: Catalog) -> None:
        """Add the dates to an answer."""
        answer.as_of = self.as_of(catalog, self._releases(answer))

    def link(self, answer: _Linked, request: msgspec.Struct, catalog: Catalog) -> None:
        """Add the dates and the permalink to an answer."""
        self.date(answer, catalog)
        answer.answer_id = answer_id(_OPERATIONS[type(request)], request) or UNSET

    def _releases(self, answer: object) -> dict[str, str]:
        """Return the releases of the serving engines that an answer judges."""
        match answer:
            case FitAnswer():
                understood = answer.understood_as
                named = (str(understood.get("engine", "")), understood.get("engine_version"))
                return {named[0]: str(named[1])} if named[0] and named[1] else {}
            case LogAnswer() if answer.engine and answer.engine_version:
                return {answer.engine: answer.engine_version}
            case RecommendAnswer():
                return self._newest(row.engine for row in (*answer.options, *answer.items))
            case ModelsForGpuAnswer() | CompareAnswer():
                return self._newest(row.engine for row in answer.items)
        return {}

    def _newest(self, engines: Iterable[str | None]) -> dict[str, str]:
        """Return the releases that lists judge, by engine."""
        newest = partial(self._engines.profile, version=None)
        return {engine: newest(engine).newest for engine in sorted({*filter(None, engines)})}
