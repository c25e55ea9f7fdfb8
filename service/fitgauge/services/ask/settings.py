"""The settings that a question says: of serving, and of training."""

import math
from collections.abc import Collection, Sequence

from fitgauge.services.ask import lengths, meant, topics
from fitgauge.services.ask.facts import Fact
from fitgauge.services.ask.grammar import in_tens
from fitgauge.services.ask.topics import is_about

_DEFAULT_BUDGET = 1_000_000
"""Tokens whose time is answered where the text names no data."""

_SAVE_STEPS = 500
"""transformers' own interval, where the text asks for the disk of a checkpoint alone."""

_COUNTED = {
    "tensor_parallel": "tp",
    "pipeline_parallel": "pp",
    "data_parallel": "dp",
    "expert_parallel": "ep",
    "max_usd_per_hour": "budget",
}
_OF_TRAINING = {"micro_batches": "accumulation", "zero_stage": "zero"}
_OF_SERVING = {
    "gpu_memory_utilization": "utilization",
    "prefix_cache_hit_rate": "cached",
    "max_seconds_to_first_token": "first_token",
}
"""Settings by the kind of fact that says their number; of several the largest."""

_SHARES = frozenset({*_OF_SERVING, "max_usd_per_hour", "min_tokens_per_second_per_request"})
"""Settings that need not be whole numbers."""


class Settings:
    """The settings of one text."""

    def __init__(
        self,
        text: str,
        facts: Sequence[Fact],
        questions: Collection[int],
        adapters: int | None,
        *,
        training: bool,
    ) -> None:
        self._text = text
        self._facts = facts
        self._questions = questions
        self._adapters = adapters
        """LoRA adapters that it serves."""
        self._training = training

    def read(self) -> dict[str, object]:
        """Return the value of every setting that the text says, by field."""
        fields = dict(
            lengths.lengths(self._text, self._facts, self._questions, training=self._training)
        )
        numbers = _COUNTED | (_OF_TRAINING if self._training else _OF_SERVING)
        numbers |= {"lora_rank": "rank"} if self._training or self._adapters else {}
        fields |= {field: self._largest(kind) for field, kind in numbers.items()}
        if self._training:
            fields |= self._batches()
            fields |= self._data()
            fields |= meant.method_meant(self._text, self._facts, self._quantization())
            fields |= {name: self._first(name) for name in ("trainer", "framework")}
        else:
            users = self._of("users")
            people = _widest(lengths.at_once(self._text, users))
            people = people or self._largest("batch")
            fields["concurrency"] = people and math.ceil(people * lengths.share_at_once(self._text))
            fields["lora_slots"] = self._adapters
            speeds = lengths.wanted_speeds(self._text, self._of("speed"))
            fields["min_tokens_per_second_per_request"] = _widest(speeds)
        fields["kv_cache_dtype"] = self._first("cache")
        engine = meant.engine_meant(self._text, self._of("engine"))
        of_flags = None if self._training else meant.engine_of_flags(self._text)
        fields["engine"] = engine.value if engine else of_flags
        fields["engine_version"] = meant.engine_version(self._text, self._of("engine"))
        fields["quantization"] = self._quantization()
        return {
            name: value if name in _SHARES or not isinstance(value, float) else int(value)
            for name, value in fields.items()
            if value is not None and (not isinstance(value, float) or _is_sound(name, value))
        }

    def _batches(self) -> dict[str, object]:
        """Return the sequences of a forward pass, and of a step over all GPUs."""
        batch, of_all = _widest(self._of("batch")), self._largest("global_batch")
        if of_all is None and batch is not None and topics.is_global_batch(self._text, batch):
            return {"global_batch_size": batch}
        return {"micro_batch_size": batch, "global_batch_size": of_all}

    def _data(self) -> dict[str, object]:
        """Return how much is trained on; where the text is about time or disk and says nothing of
        data, a default that time or disk can be answered for."""
        budgets = [fact for fact in self._of("tokens") if lengths.is_budget(fact)]
        tokens = [fact.value * in_tens(self._text[: fact.end]) for fact in budgets]
        data: dict[str, object] = {
            "samples": self._largest("samples"),
            "epochs": self._largest("epochs"),
            "token_budget": self._largest("data") or next(iter(tokens), None),
        }
        data["merge"] = is_about(self._text, "merging") or None
        if data["samples"] or data["token_budget"]:
            return data
        if is_about(self._text, "time"):
            return data | {"token_budget": _DEFAULT_BUDGET}
        return data | {"save_steps": _SAVE_STEPS if is_about(self._text, "disk") else None}

    def _of(self, *kinds: str) -> list[Fact]:
        return [fact for fact in self._facts if fact.kind in kinds]

    def _first(self, kind: str) -> object:
        return next((fact.value for fact in self._of(kind)), None)

    def _largest(self, kind: str) -> float | None:
        return _widest(self._of(kind))

    def _quantization(self) -> str | None:
        """Return the number format of the weights that the text wants."""
        return meant.format_meant(self._text, self._of("format"), training=self._training)


def _widest(facts: Sequence[Fact]) -> float | None:
    return max((fact.value for fact in facts), default=None)


def _is_sound(name: str, value: float) -> bool:
    """Return whether a number can be the value of a setting."""
    return value > 0 and (name in _SHARES or value.is_integer())
