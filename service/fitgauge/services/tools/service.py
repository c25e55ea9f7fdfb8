"""The tools: forgiving arguments in, short answers out, over the services of /v1."""

from collections.abc import Mapping
from typing import Any

from msgspec import structs

from fitgauge.engine.quantization.requested import canonical_name
from fitgauge.errors import FitgaugeError
from fitgauge.services.ask import widest
from fitgauge.services.ask.request_fields import USUAL_FORMATS
from fitgauge.services.common.parsing import AS_PUBLISHED
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.compare.schemas import CompareAnswer, CompareRequest
from fitgauge.services.explain_log.schemas import ExplainLogRequest
from fitgauge.services.facade import Services
from fitgauge.services.models_for_gpu.schemas import ModelsForGpuRequest
from fitgauge.services.recommend.schemas import RecommendRequest
from fitgauge.services.tools.arguments import Arguments, parse, training_named
from fitgauge.services.tools.errors import ToolCallError, UnknownToolError, explain
from fitgauge.services.tools.faces import TOOLS, Tool
from fitgauge.services.tools.lists import (
    gpus_answer,
    log_answer,
    models_answer,
    plan_answer,
    table_answer,
)
from fitgauge.services.tools.schemas import ToolAnswer
from fitgauge.services.tools.verdicts import fit_answer, training_answer
from fitgauge.services.training_fit.schemas import TrainingRequest
from fitgauge.services.training_plan.schemas import TrainingPlanRequest


class Tools:
    """Answers the calls of agents."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def call(self, name: str, sent: Mapping[str, Any]) -> ToolAnswer:
        """Return the short answer of a tool. Raises UnknownToolError for an unknown tool, and
        ToolCallError for a call without an answer."""
        tool = TOOLS.get(name)
        if tool is None:
            raise UnknownToolError(name)
        fields, options, keys = sent, "", dict[str, str]()
        named = training_named(tool, sent)
        if named is not None:
            tool = TOOLS[tool.training]
        try:
            call = parse(tool, sent)
            if named is not None:
                call.notes.insert(0, f"answered by {tool.name}: {named}")
            fields, options, keys = call.fields, call.options, call.keys
            return await self._answer(tool, call)
        except FitgaugeError as error:
            raise ToolCallError(error, explain(tool, error, fields, options, keys)) from None

    async def _answer(self, tool: Tool, call: Arguments) -> ToolAnswer:
        match call.request:
            case FitRequest() as request:
                _, fit = await self._services.check_fit(request)
                return fit_answer(tool, call, fit, await self._format(request, fit.understood_as))
            case TrainingRequest() as request:
                _, training = await self._services.check_training_fit(request)
                return training_answer(tool, call, training)
            case RecommendRequest() as request:
                return gpus_answer(call, await self._services.recommend_gpus(request))
            case ModelsForGpuRequest() as request:
                return models_answer(call, await self._services.list_models_that_fit(request))
            case CompareRequest() as request:
                return await self._table(call, request)
            case TrainingPlanRequest() as request:
                _, plan = await self._services.plan_training(request)
                return plan_answer(call, plan)
            case ExplainLogRequest() as request:
                return log_answer(call, await self._services.explain_log(request))
        raise TypeError(call.request)

    async def _format(self, request: FitRequest, understood: Mapping[str, object]) -> str | None:
        """Return the format of the weights: the requested one, else the published one."""
        requested = str(understood.get("quantization", ""))
        if requested and requested != AS_PUBLISHED:
            return canonical_name(requested)
        try:
            model = await self._services.get_model(request.model)
        except FitgaugeError:
            return None
        return (model.quantization or model.dtype).lower()

    async def _table(self, call: Arguments, request: CompareRequest) -> ToolAnswer:
        """Return the first rows of a table, and formats that fit where none is named and nothing
        does as published."""
        table = await self._rows(request)
        missing = widest.fits_nowhere(table) if request.quantizations is None else []
        more = ""
        if missing:
            others = structs.replace(
                widest.lacking(request, missing), quantizations=list(USUAL_FORMATS)
            )
            more = widest.also_in_words(table, missing, await self._rows(others))
        short = table_answer(call, table.items, table.total)
        short.answer += more
        return short

    async def _rows(self, request: CompareRequest) -> CompareAnswer:
        comparison = await self._services.compare_fit(request)
        rows = [row async for some in self._services.rows(comparison) for row in some]
        return CompareAnswer(items=rows, total=comparison.total, summary="")
