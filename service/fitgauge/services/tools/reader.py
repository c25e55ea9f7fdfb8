"""Read the arguments of one call, one by one: each sets a field, or is noted as ignored."""

import json
import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from fitgauge.catalog.gpu_kinds import kind_named
from fitgauge.engine.serving.registry import ENGINES, engine_named
from fitgauge.errors import InvalidRequestError
from fitgauge.services.ask.commands import pasted_command
from fitgauge.services.tools.aliases import (
    ANSWER,
    FIELDS,
    GPU_LAYERS,
    GPU_LAYERS_FIELD,
    GPU_MEMORY,
    GPUS_PER_NODE,
    INSTEAD,
    MODEL_SIZE,
    NODES,
    OLLAMA_GPU_LAYERS,
    PARTS_OF_NAMES,
    SWITCHES,
    THE_MOST,
    VALUES,
    WITHIN,
    WITHOUT_EFFECT,
    Value,
    plain,
)
from fitgauge.services.tools.faces import OPTIONS, Tool, option_keys
from fitgauge.services.tools.names import OF_MACHINES, Names
from fitgauge.services.tools.pairs import from_json
from fitgauge.services.tools.values import Field, is_not_set, read, whole_number
from fitgauge.services.training_fit.launchers.registry import tools_by_word
from fitgauge.services.training_fit.tool_settings import tool_settings

_COMMAND = "command"
_ALL_LAYERS = re.compile(r"-\d+|999?|all|auto|max")
_LIMITED = ("concurrency", "context_length", "sequence_length", "micro_batch_size")
_SIXTEEN_BIT = frozenset(("bf16", "bfloat16", "fp16", "float16", "half", "16", "16bit"))
_RUN = re.compile(rf"({'|'.join(map(re.escape, ENGINES))})\s+(?:run|pull)\s+(\S+)")
"""A model as it is started by name."""

_RELEASES = re.compile(r"(?<=\w)[\s=@-]+v?\d+(?:\.\d+){1,3}[^\s,]*")

_BARE = re.compile(r"(?<=\d)$")
_SIZES = {
    GPU_MEMORY: ("gpu", "GB", re.compile(r"\d\s*g(i?b)?\b", re.IGNORECASE)),
    MODEL_SIZE: ("model", "B", re.compile(r"\d\s*[bm]\b", re.IGNORECASE)),
}
"""Parts of names: the field, the unit of a bare number, and what finds one in the name."""

_LONGEST_SEQUENCE = 2**20
"""More tokens are those of a whole run."""

_COMPUTE_DTYPES = frozenset(map(plain, ("dtype", "torch_dtype")))


class Reader:
    """Collects the fields of one call."""

    def __init__(self, tool: Tool) -> None:
        self._tool = tool
        self._names = Names(tool)
        self._accepted = self._names.accepted
        self.is_name = self._names.is_name
        self.fields: dict[str, Any] = {}
        self.notes: list[str] = []
        self.options: dict[str, Any] = {}
        """Fields set by `options`."""
        self.keys: dict[str, str] = {}
        """Names beyond the face under which fields were sent."""
        self._parts: dict[str, str] = {}
        """Parts of names: the memory of the GPU, the size of the model."""
        self._answer: int | None = None
        self._machines: dict[str, int] = {}
        """GPUS_PER_NODE and NODES."""

    def take(self, sent: Mapping[str, Any]) -> None:
        """Read arguments of the face, exact names before aliases."""
        commands = [key for key in sent if self._is_command(key)]
        for key in sorted(sent, key=lambda key: key not in self._accepted):
            if key not in commands and not self._take(key, sent[key]):
                self.notes.append(f"ignored {key[:40]}: no such parameter")

        for key in commands:
            self._take_command(key, str(sent[key]))

    def _is_command(self, key: str) -> bool:
        """Return whether an argument is a launch command that no field of the request takes."""
        word = plain(key)
        names = (word, *FIELDS.get(word, ()))
        return _COMMAND in names and self._accepted.keys().isdisjoint(names)

    def _take_command(self, key: str, text: str) -> None:
        """Read what a launch command sets and no argument does."""
        pasted = pasted_command(text)
        if pasted is None:
            self.notes.append(f"ignored {key[:40]}: no command of a model server")
            return
        set_by_it = {
            name: value
            for name, value in pasted.fields.items()
            if name in self._accepted and name not in self.fields
        }
        self.fields |= set_by_it
        read_of_it = ", ".join(f"{name}={shown(value)}" for name, value in set_by_it.items())
        self.notes += [f"{key[:40]}: {read_of_it}", *pasted.notes]
        if pasted.takes_whole_context and "context_length" not in self.fields:
            self.notes.append(
                f"{key[:40]} sets no context: it starts with the model's maximum; send that as"
                " context_length to judge it so"
            )

    def take_options(self, sent: Mapping[str, Any]) -> None:
        """Read `options`. Raises InvalidRequestError for an unknown key, with the keys."""
        before, sent_as = dict(self.fields), dict(self.keys)
        in_order = sorted(sent, key=lambda key: plain(key) in SWITCHES)
        unknown = [key for key in in_order if not self._take(key, sent[key])]
        self.keys = sent_as  # options are sent again as a whole
        self.options = {name: value for name, value in self.fields.items() if name not in before}
        if unknown:
            keys = option_keys(self._tool)
            near = get_close_matches(unknown[0], keys, 3)
            keys = [*near, *(key for key in keys if key not in near)]
            rest = ", ".join(
                f"{key}={shown(value)}" for key, value in sent.items() if key not in unknown
            )
            raise InvalidRequestError(
                f"Unknown option {unknown[0][:40]!r}. Options: {', '.join(keys)}.",
                hint="Send one of them, or leave it out.",
                field=OPTIONS,
                code="unknown-value",
                send={OPTIONS: rest or None},
            )

    def _take(self, key: str, value: Any) -> bool:  # noqa: ANN401 - JSON is any
        """Read one argument. Returns False where its name means nothing."""
        value = from_json(value)
        return (
            (isinstance(value, Mapping) and self._take_object(key, value))
            or self._take_switch(key, value)
            or self._take_layers(key, value)
            or self._take_field(key, value)
            or self._take_settings(key, value)
            or self._take_word(key, value)
            or self._ignore(key, value)
        )

    def _take_object(self, key: str, value: Mapping[str, Any]) -> bool:
        """Read what an object holds. Returns False where that is no arguments."""
        rest = {
            inner: one for inner, one in value.items() if not self._take_settings(key, {inner: one})
        }
        inside = self._within(key, rest)
        self.take(inside)
        return bool(inside) or len(rest) < len(value)

    def _take_switch(self, key: str, value: object) -> bool:
        """Set the fields that a true switch stands for, where nothing else sets them."""
        meant = SWITCHES.get(plain(key))
        if meant is None or key in self._accepted or not _is_switch(value):
            return False
        if str(value).strip().lower() in ("false", "no", "off", "0"):
            return True
        candidates = [name for name in meant if name in self._accepted]
        on_face = [name for name in candidates if name in self._names.face]
        name = next(iter(on_face or candidates), None)
        if name is None:
            self.notes.append(f"ignored {key}: no effect here")
        elif not isinstance(meant[name], int) or name not in self.fields:
            # a number that is sent says more than the switch
            if meant[name] == "qlora" and plain(str(self.fields.get(name))) == "lora":
                del self.fields[name]  # LoRA over a base in 4 bit
            self._put(key, name, meant[name])
        return True

    def _take_field(self, key: str, value: Any) -> bool:  # noqa: ANN401 - JSON is any
        """Read an argument that means a field, or a part of the GPU's name and count."""
        name = self._names.field(key, self.notes.append)
        if name is None:
            return False
        if name in PARTS_OF_NAMES:
            self._parts[name] = str(value).strip()
        elif name in OF_MACHINES:
            self._machines[name] = whole_number(Field(name, "integer"), value)
        elif name not in self._accepted:
            self._answer = whole_number(Field(name, "integer"), value)
        elif not is_not_set(self._accepted[name], value):
            if name not in self._names.face or key != name:
                self.keys[name] = key
            self._take_value(key, name, value)
        return True

    def _take_value(self, key: str, name: str, value: Any) -> None:  # noqa: ANN401 - JSON is any
        """Read a value that is set."""
        field, text = self._accepted[name], str(value).strip()
        if name == "model" and (pasted := pasted_command(text)) and pasted.fields.get(name):
            return self._take_command(key, text)
        if name == "model" and (run := _RUN.fullmatch(text)):
            self.fields.setdefault("engine", run[1])
            value = run[2]
        elif plain(key).endswith("ms") and name.startswith("max_seconds") and _is_bare(value):
            value = f"{value} ms"
        elif name in _LIMITED and text.lower() in THE_MOST:
            return self.notes.append(f"{name} {shown(value)}: see the limits of the answer")
        elif plain(key) in _COMPUTE_DTYPES and "quantization" in name and _is_sixteen_bit(value):
            return self.notes.append(f"{key} {value}: the weights as published")
        elif name == "sequence_length" and whole_number(field, value) > _LONGEST_SEQUENCE:
            field = self._accepted.get("token_budget", field)
        elif name == "gpus" and "kinds" in self._accepted and _are_kinds(text):
            field = self._accepted["kinds"]
            self.notes.append(f"{key[:40]} {shown(value)}: GPUs of this kind")
        return self._set(key, field, value)

    def _take_word(self, key: str, value: object) -> bool:
        """Read a word that stands for fields of the tool, where it has none of the argument's name:
        a method that is sent as the task. Returns False for any other."""
        word, meant = plain(str(value)), dict[str, Value]()
        for name in FIELDS.get(plain(key), [plain(key)]):
            meant |= VALUES.get(name, {}).get(word, {})
        for name in meant.keys() & self._accepted.keys():
            self._put(key, name, meant[name])
        return not meant.keys().isdisjoint(self._accepted)

    def _ignore(self, key: str, value: object) -> bool:
        """Report an argument that changes nothing. Returns False where its name means nothing."""
        word = plain(key)
        if word not in WITHOUT_EFFECT and word not in FIELDS and word not in SWITCHES:
            return False
        if not isinstance(value, str | None) or value:
            self.notes.append(f"ignored {key[:40]}: {INSTEAD.get(word, 'no effect here')}")
        return True

    def _take_layers(self, key: str, value: object) -> bool:
        """Read how many layers lie on the GPUs; all where the number is negative or very large."""
        word = plain(key)
        if word not in GPU_LAYERS and not (word == OLLAMA_GPU_LAYERS and self._reads_gguf()):
            return False
        field = self._accepted.get(GPU_LAYERS_FIELD)
        if field is None:
            self.notes.append(f"ignored {key}={shown(value)}: judged with all layers on GPUs")
        elif not _ALL_LAYERS.fullmatch(str(value).strip().lower()):
            self._set(key, field, value)
        return True

    def _take_settings(self, key: str, value: object) -> bool:
        """Read an argument as training tools have it in their configurations. Returns False where
        they do not."""
        if "zero_stage" not in self._accepted or plain(key) in WITHOUT_EFFECT:
            return False
        settings = tool_settings(json.dumps({key: value}))
        for name, one in settings.items():
            self._put(key, name, one)
        if settings:
            read_of_it = ", ".join(f"{name}={shown(one)}" for name, one in settings.items())
            self.notes.append(f"{key[:40]}: {read_of_it}")
        return bool(settings)

    def _within(self, key: str, value: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments in an object, where its keys name any: {"name": .., "count": ..} of
        a GPU, {"model": ..} of a speculative_config."""
        if (field := self._accepted.get(key)) is not None and field.kind == "counts":
            return {}
        whole = {inner: f"{key.removesuffix('_config')}_{inner}" for inner in value}
        named = {inner: name if self.is_name(name) else inner for inner, name in whole.items()}
        if not any(map(self.is_name, named.values())):
            return {}
        return {
            name if self.is_name(name) else whole[inner]: value[inner]
            for inner, name in named.items()
        }

    def _reads_gguf(self) -> bool:
        """Return whether the engine is of llama.cpp: by its name, else by a model's tag."""
        sent = str(self.fields.get("engine", ""))
        name = engine_named(re.sub(r"[^a-z0-9]", "", sent.lower()))
        return ENGINES[name].reads_gguf if name else ":" in str(self.fields.get("model", ""))

    def _set(self, key: str, field: Field, value: object) -> None:
        """Read the value of a field, and what it holds besides."""
        text, besides = value, dict[str, str]()
        if field.name == "engine" and "trainer" not in self._accepted and _is_trainer(value):
            self.notes.append(f"ignored {key}={shown(value)}: it trains")
            return
        if isinstance(value, str):
            text, besides = _split(field.name, value, self._accepted)
        for name, inner in besides.items():
            self._put(key, name, read(self._accepted[name], inner)[name])
        if besides and not text:
            return
        try:
            values = read(field, text)
        except InvalidRequestError:
            if field.name == key or field.name not in self.fields:
                raise
            self.notes.append(f"ignored {key}={shown(value)}")
            return
        for name, one in values.items():
            if name == "engines" and (newest := _RELEASES.sub("", str(one))) != one:
                self.notes.append(f"engines {newest}: the newest releases, which a table is of")
                one = newest
            if name not in self._accepted:
                self.notes.append(f"ignored {name} {one}: no effect here")
            elif self._is_default(name, one):
                continue
            else:
                self._put(key, name, one)

    def _is_default(self, name: str, value: object) -> bool:
        """Return whether a word stands for what is done anyway: `task` where all are served."""
        choices = self._accepted[name].choices
        serves = name == "task" and value in ("serving", "encode")
        return serves and bool(choices) and value not in choices

    def _put(self, key: str, name: str, value: Any) -> None:  # noqa: ANN401 - JSON is any
        if name in self.fields and plain(str(self.fields[name])) != plain(str(value)):
            if name == "gpu_count" and isinstance(value, int):
                value = max(value, self.fields[name])
                self.notes.append(f"gpu_count {value}: the larger of two")
            else:
                self.notes.append(f"ignored {key}={shown(value)}: {name} is {self.fields[name]}")
                return
        self.fields[name] = value

    def finish(self) -> None:
        """Join the memory of a GPU and the size of a model with their names, count the GPUs of
        several machines, and make a context of a prompt and its answer."""
        prompt = self.fields.get("prompt_tokens")
        answer = self.fields.get(ANSWER, self._answer)
        if self.fields.get("task") == "training" and "sequence_length" in self._accepted:
            self._take_length_of_training()
        if prompt and answer and "context_length" not in self.fields:
            self.fields["context_length"] = prompt + answer
            self.notes.append(f"context_length {prompt + answer}: the prompt and its answer")
        nodes, each = self._machines.get(NODES, 1), self._machines.get(GPUS_PER_NODE)
        if each is not None:
            self.fields.setdefault("gpu_count", nodes * each)
        elif nodes > 1 and "gpu_count" not in self.fields and "gpu" in self.fields:
            self.fields["gpu"] = f"{nodes}x {self.fields['gpu']}"
        for part, size in self._parts.items():
            field, unit, has_size = _SIZES[part]
            name = self.fields.get(field, "")
            if not has_size.search(name):
                self.fields[field] = f"{name} {_BARE.sub(unit, size)}".strip()

    def _take_length_of_training(self) -> None:
        """Read a context as the length of a training's sequences, where it is not that of a whole
        run."""
        length = self.fields.pop("context_length", None)
        if length is not None and length > _LONGEST_SEQUENCE:
            self.notes.append(f"ignored {length:,} tokens: {INSTEAD[plain('token_budget')]}")
        elif length is not None:
            self._put("context_length", "sequence_length", length)


def _is_switch(value: object) -> bool:
    words = ("true", "false", "yes", "no", "on", "off", "0", "1", "")
    return isinstance(value, bool) or str(value).strip().lower() in words


def _is_trainer(value: object) -> bool:
    word = plain(str(value))
    return word in tools_by_word() and engine_named(word) is None


def _are_kinds(text: str) -> bool:
    """Return whether a text names kinds of GPUs: "consumer", "Hopper"."""
    return all(kind_named(one) for one in text.split(","))


def _is_bare(value: object) -> bool:
    """Return whether a number has no unit."""
    return re.fullmatch(r"[\d.,]+", str(value)) is not None


def _is_sixteen_bit(value: object) -> bool:
    return plain(str(value)) in _SIXTEEN_BIT


def _split(name: str, text: str, accepted: Mapping[str, Field]) -> tuple[str, dict[str, str]]:
    """Return a value without what it holds of other fields, and that by field: "vLLM 0.8"."""
    besides: dict[str, str] = {}
    for names, pattern, target in WITHIN:
        if name not in names or target not in accepted or target == name:
            continue
        match = re.search(pattern, text, re.IGNORECASE)
        if match:
            besides[target] = match["value"].lower()
            text = f"{text[: match.start()]} {text[match.end() :]}"
            text = re.sub(r"^\W*(?:with|and|using|in)?\b\W*|\W*(?:with|and|using)?\W*$", "", text)
    return text.strip(), besides


def shown(value: object) -> str:
    """Return a value as an argument is written."""
    return str(value).lower() if isinstance(value, bool) else str(value)[:60]
