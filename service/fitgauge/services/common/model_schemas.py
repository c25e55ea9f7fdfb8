"""What get_model answers."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct

from fitgauge.engine.note import Note
from fitgauge.engine.quantity import Basis
from fitgauge.services.common.answer_facts import AnswerAsOf


class ModelDetail(Struct, kw_only=True):
    """Facts of a model; `parameters` (stored) and `computed_parameters` (from the architecture
    alone) check each other."""

    id: Annotated[str, Meta(description="Hugging Face Hub ID, or the name of a size.")]
    source: Annotated[
        Literal["hub", "snapshot", "config", "size"],
        Meta(description="Where its config comes from."),
    ]
    revision: Annotated[str | None, Meta(description="Commit of the repository; null without one.")]
    architecture: Annotated[str, Meta(description="`architectures` of its config.")]
    model_type: Annotated[str, Meta(description="`model_type` of its config.")]
    task: Annotated[
        Literal["generate", "encode", "encoder_decoder"], Meta(description="What it does.")
    ]
    basis: Annotated[Basis, Meta(description="How its parameters are known.")]
    parameters: Annotated[int, Meta(description="Parameters as stored, else as computed.")]
    computed_parameters: Annotated[int, Meta(description="Parameters as its config makes them.")]
    parameters_by_dtype: Annotated[
        dict[str, int], Meta(description="Stored parameters by number format.")
    ]
    weights_bytes: Annotated[int, Meta(description="Bytes of the stored weights.")]
    dtype: Annotated[str, Meta(description="Number format of the unquantized weights.")]
    quantization: Annotated[
        str | None, Meta(description="Published quantization; null without one.")
    ]
    layers: Annotated[int, Meta(description="Layers of the language model.")]
    hidden_size: Annotated[int, Meta(description="Width of a layer.")]
    vocabulary_size: Annotated[int, Meta(description="Tokens of the vocabulary.")]
    max_context_length: Annotated[int, Meta(description="Longest context that the config allows.")]
    kv_cache_bytes_per_token: Annotated[
        float,
        Meta(description="KV cache growth per token of one request, 16-bit, one GPU."),
    ]
    state_cache_bytes: Annotated[int, Meta(description="Recurrent state of one request.")]
    warnings: Annotated[list[Note], Meta(description="What to know about the model.")]
    as_of: AnswerAsOf = UNSET
    """How old the facts of the answer are."""
