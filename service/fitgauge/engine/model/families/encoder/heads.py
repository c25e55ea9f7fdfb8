"""What encoders have behind their layers: poolers, classifiers, masked language models."""

from collections.abc import Mapping

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import parts
from fitgauge.engine.model.families.dense.dense import architecture_name
from fitgauge.engine.model.families.encoder.dialects import Sizes
from fitgauge.engine.model.spec import Block, Kind, Part, Split, Tensor


def ending(config: Config, head_blocks: Mapping[str, str]) -> str:
    """Return which of the `head_blocks` endings the architecture's name has; the base model where
    it has none."""
    name = architecture_name(config)
    return next((end for end in head_blocks if name.endswith(end) and end != "Model"), "Model")


def is_base(config: Config) -> bool:
    """Return whether the checkpoint is the bare encoder, whose tensors' names have no prefix."""
    name = architecture_name(config)
    return "For" not in name and not name.endswith("LMHeadModel")


def heads(config: Config, sizes: Sizes, head_blocks: Mapping[str, str]) -> tuple[Block, ...]:
    """Return what the architecture has behind its layers, or nothing."""
    tied = config.flag("tie_word_embeddings", default=True)
    tensors = [
        tensor
        for word in head_blocks.get(ending(config, head_blocks), "").split()
        for tensor in head_tensors(word, sizes, labels=label_count(config), tied=tied)
    ]
    return (parts.single(Part.HEAD, tensors),) if tensors else ()


def head_tensors(word: str, sizes: Sizes, *, labels: int, tied: bool) -> tuple[Tensor, ...]:
    """Return one brick of a head.

    `pooler`, `dense`: hidden x hidden with bias. `masked`, `generator`: a dense layer back to
    the embeddings' width, its norm, a bias for every word, and the output embedding where it is
    not `tied` (in a `masked` head with a bias of its own). `pair`: two classes. `labels`: the
    config's classes. `choice`: one score."""
    hidden, width = sizes.hidden, sizes.embedding
    match word:
        case "pooler" | "dense":
            return parts.linear(
                "pooler.dense" if word == "pooler" else "classifier.dense",
                hidden,
                hidden,
                bias=True,
            )
        case "masked" | "generator":
            weight = Tensor(
                "predictions.decoder.weight", (sizes.vocabulary, width), Kind.HEAD, Split.VOCABULARY
            )
            shift = Tensor(
                "predictions.decoder.bias", (sizes.vocabulary,), Kind.BIAS, Split.VOCABULARY
            )
            untied = (weight, shift) if word == "masked" else (weight,)
            return (
                *parts.linear("predictions.transform.dense", width, hidden, bias=True),
                *parts.norm("predictions.transform.LayerNorm", width, bias=True),
                *(() if tied else untied),
                Tensor("predictions.bias", (sizes.vocabulary,), Kind.BIAS, Split.VOCABULARY),
            )
        case "pair":
            return parts.linear("seq_relationship", 2, hidden, bias=True)
        case "labels":
            return parts.linear("classifier", labels, hidden, bias=True)
        case _:
            return parts.linear("classifier", 1, hidden, bias=True)


def classification_head(width: int, labels: int) -> Block:
    """Return the classifier of an encoder and decoder: a dense layer, and one score a class."""
    dense = parts.linear("classification_head.dense", width, width, bias=True)
    scores = parts.linear("classification_head.out_proj", labels, width, bias=True)
    return parts.single(Part.HEAD, (*dense, *scores))


def label_count(config: Config, default: int = 2) -> int:
    """Classes of a classifier: as many as `id2label` names, else `num_labels`, else `default`."""
    return len(config.section("id2label").values) or config.integer(
        "num_labels", "_num_labels", default=default
    )
