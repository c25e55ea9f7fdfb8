"""What a kernel's own layout takes of weights beyond the parameters as they are built: padded rows
of MXFP4 experts on Hopper, wider scales of FP8 weights where Marlin reads them."""

import msgspec

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.spec import count_within
from fitgauge.engine.quantity import Term, exact_term, exactly
from fitgauge.engine.quantization.formats import Format
from fitgauge.engine.serving.vllm import releases
from fitgauge.engine.serving.vllm.compute_capability import multiplies_fp8
from fitgauge.engine.serving.weights import Stage
from fitgauge.engine.serving.workload import Workload
from fitgauge.engine.weights.rank_bytes import rank_weights
from fitgauge.engine.weights.sharding import ShardedWeights

_ROW_MULTIPLE = 128
"""Bytes to which a row of packed MXFP4 experts is padded on Hopper, see `_PADDING_SOURCE`."""

_PADDING_SOURCE = (
    "logs of gpt-oss-20b (0.11, 13.47 GiB) and -120b (0.14, 64.38 GiB) on an H100, explained to 0.3"
    " %; no source line found (tools/accuracy/serving.jsonl)"
)

_SCALE_BITS = 16
"""Marlin reads scales in the dtype of the model's 16-bit tensors."""

_SCALES_SOURCE = (
    "vllm 0.33 model_executor/layers/quantization/utils/marlin_utils_fp8.py,"
    " prepare_fp8_layer_for_marlin and prepare_fp8_moe_layer_for_marlin; kernels/linear/__init__.py"
    " and fused_moe/oracle/fp8.py (order of backends)"
)


def repacking_terms(
    sharded: ShardedWeights, workload: Workload, accelerator: Accelerator, stage: Stage
) -> tuple[Term, ...]:
    """Return the terms `repacking` of one pipeline stage; none where kernels read weights as they
    are built."""
    scales = widened_scale_bytes(sharded, workload, accelerator, stage)
    if scales:
        formula = (
            "scales of fp8 blocks, one for every row of a block in 16 bit, as Marlin reads them:"
            f" {exactly(scales)}"
        )
        return (exact_term("repacking", scales, "computed", formula, _SCALES_SOURCE),)
    padding = padded_row_bytes(sharded, workload, accelerator, stage.layers)
    if not padding or rows_are_seen(workload):
        return ()
    formula = f"rows of packed MXFP4 padded to {_ROW_MULTIPLE} B, as until 0.16: {exactly(padding)}"
    return (
        Term(
            name="repacking",
            bytes=padding,
            low=0,
            high=padding,
            basis="assumed",
            formula=formula,
            source=_PADDING_SOURCE,
        ),
    )


def rows_are_seen(workload: Workload) -> bool:
    """Return whether logs of this release show the padded rows of MXFP4 experts among the
    weights."""
    return workload.engine_version < releases.MXFP4_PADDING_UNSEEN


def padded_row_bytes(
    sharded: ShardedWeights, workload: Workload, accelerator: Accelerator, layers: range
) -> int:
    """Return what Hopper's layout of MXFP4 experts takes beyond the parameters: rows x (K/2
    rounded up to 128 B - K/2) over the experts."""
    if accelerator.compute_capability is None or accelerator.compute_capability[0] != 9:
        return 0
    total = 0
    for share in sharded.shares:
        if not share.experts or share.form is None or share.form.name != "mxfp4":
            continue
        row = share.inputs // 2
        count = count_within(share.layers, layers) * -(-share.experts // workload.expert_parallel)
        ways = 1 if workload.expert_parallel > 1 else workload.tensor_parallel
        total += count * share.out * (-row % _ROW_MULTIPLE) // ways
    return total


def widened_scale_bytes(
    sharded: ShardedWeights, workload: Workload, accelerator: Accelerator, stage: Stage
) -> int:
    """Return what scales of FP8 blocks grow by where no matrix unit multiplies FP8: one for each
    of the rows that shared it, rows x groups x 2 B, in place of blocks x 4 B."""
    if multiplies_fp8(accelerator) or not has_fp8_blocks(sharded):
        return 0
    rules = sharded.layout

    def _on_rank(form: Format, width: int, hidden: int, ways: int) -> Format:
        return _by_row(rules.expert_form(form, width, hidden, ways))

    shares = tuple(
        msgspec.structs.replace(share, form=_by_row(share.form))
        if share.form is not None and not share.experts
        else share
        for share in sharded.shares
    )
    layout = msgspec.structs.replace(rules, expert_form=_on_rank)
    widened = msgspec.structs.replace(sharded, shares=shares, layout=layout)
    after, before = (
        rank_weights(
            weights,
            tensor_parallel=workload.tensor_parallel,
            expert_parallel=workload.expert_parallel,
            data_parallel=workload.data_parallel,
            layers=stage.span,
            first=stage.first,
            last=stage.last,
        ).bytes
        for weights in (widened, sharded)
    )
    return after - before


def has_fp8_blocks(sharded: ShardedWeights) -> bool:
    """Return whether rows of FP8 weights share scales."""
    return sharded.once(
        "fp8 blocks",
        lambda: any(share.form is not None and _is_block(share.form) for share in sharded.shares),
    )


def _is_block(form: Format) -> bool:
    return form.name.startswith("fp8_block")


def _by_row(form: Format) -> Format:
    """Return `form` with a 16-bit scale for every row of a block; itself where rows share none."""
    return (
        msgspec.structs.replace(form, rows=1, scale_bits=_SCALE_BITS) if _is_block(form) else form
    )
