"""explain_utilization: how much of its GPUs does a training run use, and what would a token
budget take?"""

from collections.abc import Iterator

from fitgauge.catalog.gpu_match import GpuMatch
from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.model import Model
from fitgauge.engine.note import Note
from fitgauge.engine.performance import flops as engine
from fitgauge.engine.performance.flops import Exchange
from fitgauge.errors import InvalidRequestError
from fitgauge.services.common import responses
from fitgauge.services.utilization.facts import RunFacts, run_facts
from fitgauge.services.utilization.schemas import (
    BudgetAnswer,
    CommunicationAnswer,
    FlopsAnswer,
    UtilizationAnswer,
    UtilizationRequest,
)

_ALIKE = 0.05
"""Share by which two figures of one run may differ."""

_USUAL_MFU = (
    "PaLM 540B reached 0.46 (arXiv 2204.02311), Llama 3 405B 0.38 to 0.43 (arXiv 2407.21783)"
)


def explain_utilization(
    request: UtilizationRequest, model: Model | None, match: GpuMatch
) -> UtilizationAnswer:
    """Return the UtilizationAnswer. Raises InvalidRequestError where a fact is missing that
    the catalog does not have, with what to send."""
    accelerator, facts = match.accelerator, run_facts(request, model, match)
    exchange = _exchange(request, model, accelerator, facts)
    budget = _budget(request, facts)
    published = None
    if request.published_tokens_per_second is not None and facts.tokens_per_second is not None:
        published = facts.tokens_per_second / request.published_tokens_per_second
    return UtilizationAnswer(
        summary=_summary(accelerator, facts, published, budget),
        gpu=responses.gpu_answer(accelerator, facts.gpus),
        model=responses.model_answer(model) if model else None,
        precision=facts.precision,
        peak_tflops=facts.peak,
        achieved_tflops=facts.achieved,
        mfu=facts.mfu,
        hfu=facts.hfu,
        tokens_per_second_per_gpu=facts.tokens_per_second,
        fraction_of_published=published,
        flops=_flops_answer(request, model, facts) if model and facts.flops else None,
        budget=budget,
        communication=_communication_answer(request, exchange, facts.gpus) if exchange else None,
        trace=None,
        advice=_advice(request, accelerator, facts, exchange, published),
        warnings=[
            *(model.warnings if model else ()),
            *(model.spec.notes if model else ()),
            *_warnings(match, facts),
        ],
        understood_as=_understood(request, model, accelerator, facts),
    )


def _budget(request: UtilizationRequest, facts: RunFacts) -> BudgetAnswer | None:
    """Return time and cost of the token budget, from the measured throughput where there is one,
    else from an MFU."""
    if request.token_budget is None:
        return None
    if facts.tokens_per_second is not None:
        seconds = request.token_budget / (facts.tokens_per_second * facts.gpus)
    else:
        if facts.flops is None or facts.peak is None:
            detail = "`token_budget` requires a throughput, or `model` and `mfu`."
            raise InvalidRequestError(
                detail,
                hint="Send model (and mfu), or tokens_per_second.",
                field="model",
                code="missing-field",
            )
        mfu = request.mfu or facts.mfu
        if mfu is None:
            raise InvalidRequestError(
                "`token_budget` requires `mfu` or a throughput.",
                hint=(f"Send mfu: {_USUAL_MFU}."),
                field="mfu",
                code="missing-field",
            )
        seconds = engine.budget_seconds(
            request.token_budget, facts.flops.model, gpus=facts.gpus, peak=facts.peak, mfu=mfu
        )
    hours = seconds * facts.gpus / 3600
    price = request.price_per_gpu_hour
    return BudgetAnswer(
        tokens=request.token_budget,
        seconds=seconds,
        gpu_hours=hours,
        cost=None if price is None else hours * price,
    )


def _exchange(
    request: UtilizationRequest, model: Model | None, accelerator: Accelerator, facts: RunFacts
) -> Exchange | None:
    """Return what ZeRO moves, where a stage was asked about."""
    if request.zero_stage is None:
        return None
    if model is None or facts.flops is None or facts.peak is None:
        raise InvalidRequestError(
            "`zero_stage` requires `model`.",
            hint="Send model.",
            field="model",
            code="missing-field",
        )
    if facts.gpus < 2:
        raise InvalidRequestError(
            "`zero_stage` requires more than one GPU.",
            hint="Send the `gpu_count` of the run, or leave out `zero_stage`.",
            field="gpu_count",
            code="missing-field",
        )
    link = request.interconnect_gbps or accelerator.interconnect_gbps
    if link is None:
        detail = f"The interconnect of the {accelerator.name} is not in the catalog."
        hint = (
            "Send `interconnect_gbps`: GB/s in one direction (32 for PCIe 4.0 x16, 64"
            " for PCIe 5.0 x16)."
        )
        raise InvalidRequestError(
            detail, hint=hint, field="interconnect_gbps", code="missing-field"
        )
    return engine.zero_exchange(
        model.spec.parameters,
        zero_stage=request.zero_stage,
        ranks=facts.gpus,
        tokens=facts.sequence_length * (request.micro_batch_size or 1),
        flops_per_token=facts.flops.hardware,
        peak=facts.peak,
        link_gbps=link,
    )


def _flops_answer(request: UtilizationRequest, model: Model, facts: RunFacts) -> FlopsAnswer:
    assert facts.flops is not None
    flops, parameters = facts.flops, engine.multiplied_parameters(model.spec)
    times = 6 if (request.method or "full") == "full" else 4
    attention = flops.model - times * parameters
    formula = (
        f"{times} x {parameters} + {attention:.6g} of attention over {facts.sequence_length} tokens"
    )
    if flops.hardware > flops.model:
        formula += f"; {flops.hardware - flops.model:.6g} more recomputed"
    return FlopsAnswer(
        model_flops_per_token=flops.model,
        hardware_flops_per_token=flops.hardware,
        multiplied_parameters=parameters,
        formula=formula,
        source="PaLM, arXiv 2204.02311, appendix B; recomputation: arXiv 2205.05198",
    )


def _communication_answer(
    request: UtilizationRequest, exchange: Exchange, gpus: int
) -> CommunicationAnswer:
    times = 3 if request.zero_stage == 3 else 2
    return CommunicationAnswer(
        bytes_per_gpu=exchange.bytes,
        communication_seconds=exchange.communication_seconds,
        compute_seconds=exchange.compute_seconds,
        ratio=exchange.ratio,
        formula=f"{times} x parameters x 2 bytes x {gpus - 1}/{gpus}",
        source="ZeRO, arXiv 1910.02054, section 7",
    )


def _advice(
    request: UtilizationRequest,
    accelerator: Accelerator,
    facts: RunFacts,
    exchange: Exchange | None,
    published: float | None,
) -> list[str]:
    """Return what to change, the likeliest first. Says nothing where nothing points anywhere."""
    advice = []
    if exchange is not None and exchange.ratio > 1:
        link = "PCIe" if accelerator.nvlink is False else "the link between GPUs"
        instead = "accumulate gradients over more micro-batches"
        if request.zero_stage == 3:
            instead = "use ZeRO-2 (a third less traffic) or shard within a node only (HSDP)"
        advice.append(
            f"Communication over {link} takes {exchange.ratio:.1f} times as long as computation:"
            f" raise `micro_batch_size` about {exchange.ratio:.1f} times, {instead}, or use GPUs"
            " linked by NVLink."
        )
    if facts.mfu is not None and facts.mfu < 0.3:
        advice.append(
            f"MFU {facts.mfu:.1%} is low ({_USUAL_MFU}): check that flash attention and"
            f" {facts.precision} matrix units are used, raise the micro-batch, fuse the optimizer"
            " and check the data loader; a profiler trace shows which."
        )
    if facts.flops is not None and facts.flops.hardware > facts.flops.model:
        share = 1 - facts.flops.model / facts.flops.hardware
        advice.append(
            f"Checkpointing spends {share:.0%} of the operations on recomputation: use less of it"
            " if memory allows."
        )
    if published is not None and published < 0.8:
        advice.append(
            f"The run reaches {published:.1%} of the published throughput: compare batch size,"
            " kernels and interconnect."
        )
    return advice


def _warnings(match: GpuMatch, facts: RunFacts) -> Iterator[Note]:
    yield from match.warnings
    if (
        facts.achieved is not None
        and facts.tokens_per_second is not None
        and facts.flops is not None
    ):
        implied = engine.achieved_tflops(facts.tokens_per_second, facts.flops.model)
        if abs(implied - facts.achieved) > _ALIKE * facts.achieved:
            yield Note(
                "throughput-conflict",
                "achieved_tflops",
                f"The throughput implies {implied:.4g} TFLOPS, `achieved_tflops` says"
                f" {facts.achieved:.4g}: using {facts.achieved:.4g}.",
            )
    if facts.mfu is not None and facts.mfu > 1:
        yield Note(
            "throughput-above-peak",
            None,
            "The throughput exceeds the peak: check the units, and that the peak is dense and"
            " the rate per GPU.",
        )


def _summary(
    accelerator: Accelerator, facts: RunFacts, published: float | None, budget: BudgetAnswer | None
) -> str:
    sentences = []
    if facts.mfu is not None:
        sentences.append(
            f"MFU {facts.mfu:.2%}: {facts.achieved:.4g} of {facts.peak:.4g} dense {facts.precision}"
            f" TFLOPS of one {accelerator.name}."
        )
    if published is not None:
        sentences.append(
            f"{facts.tokens_per_second:,.0f} tokens per second and GPU are {published:.1%} of the"
            " published throughput."
        )
    elif facts.mfu is None and facts.tokens_per_second is not None:
        sentences.append(
            f"{facts.tokens_per_second:,.0f} tokens per second and GPU; send `model` for the MFU."
        )
    if budget is not None:
        cost = "" if budget.cost is None else f", cost {budget.cost:,.0f}"
        days, hours = f"{budget.seconds / 86400:,.1f} days", f"{budget.gpu_hours:,.0f} GPU hours"
        sentences.append(
            f"{budget.tokens:.4g} tokens take {days} on {facts.gpus} GPUs ({hours}){cost}."
        )
    return " ".join(sentences)


_ECHOED = (
    "achieved_tflops", "tokens_per_second", "samples_per_second", "published_tokens_per_second",
    "peak_tflops", "mfu", "token_budget",
    "price_per_gpu_hour", "zero_stage", "micro_batch_size", "interconnect_gbps",
)  # fmt: skip
"""What has no default."""


def _understood(
    request: UtilizationRequest, model: Model | None, accelerator: Accelerator, facts: RunFacts
) -> dict[str, str | int | float | bool]:
    filled: dict[str, str | int | float | bool] = {
        "gpu": accelerator.name,
        "gpu_count": facts.gpus,
        "precision": facts.precision,
        "sequence_length": facts.sequence_length,
        "method": request.method or "full",
        "activation_checkpointing": request.activation_checkpointing or "none",
    }
    filled |= {name: value for name in _ECHOED if (value := getattr(request, name)) is not None}
    return filled | ({"model": model.id} if model else {})
