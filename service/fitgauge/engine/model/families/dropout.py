"""Rates of dropout that a config states, by the place where the family's code applies them.

Source: transformers 5.23, models/<model_type>/modeling_*.py."""

from collections.abc import Mapping
from typing import Any

from fitgauge.engine.model.spec import ModelSpec, Place

Fields = Mapping[Place, str]

_USUAL: Fields = {"weights": "attention_dropout"}
_GPT2: Fields = {
    "embedding": "embd_pdrop",
    "weights": "attn_pdrop",
    "attention": "resid_pdrop",
    "mlp": "resid_pdrop",
}
_PHI3: Fields = {"weights": "attention_dropout", "attention": "resid_pdrop", "mlp": "resid_pdrop"}
_HIDDEN: Fields = {
    "weights": "attention_dropout",
    "attention": "hidden_dropout",
    "mlp": "hidden_dropout",
}
_RESIDUAL: Fields = {
    "weights": "attention_dropout",
    "attention": "residual_dropout",
    "mlp": "residual_dropout",
}
_BERT: Fields = {
    "embedding": "hidden_dropout_prob",
    "weights": "attention_probs_dropout_prob",
    "attention": "hidden_dropout_prob",
    "mlp": "hidden_dropout_prob",
}
_BART: Fields = {
    "embedding": "dropout",
    "weights": "attention_dropout",
    "attention": "dropout",
    "inside": "activation_dropout",
    "mlp": "dropout",
}
_T5: Fields = dict.fromkeys(
    ("embedding", "weights", "attention", "inside", "mlp", "final"), "dropout_rate"
)

FIELDS: Mapping[str, Fields] = {
    **dict.fromkeys(("gpt2", "gpt_bigcode", "gptj", "codegen"), _GPT2),
    "gpt_neo": {
        "embedding": "embed_dropout",
        "weights": "attention_dropout",
        "attention": "resid_dropout",
        "mlp": "resid_dropout",
    },
    "gpt_neox": {"embedding": "hidden_dropout", **_HIDDEN},
    "bloom": _HIDDEN,
    "falcon": {"attention": "attention_dropout", "mlp": "hidden_dropout"},
    "mpt": dict.fromkeys(("weights", "attention", "mlp"), "attn_pdrop"),
    "opt": {"weights": "attention_dropout", "attention": "dropout", "mlp": "dropout"},
    "phi": {"embedding": "embd_pdrop", **_PHI3},
    "phi3": _PHI3,
    "seed_oss": _RESIDUAL,
    "stablelm": {"weights": "attention_dropout", "mlp": "hidden_dropout"},
    "starcoder2": {"embedding": "embedding_dropout", **_RESIDUAL},
    "mllama": {"weights": "dropout"},
    "lfm2": {},
    **dict.fromkeys(
        ("bert", "roberta", "xlm-roberta", "camembert", "electra", "mpnet", "deberta-v2",
            "nomic_bert"),
        _BERT,
    ),
    "albert": {place: field for place, field in _BERT.items() if place != "mlp"},
    "distilbert": {"embedding": "dropout", "weights": "attention_dropout", "mlp": "dropout"},
    "modernbert": {
        "embedding": "embedding_dropout",
        "weights": "attention_dropout",
        "attention": "attention_dropout",
        "inside": "mlp_dropout",
    },
    **dict.fromkeys(("bart", "marian", "mbart", "pegasus", "m2m_100", "whisper"), _BART),
    **dict.fromkeys(("t5", "mt5", "umt5"), _T5),
}  # fmt: skip
"""The config's field of each place, by `model_type`; others have `_USUAL`, encoders `_BERT`."""


def stated_rates(values: Mapping[str, Any], spec: ModelSpec) -> dict[Place, float]:
    """Return the rates that a config, read as `spec`, states. Other values than numbers are left
    out: memory for serving does not depend on it."""
    language = values.get("text_config")
    section = language if isinstance(language, Mapping) else values
    if isinstance(inside := section.get("attn_config"), Mapping):  # MPT
        section = {**section, **inside}
    fields = FIELDS.get(spec.model_type, _USUAL if spec.task == "generate" else _BERT)
    rates = {place: section.get(field) for place, field in fields.items()}
    return {
        place: float(rate)
        for place, rate in rates.items()
        if isinstance(rate, int | float) and not isinstance(rate, bool)
    }
