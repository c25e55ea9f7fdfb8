"""vLLM's second model runner: which models it runs, and what its sampler holds.

It is the default of dense models since 0.25 and of nearly all since 0.29. Symbols: n
max_num_seqs, V words. Source: vllm/v1/worker/gpu/model_runner.py and sample/ (0.25.0 to
0.33.0)."""

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.mixers import CrossAttention, Recurrent
from fitgauge.engine.model.spec import ModelSpec, Part
from fitgauge.engine.quantity import Term, exact_term, exactly
from fitgauge.engine.serving.profile import Coefficient, EngineProfile, SecondRunner
from fitgauge.engine.serving.vllm import releases
from fitgauge.engine.serving.vllm.speculative import drafts_in_parallel, is_head
from fitgauge.engine.serving.workload import Workload

_FUSED = ((8, 0), (12, 1))
"""Compute capabilities for which that release takes FlashInfer's sampler. Source:
v1/attention/backends/flashinfer.py (0.33.0)."""
_UNFUSED = Coefficient(
    low=1.5,
    expected=1.65,
    high=1.85,
    runs=0,
    source=(
        "v1/sample/ops/topk_topp_triton.py (0.33): 16-bit and float32 logits, a row a"
        " multiprocessor"
    ),
)

_COUNTER = 4
"""Bytes of a counter, and of `_MARKS` marks."""
_MARKS = 32

_WARMED = Coefficient(
    low=3.5,
    expected=3.5,
    high=3.6,
    runs=0,
    source="vllm 0.31 vllm/v1/worker/gpu/warmup.py, warmup_kernels; vLLM pull request 48601",
)
"""Copies that FlashInfer's sampler holds with every sampling parameter set: logits in 16 bits and
float32, masked logits, probabilities. The log of that request ran out of memory at its warm-up:
73.3 GiB held of 77.6, 1 GiB of states, 3.3 GiB of copies."""

_STATES_SOURCE = "vllm 0.33 vllm/v1/worker/gpu/sample/penalties.py, PenaltiesState"


def runs_second(spec: ModelSpec, models: SecondRunner) -> bool:
    """Return whether this model runs with the second model runner, where that is the default of
    `models`. Tokens that a head drafts in parallel, and before `drafts` those of a smaller model,
    need the first. Source: config/vllm.py, use_v2_model_runner,
    _get_v2_model_runner_unsupported_features (0.27.0, 0.29.0, 0.33.0)."""
    if spec.draft is not None and (
        drafts_in_parallel(spec.draft) or not (is_head(spec.draft) or models == "drafts")
    ):
        return False
    if models != "dense":
        return models != "none"
    if spec.task != "generate":
        return False
    language = [block for block in spec.blocks if block.part is Part.LANGUAGE]
    return not any(
        (block.mlp is not None and block.mlp.experts)
        or any(isinstance(mixer, Recurrent | CrossAttention) for mixer in block.mixers)
        for block in language
    )


def second_sampler(
    profile: EngineProfile, workload: Workload, accelerator: Accelerator
) -> Coefficient | None:
    """Return the copies of the logits that the second model runner's sampler holds: without
    FlashInfer, which is for some NVIDIA GPUs, fewer."""
    if _fused(accelerator) or workload.engine_version < releases.SAMPLER_WARMED:
        return profile.second_logits_copies
    return _UNFUSED


def holds_states(spec: ModelSpec, profile: EngineProfile) -> bool:
    """Return whether the last stage holds `sampler_states`."""
    return spec.task != "encode" and runs_second(spec, profile.second_runner)


def sampler_states(spec: ModelSpec, workload: Workload) -> Term:
    """`sampler_states` of the last stage, whole on every rank: how often each request drew each
    word, and which words its prompt has, n x (V + ceil(V / 32)) x 4 B. They are taken once the
    model is loaded, so no line on weights counts them. Source: `_STATES_SOURCE`."""
    words = spec.vocabulary_size
    marked = -(-words // _MARKS)
    return exact_term(
        "sampler_states",
        workload.max_num_seqs * (words + marked) * _COUNTER,
        "computed",
        f"{workload.max_num_seqs} sequences x ({words} counters + {marked} of marks) x"
        f" {_COUNTER} B",
        _STATES_SOURCE,
    )


def warm_up_term(
    spec: ModelSpec, workload: Workload, accelerator: Accelerator, pass_bytes: int
) -> Term:
    """`sampler_warm_up`: what warming the sampler takes beyond what was left for the pass,
    max(0, copies x n x V x 4 B - pass_bytes), before `releases.SAMPLER_WARMED`: the pass sees
    no sampling parameters, the warm-up sets them all for n requests."""
    copies = _WARMED if _fused(accelerator) else _UNFUSED
    requests = min(workload.max_num_seqs, workload.max_batched_tokens // 2)
    one = requests * spec.vocabulary_size * _COUNTER
    low, size, high = (
        max(0, int(number * one) - pass_bytes)
        for number in (copies.low, copies.expected, copies.high)
    )
    return Term(
        name="sampler_warm_up",
        low=low,
        bytes=size,
        high=high,
        basis="computed",
        formula=f"max(0, {copies.expected:g} copies x {requests} sequences x"
        f" {spec.vocabulary_size} words x {_COUNTER} B - {exactly(pass_bytes)} left for the pass)",
        source=copies.source,
    )


def _fused(accelerator: Accelerator) -> bool:
    """Return whether FlashInfer samples on this GPU."""
    least, most = _FUSED
    capability = accelerator.compute_capability
    return capability is not None and least <= capability <= most
