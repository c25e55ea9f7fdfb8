"""Which of the facts in a question are meant: one model, one GPU, one value a setting."""

import math
import re
from collections.abc import Mapping, Sequence

import msgspec

from fitgauge.catalog.scope import closed_model_in, out_of_scope
from fitgauge.services.ask import lengths, machines, meant, model_choice, operations, topics
from fitgauge.services.ask.commands import Pasted, as_read, pasted_command
from fitgauge.services.ask.facts import Fact, leftovers, of_last_turns
from fitgauge.services.ask.grammar import facts, in_tens
from fitgauge.services.ask.hardware import choose, other_memory, unknown_gpu
from fitgauge.services.ask.machines import choice_in, unnamed_mac
from fitgauge.services.ask.names import GpuNames, ModelNames
from fitgauge.services.ask.pieces import plain
from fitgauge.services.ask.scan import Token
from fitgauge.services.ask.scanner import Scanner
from fitgauge.services.ask.schemas import Understood
from fitgauge.services.ask.topics import is_about
from fitgauge.services.ask.vocabulary import TRAIN_ALONE
from fitgauge.services.training_fit.tool_settings import tool_settings

_DRAFTED = 3
"""Tokens that a draft model drafts in a step, where one is named: vLLM's own examples."""

_DEFAULT_BUDGET = 1_000_000
"""Tokens whose time is answered where the text names no data."""

_SAVE_STEPS = 500
"""transformers' own interval, where the text asks for the disk of a checkpoint alone."""

_SETTINGS_NAMED = ("LENGTH", "KV", "BATCH", "USERS", "TOKENS", "PROMPT", "OUTPUT")
"""Words of settings, which a text of names and numbers alone may have."""

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


class Reader:
    """Reads questions with the names of one catalog and one snapshot."""

    def __init__(self, gpus: GpuNames, models: ModelNames) -> None:
        self._gpus = gpus
        self._models = models
        self._scanner = Scanner(gpus, models)

    def read(self, question: str) -> operations.Reading:
        """Return what a question means. Linear in its length."""
        text = plain(question)
        command = pasted_command(text)
        if command is not None:
            blank = " " * (command.end - command.start)
            text = text[: command.start] + blank + text[command.end :]
        tokens = self._scanner.tokens(machines.without_offloaded(topics.without_pixels(text)))
        choice = _Choice(text, tokens, facts(tokens), self._gpus, self._models, command)
        return choice.reading()


class _Choice:
    """The facts of one text, and the choice among them."""

    def __init__(
        self,
        text: str,
        tokens: Sequence[Token],
        facts: list[Fact],
        gpus: GpuNames,
        models: ModelNames,
        command: Pasted | None,
    ) -> None:
        self._text = text
        """The question."""
        self._command = command
        """The command that it holds, of which nothing stands in `_text`."""
        facts = of_last_turns(text, facts)
        self._facts = meant.with_caches(text, lengths.sized_requests(text, facts))
        self._gpus = gpus
        self._names = models
        self._used: set[int] = set()
        self._notes: list[str] = []
        """What the text says and the answer leaves out."""
        self._draft: str | None = None
        """The model that drafts tokens for the one that is meant."""
        self._settings_named = [token for token in tokens if token.kind in _SETTINGS_NAMED]
        self._questions = topics.question_sentences(text, tokens)
        self._plain = topics.without_publishers(topics.without_models(text, tokens))
        self._adapters = topics.served_adapters(self._plain)
        tools = [one for one in self._facts if one.kind == "trainer" or one.value in TRAIN_ALONE]
        named = any(self._plain[one.start : one.end].strip() for one in tools)
        trains = topics.about_training(self._plain) or bool(self._of("method")) or named
        self._training = trains and self._adapters is None and command is None

    def reading(self) -> operations.Reading:
        """Choose, and return the result."""
        model, models = self._models()
        settings = self._settings()
        if not self._training and (flags := machines.offloaded(self._text)):
            settings["flags"] = flags
        if self._draft is not None:
            settings["flags"] = {"draft_model": self._draft, "speculative_tokens": _DRAFTED}
        if self._command is not None:
            settings |= self._command.settings()
        terse = self._is_terse()
        hardware = self._of("hardware")
        gpu, names, count = choose(self._text, hardware, self._questions, self._gpus, terse=terse)
        if self._training:
            written = {**topics.training_words(self._text), **tool_settings(self._text, count)}
            if written.get("eval_batch_size") == settings.get("micro_batch_size"):
                settings.pop("micro_batch_size", None)  # the batch is that of evaluation
            if written.get("algorithm") == settings.get("method"):
                written.pop("algorithm", None)  # the method says it
            settings |= as_read(written)
        notes = [*self._notes, *(() if " + " in str(gpu) else other_memory(hardware, self._gpus))]
        if not (gpu or names) and (free := machines.free_gpu(self._text)) is not None:
            gpu, count, note = free[0], count or free[1], free[2]
            notes.append(note)
        elif not names:
            gpu, note = unknown_gpu(self._text, gpu)
            notes += [note] if note else []
        alone = not names and is_about(self._text, "no gpu")
        if alone and not any(one.value.name or one.value.named for one in hardware):
            gpu = None  # its memory is the machine's
        alone = alone and gpu is None
        stated = (one.value.ram or (one.value.memory if alone else None) for one in hardware)
        sizes: list[float] = [size for size in stated if size is not None]
        on_a_par: Mapping[str, Sequence[object]] = {
            "engine": meant.engines_side_by_side(self._text, self._of("engine")),
            "quantization": meant.formats_side_by_side(self._text, self._facts),
            "context_length": lengths.lengths_side_by_side(self._text, self._facts),
        }
        clouds = machines.clouds_in(self._plain, self._gpus.clouds)
        named = [self._gpus.find(one) for one in (names or ([gpu] if gpu else []))]
        choice = {} if named else choice_in(self._plain)
        if named and (left_out := unnamed_mac(self._plain, named)):
            notes.append(left_out)
        counted_each = any(re.match(r"\d+x ", name) for name in names)
        signs: Mapping[operations.Sign, object] = {
            "training": self._training,
            "trainer": settings.get("trainer"),
            "several": models or any(on_a_par.values()),
            "gpus on a par": len(names) > 1,
            "hardware": gpu or names or (count and not choice),
            "model": model or models,
            "sizes alone": len({one.value for one in self._of("size")}) > 1
            and not self._of("model"),
            "counted": count,
            "settings": settings,
            "formatted": "quantization" in settings or " + " in str(gpu),
            "largest of a family": topics.wants_largest(self._text, model),
            "of some": "max_usd_per_hour" in settings or clouds or choice,
            "terse": terse,
            "step stated": {"sequence_length", "micro_batch_size"} <= settings.keys(),
            "fastest": is_about(self._plain, "fastest", "rate") and not counted_each,
        }
        operation = operations.operation_of(
            self._plain, {sign for sign, holds in signs.items() if holds}
        )
        if operation is None and self._command is not None:
            operation = "check_fit"
        at_once = bool(models) and is_about(self._text, "one gpu") and not self._training
        if operation == "recommend_gpus" and at_once and not (gpu or names):
            operation = "check_fit"  # what they need together, and the GPUs that hold each
        if operation == "check_fit" and gpu and model and closed_model_in(model) == model:
            notes.append(f"model: {model} has no published weights; those listed have, and fit.")
            operation, model = "list_models_that_fit", None
        if operation == "list_models_that_fit" and sizes:
            if alone:
                gpu = f"{max(sizes):g}GB"
                notes.append("gpu: none; the list is of what as much memory holds, at any speed.")
            else:
                notes.append("host_memory_gib: the list is of what the GPU holds alone.")
        apart = None
        if operation == "check_fit" and (
            apart := operations.halves(self._text, hardware, self._gpus)
        ):
            gpu, names, count = None, [], None
            settings["prefill_gpu"] = apart.gpus.get("prefill")
            settings["decode_gpu"] = apart.gpus.get("decode")
        if operation == "compare_fit":
            for field, values in on_a_par.items():
                settings |= {f"{field}s": values, field: None} if values else {}
        if operation == "compare_fit" and on_a_par["quantization"]:
            self._used.update(fact.start for fact in self._of("format"))
            if any(meant.is_file(self._text, fact) for fact in self._of("engine")):
                settings["engine"] = None
        caches = list(dict.fromkeys(fact.value for fact in self._of("cache")))
        if operation == "check_fit" and len(caches) > 1:
            settings |= {"kv_cache_dtypes": caches, "kv_cache_dtype": None}
        if operation in ("check_fit", "recommend_gpus") and is_about(self._text, "text alone"):
            settings["language_model_only"] = True
        if operation == "check_fit" and (format_of_cache := topics.turboquant(self._text)):
            settings["kv_cache_dtype"] = format_of_cache
        if operation in ("check_fit", "check_training_fit"):
            match = self._gpus.find(gpu) if gpu else None
            text = "" if self._training else self._text
            settings["host_memory_gib"], note = machines.host_memory(text, match, sizes)
            notes += [note] if note else []
            held = machines.held_by_others(self._text, match, settings, serves=not self._training)
            settings = {**held, **settings}
        if operation == "list_models_that_fit" and model and re.fullmatch(r"[\d.x]+[bm]", model):
            model = None
        understood = msgspec.convert(
            {
                "model": model and self._names.meant(model),
                "models": models or None,
                "gpu": gpu,
                "gpus": names or None,
                "gpu_count": count,
                "clouds": (operation == "recommend_gpus" and clouds) or None,
                **(choice if operation == "recommend_gpus" else {}),
                **settings,
            },
            Understood,
        )
        return operations.Reading(
            operation,
            understood,
            leftovers(self._text, self._facts, self._used),
            self._text,
            self._training,
            model,
            understood.context_length is None
            and (
                is_about(self._text, "whole context")
                or (self._command is not None and self._command.takes_whole_context)
            ),
            apart,
            (*notes, *(self._command.notes if self._command else ())),
            self._command.text if self._command else None,
        )

    def _of(self, *kinds: str) -> list[Fact]:
        return [fact for fact in self._facts if fact.kind in kinds]

    def _is_terse(self) -> bool:
        """Return whether the text is names and numbers alone: "qwen 7b 16gb"."""
        text = self._text
        spans = [(fact.start, fact.end) for fact in self._facts]
        spans += [(token.start, token.end) for token in self._settings_named]
        if self._training:
            spans += [match.span() for match in topics.OPTIMIZERS.finditer(text)]
        for start, end in spans:
            text = f"{text[:start]}{' ' * (end - start)}{text[end:]}"
        return not any(letter.isalnum() for letter in text)

    def _models(self) -> tuple[str | None, list[str]]:
        """Return the model that is meant, or several on a par. A word that may be no name counts
        where the text is about memory without it."""
        if self._command is not None and (named := self._command.fields.get("model")):
            return str(named), []
        is_about_memory = bool(self._of("hardware")) or is_about(
            self._text, "memory", "need", "gpus"
        )
        names = ("model", "size", *("family",) * is_about_memory)
        data = {fact.start for fact in self._of("data")} if self._training else set[int]()
        facts = [fact for fact in self._of(*names) if fact.start not in data]
        facts = model_choice.without_other_words(facts, self._names)
        facts = list(model_choice.in_families(self._text, facts, self._names))
        beyond = {str(one.value): does for one in facts if (does := out_of_scope(str(one.value)))}
        if any(str(one.value) not in beyond for one in facts):
            self._notes += [
                f"model: {name} {does}: not estimated." for name, does in beyond.items()
            ]
            facts = [one for one in facts if str(one.value) not in beyond]
        if (
            not self._training
            and (draft := model_choice.draft_model(self._text, facts)) is not None
        ):
            self._draft = str(draft.value)
            facts = [fact for fact in facts if fact.value != draft.value]
        model, models = model_choice.choose_model(self._text, facts, self._questions)
        if models:
            several = [next(one for one in facts if one.value == name) for name in models]
            models, self._facts = meant.with_own_formats(self._text, several, self._facts)
        elif model is None and is_about_memory:
            model = closed_model_in(self._text)
        elif model is not None and not any(map(str.isdigit, model)):
            model = model_choice.with_size(self._text, model)
        sizes = [one for one in facts if one.kind == "size" and one.value == model]
        if sizes and (name := model_choice.unknown_name(self._text, sizes[0])):
            self._notes.append(f"model: {name} is not known; the answer is of any {model}.")
        return model, models

    # Settings

    def _settings(self) -> dict[str, object]:
        """Return the value of every setting that the text says."""
        tokens, used = lengths.lengths(
            self._text, self._facts, self._questions, training=self._training
        )
        fields = dict(tokens)
        self._used.update(used)
        numbers = _COUNTED | (_OF_TRAINING if self._training else _OF_SERVING)
        numbers |= {"lora_rank": "rank"} if self._training or self._adapters else {}
        fields |= {field: self._largest(kind) for field, kind in numbers.items()}
        if self._training:
            fields |= self._batches()
            fields |= self._data()
            fields |= meant.method_meant(self._text, self._facts, self._quantization())
            fields |= {name: self._first(name) for name in ("trainer", "framework")}
            self._used |= {
                one.start for one in self._of("format") if meant.of_the_optimizer(self._text, one)
            }
        else:
            people = self._largest("users") or self._largest("batch")
            fields["concurrency"] = people and math.ceil(people * lengths.share_at_once(self._text))
            fields["lora_slots"] = self._adapters
            speeds = lengths.wanted_speeds(self._text, self._of("speed"))
            fields["min_tokens_per_second_per_request"] = self._widest(speeds)
        fields["kv_cache_dtype"] = self._first("cache")
        engine = meant.engine_meant(self._text, self._of("engine"))
        of_flags = None if self._training else meant.engine_of_flags(self._text)
        fields["engine"] = self._use(engine) if engine else of_flags
        fields["engine_version"] = meant.engine_version(self._text, self._of("engine"))
        fields["quantization"] = self._quantization()
        return {
            name: value if name in _SHARES or not isinstance(value, float) else int(value)
            for name, value in fields.items()
            if value is not None and (not isinstance(value, float) or _is_sound(name, value))
        }

    def _batches(self) -> dict[str, object]:
        """Return the sequences of a forward pass, and of a step over all GPUs."""
        batch, of_all = self._widest(self._of("batch")), self._largest("global_batch")
        if of_all is None and batch is not None and topics.is_global_batch(self._text, batch):
            return {"global_batch_size": batch}
        return {"micro_batch_size": batch, "global_batch_size": of_all}

    def _data(self) -> dict[str, object]:
        """Return how much is trained on; where the text is about time or disk and says nothing of
        data, a default that time or disk can be answered for."""
        budgets = [fact for fact in self._of("tokens") if lengths.is_budget(fact)]
        self._used.update(fact.start for fact in budgets)
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

    def _first(self, kind: str) -> object:
        return next((self._use(fact) for fact in self._of(kind)), None)

    def _use(self, fact: Fact) -> object:
        self._used.add(fact.start)
        return fact.value

    def _largest(self, kind: str) -> float | None:
        return self._widest(self._of(kind))

    def _widest(self, facts: Sequence[Fact]) -> float | None:
        self._used.update(fact.start for fact in facts)
        return max((fact.value for fact in facts), default=None)

    def _quantization(self) -> str | None:
        """Return the number format of the weights that the text wants."""
        formats = self._of("format")
        chosen = meant.format_meant(self._text, formats, training=self._training)
        named = {chosen, *meant.WIDTHS} if chosen is not None else set()  # "GPTQ int4" is said
        named |= meant.PRECISIONS if self._training else set()
        self._used.update(fact.start for fact in formats if fact.value in named)
        return chosen


def _is_sound(name: str, value: float) -> bool:
    """Return whether a number can be the value of a setting."""
    return value > 0 and (name in _SHARES or value.is_integer())
