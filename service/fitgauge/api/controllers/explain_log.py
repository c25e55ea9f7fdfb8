"""Start-up logs compared with their estimates."""

from litestar import Controller, post
from litestar.di import NamedDependency
from litestar.params import JSONBody

from fitgauge.api.callers import while_connected
from fitgauge.api.documentation import BODY_ERRORS, MODEL_ERRORS, errors
from fitgauge.api.request_parsing import ApiRequest, BodyDecoder
from fitgauge.services.explain_log.schemas import ExplainLogRequest, LogAnswer
from fitgauge.services.facade import Services

_LOG = """\
INFO [core.py:106] Initializing a V1 LLM engine (v0.19.0) with config: model='Qwen/Qwen3-8B',\
 max_seq_len=8192, tensor_parallel_size=1
INFO [arg_utils.py] non-default args: {'gpu_memory_utilization': 0.95, 'max_num_seqs': 1024,\
 'max_num_batched_tokens': 8192}
INFO [gpu_model_runner.py] Model loading took 15.27 GiB memory and 3.1 seconds
INFO [gpu_worker.py] Available KV cache memory: 57.5 GiB
INFO [kv_cache_utils.py] GPU KV cache size: 418,688 tokens
INFO [gpu_model_runner.py] Graph capturing finished in 5 secs, took 0.96 GiB
"""
"""The figures of a posted log: llm-d-incubation/llm-d-planner#205,
qwen-qwen3-8b--h100-80gb--tp1pp1dp1--8192.log."""


class ExplainLogController(Controller):
    """Start-up logs compared with their estimates."""

    @post(
        "/v1/explain-log",
        operation_id="explain_log",
        status_code=200,
        summary="What does this start-up log say, and how far was the estimate from it?",
        description=(
            "Reads an engine's start-up log, or an out-of-memory message, and compares every term"
            " with its estimate: which differs most, and why. Where memory ran out: what took it,"
            " and what to change, with commands. Send model, gpu and command where the log does"
            " not name them."
        ),
        responses=errors(*BODY_ERRORS, *MODEL_ERRORS, 503),
        request_max_body_size=2 * 1024 * 1024,
        opt={
            "body": BodyDecoder(
                ExplainLogRequest,
                {"log": "Model loading took 14.99 GiB", "model": "Qwen/Qwen3-32B", "gpu": "H100"},
            ),
            "examples": {"vLLM on one H100": {"log": _LOG, "gpu": "H100"}},
            "weight": 5,
        },
    )
    async def explain_log(
        self,
        data: JSONBody[ExplainLogRequest],
        request: ApiRequest,
        services: NamedDependency[Services],
    ) -> LogAnswer:
        """Compare a log with its estimate, until the caller disconnects."""
        return await while_connected(request, services.explain_log(data))
