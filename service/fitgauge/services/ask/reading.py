"""Which of the facts in a question are meant: one model, one GPU, one value a setting."""

import re
from collections.abc import Mapping, Sequence
from functools import cached_property

import msgspec

from fitgauge.catalog.scope import closed_model_in, out_of_scope
from fitgauge.services.ask import lengths, machines, meant, model_choice, operations, topics
from fitgauge.services.ask.accounting import unread
from fitgauge.services.ask.commands import Pasted, as_read, flags_alone, pasted_command
from fitgauge.services.ask.facts import Fact, of_last_turns
from fitgauge.services.ask.grammar import facts
from fitgauge.services.ask.hardware import choose
from fitgauge.services.ask.machines import choice_in, unnamed_mac
from fitgauge.services.ask.names import GpuNames, ModelNames
from fitgauge.services.ask.other_gpus import other_editions, other_memory, unknown_gpu
from fitgauge.services.ask.pieces import plain
from fitgauge.services.ask.scan import Token
from fitgauge.services.ask.scanner import Scanner
from fitgauge.services.ask.schemas import Operation, Understood
from fitgauge.services.ask.settings import Settings
from fitgauge.services.ask.topics import is_about
from fitgauge.services.ask.vocabulary import TRAIN_ALONE
from fitgauge.services.training_fit.tool_settings import tool_settings

_DRAFTED = 3
"""Tokens that a draft model drafts in a step, where one is named: vLLM's own examples."""

_SETTINGS_NAMED = ("LENGTH", "KV", "BATCH", "USERS", "TOKENS", "PROMPT", "OUTPUT")
"""Words of settings, which a text of names and numbers alone may have."""


class Reader:
    """Reads questions with the names of one catalog and one snapshot."""

    def __init__(self, gpus: GpuNames, models: ModelNames) -> None:
        self._gpus = gpus
        self._models = models
        self._scanner = Scanner(gpus, models)

    def read(self, question: str) -> operations.Reading:
        """Return what a question means. Linear in its length."""
        text = plain(question)
        command = pasted_command(text) or flags_alone(text)
        if command is not None:
            text = command.blanked(text)
        tokens = self._scanner.tokens(machines.without_offloaded(topics.without_pixels(text)))
        choice = _Choice(text, tokens, facts(tokens), self._gpus, self._models, command)
        return choice.reading()

    def unread(
        self, reading: operations.Reading, requests: Sequence[msgspec.Struct], notes: Sequence[str]
    ) -> list[str]:
        """Return what a question says that neither its requests hold nor the notes name."""
        return unread(reading, requests, notes, self._gpus, self._models)


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
        self._gpu_names = gpus
        self._names = models
        self._notes: list[str] = []
        """What the text says and the answer leaves out."""
        self._draft: str | None = None
        """The model that drafts tokens for the one that is meant."""
        self._teacher: str | None = None
        """The model that the one that is meant is distilled from."""
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
        self._model, self._models = self._models_meant()
        self._settings = self._all_settings()
        self._gpu, self._gpus, self._count = self._gpus_meant()
        if self._training:
            self._settings |= self._training_settings()
        if self._settings.get("expert_parallel") == 1 and self._count:
            self._settings["expert_parallel"] = self._count  # a switch, without other degrees
        operation = self._redirected(operations.operation_of(self._plain, self._signs()))
        halves = None
        if operation == "check_fit":
            halves = operations.halves(self._text, self._of("hardware"), self._gpu_names)
            if halves is not None:
                self._gpu, self._gpus, self._count = None, [], None
                self._settings["prefill_gpu"] = halves.gpus.get("prefill")
                self._settings["decode_gpu"] = halves.gpus.get("decode")
        self._settings |= self._of_operation(operation)
        understood = self._understood(operation)
        command = self._command
        takes_whole = command is not None and command.takes_whole_context
        whole = takes_whole or is_about(self._text, "whole context")
        return operations.Reading(
            operation,
            understood,
            self._facts,
            self._questions,
            self._text,
            self._training,
            self._model,
            whole and understood.context_length is None,
            halves,
            (*self._notes, *(command.notes if command else ())),
            (command.text or None) if command else None,
        )

    def _all_settings(self) -> dict[str, object]:
        """Return the settings of the text, of its flags and of its command."""
        read = Settings(
            self._text, self._facts, self._questions, self._adapters, training=self._training
        )
        settings = read.read()
        if not self._training and (flags := machines.offloaded(self._text)):
            settings["flags"] = flags
        if self._draft is not None:
            settings["flags"] = {"draft_model": self._draft, "speculative_tokens": _DRAFTED}
        if self._teacher is not None:
            settings["flags"] = {"teacher_model": self._teacher}
        return settings | (self._command.settings() if self._command is not None else {})

    def _training_settings(self) -> dict[str, object]:
        """Return the settings of training that the text says in words or as a tool's own."""
        settings = self._settings
        written = {**topics.training_words(self._text), **tool_settings(self._text, self._count)}
        if written.get("eval_batch_size") == settings.get("micro_batch_size"):
            settings.pop("micro_batch_size", None)  # the batch is that of evaluation
        if written.get("algorithm") == settings.get("method"):
            written.pop("algorithm", None)  # the method says it
        return as_read(written)

    def _gpus_meant(self) -> tuple[str | None, list[str], int | None]:
        """Return the GPU that is meant, else several on a par, and the count."""
        hardware = self._of("hardware")
        self._terse = self._is_terse()
        gpu, gpus, count = choose(
            self._text, hardware, self._questions, self._gpu_names, terse=self._terse
        )
        if " + " not in str(gpu):
            self._notes += other_memory(hardware, self._gpu_names)
        self._notes += other_editions(self._text, hardware, self._gpu_names)
        if not (gpu or gpus) and (free := machines.free_gpu(self._text)) is not None:
            gpu, count = free[0], count or free[1]
            self._notes.append(free[2])
        elif not gpus:
            gpu, note = unknown_gpu(self._text, gpu)
            self._notes += [note] if note else []
        self._alone = not gpus and is_about(self._text, "no gpu")
        if self._alone and not any(one.value.name or one.value.named for one in hardware):
            gpu = None  # its memory is the machine's
        self._alone = self._alone and gpu is None
        named = [self._gpu_names.find(one) for one in (gpus or ([gpu] if gpu else []))]
        self._choice = {} if named else choice_in(self._plain)
        self._clouds = machines.clouds_in(self._plain, self._gpu_names.clouds)
        if named and (left_out := unnamed_mac(self._plain, named)):
            self._notes.append(left_out)
        return gpu, gpus, count

    @cached_property
    def _on_a_par(self) -> Mapping[str, Sequence[object]]:
        """What the text sets side by side, by field."""
        return {
            "engine": meant.engines_side_by_side(self._text, self._of("engine")),
            "quantization": meant.formats_side_by_side(self._text, self._facts),
            "context_length": lengths.lengths_side_by_side(self._text, self._facts),
            "concurrency": lengths.requests_side_by_side(self._text, self._facts),
        }

    def _signs(self) -> set[operations.Sign]:
        """Return what the facts tell of the operation."""
        settings, gpu, gpus = self._settings, self._gpu, self._gpus
        sizes = {one.value for one in self._of("size")}
        counted_each = any(re.match(r"\d+x ", name) for name in gpus)
        signs: Mapping[operations.Sign, object] = {
            "training": self._training,
            "trainer": settings.get("trainer") or settings.get("zero_stage"),
            "several": self._models or any(self._on_a_par.values()),
            "gpus on a par": len(gpus) > 1,
            "hardware": gpu or gpus or (self._count and not self._choice),
            "model": self._model or self._models,
            "sizes alone": len(sizes) > 1 and not self._of("model"),
            "counted": self._count,
            "of a class": re.search(r"\d ?[bm](?:[ -]class| models)\b", self._plain, re.IGNORECASE),
            "settings": settings,
            "formatted": "quantization" in settings or " + " in str(gpu),
            "largest of a family": topics.wants_largest(self._text, self._model),
            "of some": "max_usd_per_hour" in settings or self._clouds or self._choice,
            "terse": self._terse,
            "step stated": {"sequence_length", "micro_batch_size"} <= settings.keys(),
            "fastest": is_about(self._plain, "fastest", "rate") and not counted_each,
        }
        return {sign for sign, holds in signs.items() if holds}

    def _redirected(self, operation: Operation | None) -> Operation | None:
        """Return the operation that answers instead where one cannot."""
        if operation is None and self._command is not None and self._command.text:
            return "check_fit"
        together = bool(self._models) and is_about(self._text, "one gpu") and not self._training
        if operation == "recommend_gpus" and together and not (self._gpu or self._gpus):
            return "check_fit"  # what they need together, and the GPUs that hold each
        model = self._model
        serves = (
            operation == "check_fit" and self._command is None and "flags" not in self._settings
        )
        if serves and model and self._count and not (self._gpu or self._gpus):
            return "recommend_gpus"  # of as many at most
        if operation == "check_fit" and self._gpu and model and closed_model_in(model) == model:
            self._notes.append(
                f"model: {model} has no published weights; those listed have, and fit."
            )
            self._model = None
            return "list_models_that_fit"
        return operation

    def _of_operation(self, operation: Operation | None) -> dict[str, object]:
        """Return the settings that only the operation tells."""
        if operation == "list_models_that_fit":
            return self._of_list()
        fields: dict[str, object] = {}
        if operation == "compare_fit":
            for field, values in self._on_a_par.items():
                several = "concurrencies" if field == "concurrency" else f"{field}s"
                fields |= {several: values, field: None} if values else {}
            files = (meant.is_file(self._text, fact) for fact in self._of("engine"))
            if self._on_a_par["quantization"] and any(files):
                fields["engine"] = None
        if operation in ("check_fit", "recommend_gpus") and is_about(self._text, "text alone"):
            fields["language_model_only"] = True
        if operation == "check_fit":
            caches = list(dict.fromkeys(fact.value for fact in self._of("cache")))
            if len(caches) > 1:
                fields |= {"kv_cache_dtypes": caches, "kv_cache_dtype": None}
            if format_of_cache := topics.turboquant(self._text):
                fields["kv_cache_dtype"] = format_of_cache
        if operation in ("check_fit", "check_training_fit"):
            fields |= self._of_machine()
        return fields

    def _of_machine(self) -> dict[str, object]:
        """Return the memory of the machine, and what others hold of its GPUs."""
        match = self._gpu_names.find(self._gpu) if self._gpu else None
        text = "" if self._training else self._text
        memory, note = machines.host_memory(text, match, self._host_sizes())
        self._notes += [note] if note else []
        serves = not self._training
        held = machines.held_by_others(self._text, match, self._settings, serves=serves)
        unsaid = {name: value for name, value in held.items() if name not in self._settings}
        return {**unsaid, "host_memory_gib": memory}

    def _of_list(self) -> dict[str, object]:
        """Prepare a list of models: of what the GPUs hold alone, else the machine's memory."""
        if sizes := self._host_sizes():
            if self._alone:
                self._gpu = f"{max(sizes):g}GB"
                self._notes.append(
                    "gpu: none; the list is of what as much memory holds, at any speed."
                )
            else:
                self._notes.append("host_memory_gib: the list is of what the GPU holds alone.")
        if self._model and re.fullmatch(r"[\d.x]+[bm]", self._model):
            self._model = None
        return {}

    def _host_sizes(self) -> list[float]:
        """Return the memory of the machine as often as the text says it [GiB]."""
        hardware = [one.value for one in self._of("hardware")]
        stated = (one.ram or (one.memory if self._alone else None) for one in hardware)
        return [size for size in stated if size is not None]

    def _understood(self, operation: Operation | None) -> Understood:
        recommends = operation == "recommend_gpus"
        fields = {
            "model": self._model and self._names.meant(self._model),
            "models": self._models or None,
            "gpu": self._gpu,
            "gpus": self._gpus or None,
            "gpu_count": self._count,
            "clouds": (recommends and self._clouds) or None,
            **(self._choice if recommends else {}),
            **self._settings,
        }
        return msgspec.convert(fields, Understood)

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

    def _models_meant(self) -> tuple[str | None, list[str]]:
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
        if self._training and (teacher := model_choice.teacher_model(self._text, facts)):
            self._teacher = str(teacher.value)
            facts = [fact for fact in facts if fact.value != teacher.value]
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
