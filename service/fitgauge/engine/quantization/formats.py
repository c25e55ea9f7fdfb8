"""How a quantizer stores a weight: bits of a weight, and its scales, zero points and tables.

A `Format` says it for one tensor; which tensors a quantizer touches is the work of a Scheme
(schemes.py)."""

from functools import cache

import msgspec


class Format(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How one weight of shape (out, in) is stored."""

    name: str
    """The format's name, as answers use it."""
    bits: float
    """Bits of one weight, packed."""
    group: int = 0
    """Weights along `in` that share one scale; 0 for all of `in`."""
    rows: int = 1
    """Rows of `out` that share it; 0 for all of `out`."""
    flat: bool = False
    """Whether groups run over the flattened tensor (bitsandbytes)."""
    scale_bits: int = 0
    """Bits of one scale, once a group."""
    zero_bits: int = 0
    """Bits of one zero point or minimum, once a group."""
    nested: int = 0
    """Scales that share one 32-bit scale of their own (double quantization); 0 for none."""
    input_bits: int = 0
    """Bits for each column of `in` (the group index of GPTQ)."""
    output_bits: int = 0
    """Bits for each row of `out` (a bias that an engine registers with the weight)."""
    extra_bytes: int = 0
    """Bytes once a tensor (global scales, tables)."""
    tile_rows: int = 0
    """Rows of `out` in a tile of 128 by 4 groups, in which the scales are held a second time: 64
    where gate and up lie in one; 0 where they are held once."""
    repeats_scales: bool = False
    """Whether a rank that holds a part of `in` has the scales of all of it."""

    def __post_init__(self) -> None:
        """Raise ValueError for a format that no tensor could have."""
        if (
            not 0 < self.bits <= 64
            or min(self.group, self.rows, self.scale_bits, self.zero_bits) < 0
        ):
            raise ValueError(f"{self.bits} bits in groups of {self.rows} x {self.group}")


_TILE_GROUPS = 4
"""Groups of a tile of scales that are also held in the order of a kernel."""


def groups(out: int, inputs: int, form: Format, *, whole: bool = False) -> int:
    """Return how many groups, each with a scale of its own, a weight of shape (out, inputs) has;
    with `whole`, a group cut short has none."""
    if not form.scale_bits:
        return 0
    if form.flat:
        return -(-out * inputs // form.group)
    along = (inputs // form.group if whole else -(-inputs // form.group)) if form.group else 1
    return along * (-(-out // form.rows) if form.rows else 1)


def tensor_bytes(out: int, inputs: int, form: Format, *, whole: bool = False) -> int:
    """Return the bytes of one weight of shape (out, inputs): packed weights, then scales and zero
    points for every group, then the rest.

    out x in x bits / 8 + groups x (scale_bits + zero_bits) / 8 + ceil(groups / nested) x 4 + in
    x input_bits / 8 + out x output_bits / 8 + extra_bytes, each rounded up to whole bytes.
    `whole`: see `groups`. Scales in tiles are padded to whole tiles."""
    shared = groups(out, inputs, form, whole=whole)
    size = (
        -int(-out * inputs * form.bits // 8)
        + -(-shared * (form.scale_bits + form.zero_bits) // 8)
        + form.extra_bytes
    )
    if form.nested:
        size += 4 * -(-shared // form.nested)
    if form.tile_rows:
        tiles = -(-out // form.tile_rows) * -(-inputs // (form.group * _TILE_GROUPS))
        size += tiles * form.tile_rows * _TILE_GROUPS * form.scale_bits // 8
    return size + inputs * form.input_bits // 8 + out * form.output_bits // 8


def affine(
    bits: int,
    group: int,
    *,
    name: str = "",
    symmetric: bool = True,
    index: bool = False,
    scale_bits: int = 16,
) -> Format:
    """Integers of `bits` with a 16-bit scale for every `group` inputs, and a zero point of `bits`
    unless `symmetric`.

    GPTQ and AWQ store qweight packed in int32, qzeros packed in int32, scales in fp16; GPTQ adds
    g_idx, one int32 an input. Source: AutoGPTQ auto_gptq/nn_modules/qlinear/*, AutoAWQ
    awq/modules/linear/gemm.py."""
    return Format(
        name=name or f"int{bits}",
        bits=bits,
        group=max(group, 0),
        scale_bits=scale_bits,
        zero_bits=0 if symmetric else bits,
        input_bits=32 if index else 0,
    )


def gptq(bits: int, group: int) -> Format:
    """GPTQ: the file holds qzeros and g_idx whatever `sym` and `desc_act` say. Source: AutoGPTQ,
    qlinear modules' buffers."""
    return affine(bits, group, name=f"gptq_int{bits}", symmetric=False, index=True)


def awq(bits: int, group: int) -> Format:
    """AWQ (GEMM): scales and zero points for every group, no index. Source: AutoAWQ,
    WQLinear_GEMM."""
    return affine(bits, group, name=f"awq_int{bits}", symmetric=False)


def bitsandbytes_4bit(kind: str, *, double: bool = False) -> Format:
    """bitsandbytes nf4 or fp4: blocks of 64 weights share an absmax, fp32 or, with double
    quantization, 8 bit plus fp32 for 256 of them.

    A tensor also holds its code table (16 x fp32) and, with double quantization, the nested one
    (256 x fp32) and an offset. Source: bitsandbytes functional.py, quantize_4bit and QuantState."""
    if double:
        return Format(
            name=f"{kind}_double",
            bits=4,
            group=64,
            flat=True,
            scale_bits=8,
            nested=256,
            extra_bytes=16 * 4 + 256 * 4 + 4,
        )
    return Format(name=kind, bits=4, group=64, flat=True, scale_bits=32, extra_bytes=16 * 4)


def block_fp8(rows: int, group: int, scale_bits: int = 32) -> Format:
    """FP8 with one scale for a block of `rows` x `group` weights (DeepSeek-V3: 128 x 128, fp32;
    or e8m0 of one byte). Raises ValueError for an empty block."""
    if rows < 1 or group < 1:
        raise ValueError(f"a block of {rows} x {group} weights")
    return Format(
        name=f"fp8_block{rows}x{group}", bits=8, rows=rows, group=group, scale_bits=scale_bits
    )


FP8_TENSOR = Format(name="fp8", bits=8, extra_bytes=8)
"""One fp32 weight scale and one fp32 input scale a tensor. Source: NVIDIA ModelOpt unified
checkpoints; vLLM layers/quantization/fp8.py."""
FP8_CHANNEL = Format(name="fp8_channel", bits=8, scale_bits=16)
"""A scale for every row of `out`. Source: compressed-tensors, strategy `channel` (bf16 scales)."""
INT8_CHANNEL = Format(name="int8_channel", bits=8, scale_bits=16)
"""W8A8: a scale for every row of `out`. Source: compressed-tensors, format `int-quantized`."""
LLM_INT8 = Format(name="llm_int8", bits=8, scale_bits=32)
"""CB (int8) and SCB (fp32 for every row). Source: bitsandbytes nn/modules.py Int8Params; outlier
columns are taken from CB at run time."""
NVFP4 = Format(name="nvfp4", bits=4, group=16, scale_bits=8, extra_bytes=8)
"""e2m1 weights, an e4m3 scale for 16, fp32 global scales of weight and input. Source: ModelOpt;
vLLM layers/quantization/modelopt.py."""
MXFP4 = Format(name="mxfp4", bits=4, group=32, scale_bits=8)
"""e2m1 weights, an e8m0 scale for 32. Source: OCP Microscaling Formats (MX) 1.0, section 5.1."""
MXFP8 = Format(name="mxfp8", bits=8, group=32, scale_bits=8)
"""e4m3 weights, an e8m0 scale for 32. Source: OCP Microscaling Formats (MX) 1.0, section 5.1."""

GGUF_BLOCKS: dict[str, tuple[int, int]] = {
    "Q4_0": (32, 18), "Q4_1": (32, 20), "Q5_0": (32, 22), "Q5_1": (32, 24), "Q8_0": (32, 34),
    "Q2_K": (256, 84), "Q3_K": (256, 110), "Q4_K": (256, 144), "Q5_K": (256, 176),
    "Q6_K": (256, 210),
    "IQ1_S": (256, 50), "IQ1_M": (256, 56), "IQ2_XXS": (256, 66), "IQ2_XS": (256, 74),
    "IQ2_S": (256, 82),
    "IQ3_XXS": (256, 98), "IQ3_S": (256, 110), "IQ4_NL": (32, 18), "IQ4_XS": (256, 136),
    "TQ1_0": (256, 54), "TQ2_0": (256, 66),
    "MXFP4": (32, 17), "F16": (1, 2), "BF16": (1, 2), "F32": (1, 4),
}  # fmt: skip
"""Weights and bytes of one block of a GGUF tensor type. Source: ggml/src/ggml-common.h; gguf-py
gguf/constants.py GGML_QUANT_SIZES."""

GGUF_FILE_BITS: dict[str, float] = {
    "IQ1_S": 2.0042, "IQ1_M": 2.1460, "IQ2_XXS": 2.3824, "IQ2_XS": 2.5882, "IQ2_S": 2.7403,
    "IQ2_M": 2.9294,
    "IQ3_XXS": 3.2548, "IQ3_XS": 3.4977, "IQ3_S": 3.6606, "IQ3_M": 3.7628, "IQ4_XS": 4.4597,
    "IQ4_NL": 4.6818,
    "Q2_K_S": 2.9697, "Q2_K": 3.1593, "Q3_K_S": 3.6429, "Q3_K_M": 4.0037, "Q3_K_L": 4.2979,
    "Q4_K_S": 4.6672, "Q4_K_M": 4.8944,
    "Q5_K_S": 5.5704, "Q5_K_M": 5.7036, "Q6_K": 6.5625, "Q8_0": 8.5, "Q4_0": 4.5, "Q4_1": 5.0,
    "Q5_0": 5.5, "Q5_1": 6.0,
}  # fmt: skip
"""Average bits of a weight in a whole file of this type, which mixes block types; of the legacy
types and Q6_K the bits of their block. It stands for the file in rankings, and for a bare count of
parameters; of a model see gguf.py.

Source: llama.cpp tools/quantize/README.md, measured on Llama-3.1-8B.
"""


@cache
def gguf_block(name: str) -> Format:
    """Return the format of a GGUF tensor type: `bytes` for every block of weights along a row."""
    weights, size = GGUF_BLOCKS[name]
    return Format(name=name, bits=size * 8 / weights)
