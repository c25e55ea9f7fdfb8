"""Tables from request to rows: names resolved, cells estimated in batches, pages."""

import asyncio
from collections.abc import AsyncIterator

from msgspec import structs

from fitgauge.catalog.catalog import Catalog
from fitgauge.catalog.gpu_match import GpuMatch
from fitgauge.engine.model.model import Model
from fitgauge.errors import FitgaugeError
from fitgauge.services.common import parsing
from fitgauge.services.common.long_questions import LongQuestions, queue_full
from fitgauge.services.common.model_resolver import ModelResolver
from fitgauge.services.common.pages import PAGE_ITEMS, take_page
from fitgauge.services.common.unsupported import as_invalid_request
from fitgauge.services.compare.schemas import CompareAnswer, CompareRequest, CompareRow
from fitgauge.services.compare.service import Comparer, Comparison, cells
from fitgauge.services.compare.summary import in_words
from fitgauge.services.compare.unknown_names import UnknownName

_ROWS = 100
"""Rows of a table that are estimated at once: some ten milliseconds."""

_OPEN_TABLES = 16
"""Tables read at once. One took some 0.7 MiB between its rows, for as long as its
reader waits."""


class Tables:
    """Answers tables, a batch of rows at a time, so that ordinary questions pass in between."""

    def __init__(self, models: ModelResolver, comparer: Comparer, long: LongQuestions) -> None:
        self._models = models
        self._comparer = comparer
        self._long = long
        self._open = asyncio.Semaphore(_OPEN_TABLES)

    @as_invalid_request
    async def compare(self, request: CompareRequest, catalog: Catalog) -> Comparison:
        """Return the table, whose cells `rows` estimates. Raises the errors of fitgauge.errors;
        of an unknown model or GPU only where no row can be answered."""
        texts = parsing.split_list(request.gpus)
        names = parsing.split_list(request.models)
        cells(len(names), len(texts), 1)
        gpus = [_gpu_or_unknown(catalog, text) for text in texts]
        models = await asyncio.gather(*map(self._model_or_unknown, names))
        return self._comparer.compare(request, models, gpus)

    async def _model_or_unknown(self, name: str) -> Model | UnknownName:
        try:
            return await as_invalid_request(self._models.find)(name)
        except FitgaugeError as error:
            return UnknownName(name, error)

    async def rows(self, comparison: Comparison) -> AsyncIterator[list[CompareRow]]:
        """Yield the rows of a table in batches, at the pace of its reader. Raises QueueFullError
        before the first."""
        if self._open.locked():
            raise queue_full()
        async with self._open:
            some = await self._long.run(lambda checkpoint: comparison.take(_ROWS, checkpoint))
            while some:
                yield some
                some = await self._long.resume(
                    lambda checkpoint: comparison.take(_ROWS, checkpoint)
                )

    async def whole(self, comparison: Comparison) -> CompareAnswer:
        """Return all rows of a table at once. Raises QueueFullError."""
        rows = [row async for some in self.rows(comparison) for row in some]
        return CompareAnswer(
            items=rows, total=comparison.total, summary=in_words(rows, comparison.total)
        )

    async def page(self, request: CompareRequest, catalog: Catalog) -> CompareAnswer:
        """Return a page of a table. Raises the errors of fitgauge.errors."""
        page = structs.replace(request, limit=request.limit or PAGE_ITEMS)
        whole = await self.whole(await self.compare(page, catalog))
        items, following = take_page(
            whole.items, page.limit, page.offset, whole.total, lambda row: row
        )
        return structs.replace(
            whole, items=items, next_offset=following, summary=in_words(items, whole.total)
        )


def _gpu_or_unknown(catalog: Catalog, text: str) -> GpuMatch | UnknownName:
    try:
        return catalog.find(text)
    except FitgaugeError as error:
        return UnknownName(text, error)
