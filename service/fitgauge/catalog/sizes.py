"""Models that are only a size: the usual architecture of a model of that many parameters."""

import re

from fitgauge.engine.model.spec import (
    Attention,
    Block,
    Kind,
    Mlp,
    Model,
    ModelSpec,
    Part,
    Split,
    Tensor,
)
from fitgauge.engine.note import Note
from fitgauge.errors import InvalidRequestError

_SIZE = re.compile(
    r"\s*(\d{1,5}(?:\.\d{1,3})?)\s*([mbt])\s*(?:model|params|parameters)?\s*", re.IGNORECASE
)
_SCALE = {"m": 10**6, "b": 10**9, "t": 10**12}
_SMALLEST, _LARGEST = 10**6, 10**13

_SHAPES: tuple[tuple[float, str, int, int, int, int, int, int], ...] = (
    (0.125, "OPT-125M", 768, 12, 12, 12, 3072, 50272),
    (0.5, "Qwen2.5-0.5B", 896, 24, 14, 2, 4864, 151936),
    (1.2, "Llama-3.2-1B", 2048, 16, 32, 8, 8192, 128256),
    (3.2, "Llama-3.2-3B", 3072, 28, 24, 8, 8192, 128256),
    (6.7, "LLaMA-7B", 4096, 32, 32, 32, 11008, 32000),
    (8.0, "Llama-3-8B", 4096, 32, 32, 8, 14336, 128256),
    (13.0, "LLaMA-13B", 5120, 40, 40, 40, 13824, 32000),
    (32.5, "LLaMA-33B", 6656, 60, 52, 52, 17920, 32000),
    (65.2, "LLaMA-65B", 8192, 80, 64, 64, 22016, 32000),
    (70.6, "Llama-3-70B", 8192, 80, 64, 8, 28672, 128256),
    (176.2, "BLOOM-176B", 14336, 70, 112, 112, 57344, 250880),
    (405.9, "Llama-3.1-405B", 16384, 126, 128, 8, 53248, 128256),
)
"""(billions, whose shape, hidden, layers, heads, KV heads, MLP width, vocabulary).

Source: config.json of each; LLaMA: arXiv 2302.13971, table 2."""


def parse_size(text: str) -> int | None:
    """Return the parameters that a text such as '7b', '0.5B' or '125m' names, None where it is
    no size. Raises InvalidRequestError beyond 1m to 10t."""
    match = _SIZE.fullmatch(text)
    if match is None:
        return None
    parameters = round(float(match[1]) * _SCALE[match[2].lower()])
    if not _SMALLEST <= parameters <= _LARGEST:
        raise InvalidRequestError(
            f"A model of {text.strip()} is out of range.",
            hint="Send a size from 1m to 10t.",
            field="model",
            code="invalid-value",
        )
    return parameters


def nominal_model(text: str, parameters: int) -> Model:
    """Return a model of exactly `parameters` parameters in the shape of the known model nearest
    in size (by ratio)."""
    billions = parameters / 1e9
    _, name, hidden, layers, heads, kv_heads, intermediate, vocabulary = min(
        _SHAPES, key=lambda shape: max(shape[0] / billions, billions / shape[0])
    )
    head_dim = hidden // heads
    mixer = Attention(query_heads=heads, kv_heads=kv_heads, head_dim=head_dim, value_dim=head_dim)
    each, rest = divmod(parameters, layers)
    blocks = [
        Block(
            part=Part.LANGUAGE,
            prefix="layers.{}.",
            layers=tuple(range(layers)),
            tensors=(Tensor("nominal.weight", (each, 1), Kind.LINEAR, Split.COLUMN),),
            mixers=(mixer,),
            mlp=Mlp(intermediate_size=intermediate),
        )
    ]
    if rest:
        blocks.append(
            Block(
                part=Part.LANGUAGE,
                prefix="",
                tensors=(Tensor("rest.weight", (rest, 1), Kind.LINEAR),),
            )
        )
    note = Note(
        "model-is-a-size",
        "model",
        f"{text.strip()} is a size, not a model: assuming {parameters:,} parameters in the shape"
        f" of {name}.",
    )
    spec = ModelSpec(
        model_type="nominal",
        architecture=f"nominal ({name})",
        hidden_size=hidden,
        vocabulary_size=vocabulary,
        max_context_length=131072,
        tied_embeddings=True,
        blocks=tuple(blocks),
        basis="assumed",
        notes=(note,),
    )
    return Model(id=text.strip().lower(), source="size", spec=spec)
