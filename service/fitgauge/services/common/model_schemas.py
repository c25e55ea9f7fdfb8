"""What get_model answers."""

from typing import Annotated, Literal

from msgspec import UNSET, Struct

from fitgauge.engine.note import Note
from fitgauge.engine.quantity import Basis
from fitgauge.field_docs import doc
from fitgauge.services.common.answer_facts import AnswerAsOf


class ModelDetail(Struct, kw_only=True):
    """Facts of a model; `parameters` (stored) and `computed_parameters` (from the architecture
    alone) check each other."""

    id: Annotated[str, doc("Hugging Face Hub ID, or the name of a size.")]
    source: Annotated[
        Literal["hub", "snapshot", "config", "size"], doc("Where its config comes from.")
    ]
    revision: Annotated[str | None, doc("Commit of the repository; null without one.")]
    architecture: Annotated[str, doc("`architectures` of its config.")]
    model_type: Annotated[str, doc("`model_type` of its config.")]
    task: Annotated[Literal["generate", "encode", "encoder_decoder"], doc("What it does.")]
    basis: Annotated[Basis, doc("How its parameters are known.")]
    parameters: Annotated[int, doc("Parameters as stored, else as computed.")]
    computed_parameters: Annotated[int, doc("Parameters as its config makes them.")]
    parameters_by_dtype: Annotated[dict[str, int], doc("Stored parameters by number format.")]
    weights_bytes: Annotated[int, doc("Bytes of the stored weights.")]
    dtype: Annotated[str, doc("Number format of the unquantized weights.")]
    quantization: Annotated[str | None, doc("Published quantization; null without one.")]
    layers: Annotated[int, doc("Layers of the language model.")]
    hidden_size: Annotated[int, doc("Width of a layer.")]
    vocabulary_size: Annotated[int, doc("Tokens of the vocabulary.")]
    max_context_length: Annotated[int, doc("Longest context that the config allows.")]
    kv_cache_bytes_per_token: Annotated[
        float, doc("KV cache growth per token of one request, 16-bit, one GPU.")
    ]
    state_cache_bytes: Annotated[int, doc("Recurrent state of one request.")]
    warnings: Annotated[list[Note], doc("What to know about the model.")]
    as_of: AnswerAsOf = UNSET
    """How old the facts of the answer are."""
