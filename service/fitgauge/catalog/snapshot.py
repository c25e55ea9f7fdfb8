"""The models that are bundled: data/models.jsonl with the config of one repository a
line, data/models_derived.jsonl with those that have the shapes of another, and what people call
them.

A line is decoded only when it is asked for: the index holds the place of every id and nothing else.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import msgspec

from fitgauge.catalog import tables, variants
from fitgauge.catalog.checkpoints import tagged
from fitgauge.catalog.model_names import Footprint, ModelReading, Names
from fitgauge.catalog.name_parts import Name, says_all
from fitgauge.catalog.near_names import NearNames
from fitgauge.engine.model.families import read_config
from fitgauge.engine.model.model import Model, Stored
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.quantization.formats import GGUF_FILE_BITS
from fitgauge.engine.quantization.gguf import gguf_scheme, half_scheme
from fitgauge.engine.serving.language_model import language_model
from fitgauge.engine.weights.sharding import stored_bytes

_SHAPE = ("num_hidden_layers", "num_attention_heads", "num_key_value_heads", "kv_lora_rank")
"""Keys of a config that the size of the KV cache follows from."""

_FIRST = b'{"id":"'
_DATE = re.compile(rb'"date":"([0-9-]{10})"')
_WORD = re.compile(r"[a-z]+|\d+(?:\.\d+)*")
_SIZE = re.compile(r"\b\d+(?:\.\d+)?b\b")
"""What llama.cpp holds in a file of its own."""


class SnapshotModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One repository as it was on one day."""

    id: str
    """The Hub ID."""
    config: dict[str, Any]
    """Its config.json."""
    source: str
    """Where its files come from."""
    date: str
    """The day they were read."""
    parameters: int | None = None
    """The exact count; None where the model could not be built."""
    counted: str = ""
    """How the parameters were counted."""
    quantization: dict[str, Any] | None = None
    """Its hf_quant_config.json, where it has one."""
    elements: dict[str, int] = {}
    """Numbers stored, by canonical dtype; empty where no source says."""
    like: str | None = None
    """The row whose config this is, where its own is not published."""
    rule: variants.Rule | None = None
    """Why it has the config of `like`."""
    form: str | None = None
    """The number format of a derived row, where it is not the base's."""


class DerivedRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line of data/models_derived.jsonl: a repository with the shapes of another."""

    id: str
    """The Hub ID."""
    like: str
    """The row that has the config."""
    rule: variants.Rule
    """Why it has the config of `like`."""
    source: str
    """Where the rule is confirmed."""
    quantization: str | None = None
    """The format of its weights; None for that of the base."""
    context_length: int | None = None
    """Where it differs from the base's."""


def _model_of(row: SnapshotModel, file: str | None = None) -> Model | None:
    """Return the Model of a row; None for a file that the repository does not hold."""
    if file is not None and row.form != variants.GGUF:
        return None
    spec = read_config(row.config, row.quantization)
    stored = Stored(elements=row.elements) if row.elements else _counted(row, spec)
    if row.form == variants.GGUF:
        suffix = variants.read_suffix(row.id)
        stored = _gguf_file(row.id, file or (suffix and suffix.file) or variants.USUAL_FILE, spec)
        if stored is None:
            return None
        spec = msgspec.structs.replace(spec, quantization=None)
    return Model(
        id=row.id,
        source="snapshot",
        spec=spec,
        stored=stored,
        base=row.like,
        rule=variants.RULES[row.rule] if row.rule else "",
    )


def _counted(row: SnapshotModel, spec: ModelSpec) -> Stored | None:
    """Return the row's own count as what is stored, where the reader's rests on assumptions."""
    if spec.basis == "exact" or row.parameters is None or spec.quantization is not None:
        return None
    return Stored(elements={spec.dtype: row.parameters})


def _gguf_file(model_id: str, file: str, spec: ModelSpec) -> Stored | None:
    """Return the size of a GGUF file of this type as computed; None for an unknown type."""
    label = variants.file_type(file)
    if label is None:
        return None
    make = gguf_scheme if label in GGUF_FILE_BITS else half_scheme
    scheme = make(label, spec)
    size = stored_bytes(language_model(spec), scheme)
    suffix = variants.read_suffix(model_id)
    stem = suffix.stem if suffix else model_id.rpartition("/")[2]
    return Stored(file_bytes=size, file_name=f"{stem}-{label}.gguf", is_estimated=True)


def _words_of(text: str) -> frozenset[str]:
    """Return the words of a nickname in any order, without its size."""
    return frozenset(_WORD.findall(_SIZE.sub(" ", text)))


class Snapshot:
    """The bundled models, by id, by an older or mirrored id, and by what people write."""

    def get(self, model_id: str) -> SnapshotModel | None:
        """Return the model of this id or of one of its aliases, whatever the case of its
        letters; None where there is none."""
        place = self._places.get(self._aliases.get(model_id.lower(), model_id).lower())
        if place is None:
            return None
        start, end = place
        line = self._lines[start:end]
        if start < self._derived_from:
            return msgspec.json.decode(line, type=SnapshotModel)
        return self._derived(msgspec.json.decode(line, type=DerivedRow))

    def model(self, model_id: str) -> Model | None:
        """Return the Model of this id; None where there is none."""
        row = self.get(model_id)
        return None if row is None else _model_of(row)

    def derive(self, model_id: str, file: str | None = None) -> Model | None:
        """Return the Model of an id that is unknown but for a suffix: a known model's name with a
        number format or a word for tuning. None where it is no such name.

        `file`: the type of a GGUF file, such as Q4_K_M, or its name."""
        row = self.get(model_id)
        if row is not None:
            return _model_of(row, file)
        match = self._by_name.base_of(model_id)
        if match is None:
            return None
        base, rule, variant = match
        row = self._derived(
            DerivedRow(
                id=model_id, like=base, rule=rule, source="", quantization=variant.form or None
            )
        )
        return _model_of(row, file)

    def _derived(self, derived: DerivedRow) -> SnapshotModel:
        """Return the row of a repository that has the config of another."""
        base = self.get(derived.like)
        assert base is not None
        config, quantization = base.config, base.quantization
        if derived.quantization and derived.quantization != variants.GGUF:
            config = variants.with_format(config, derived.quantization)
            quantization = None
        if derived.context_length:
            config = {**config, "max_position_embeddings": derived.context_length}
        return msgspec.structs.replace(
            base,
            id=derived.id,
            config=config,
            quantization=quantization,
            source=derived.source,
            elements=base.elements if not derived.quantization else {},
            like=base.id,
            rule=derived.rule,
            form=derived.quantization,
        )

    @cached_property
    def date(self) -> str:
        """The newest date at which a row was read (YYYY-MM-DD)."""
        dates: list[bytes] = _DATE.findall(self._lines, 0, self._derived_from)
        return max(dates).decode()

    def ids(self) -> tuple[str, ...]:
        """Return every id, in alphabetical order."""
        return tuple(sorted(self._ids, key=str.lower))

    @cached_property
    def own_ids(self) -> tuple[str, ...]:
        """The ids of repositories whose own config is bundled, in alphabetical order."""
        return tuple(
            model_id for model_id, (start, _) in self._ids.items() if start < self._derived_from
        )

    def find(self, text: str) -> str | None:
        """Return the id of the model that a text such as "llama 3.1 70b" means; None where it
        means none."""
        reading = self.read(text)
        return reading.id if reading else None

    def read(self, text: str) -> ModelReading | None:
        """Return the model that a text such as "70b Llama 3.1 AWQ" means, with the format it
        names and the other models that it may mean; None where it means none.

        Where a model was published as a base and tuned to instructions, the tuned one is meant
        unless the text says "base"; of several dated releases the latest, unless one has no date
        at all."""
        wanted = text.strip().lower()
        model_id = self._aliases.get(wanted)
        if model_id is None and wanted in self._places:
            model_id = next(one for one in self._ids if one.lower() == wanted)
        if model_id is None and "/" not in wanted:
            model_id = self._quantized.get(variants.key_of(wanted))
        if model_id:
            return ModelReading(model_id)
        if nickname := self._nicknames.get(_words_of(wanted)):
            return ModelReading(nickname)
        if " " in wanted and (now := self._nicknames.get(frozenset(_WORD.findall(wanted)))):
            before = self._names.read(text, self._footprint)
            earlier = (before.id, *before.others) if before is not None else ()
            return ModelReading(now, others=tuple(one for one in earlier if one != now))
        row = tagged(wanted)
        if row is not None and row.model.lower() in self._places:
            return ModelReading(row.model, row.form.lower())
        reading = self._names.read(text, self._footprint)
        query = Name.of(text)
        sizes = query.sizes
        if reading and sizes <= Name.of(reading.id).sizes:
            return reading
        derived = self._derived_names.read(text, self._footprint)
        is_told = bool(sizes or (query.numbers and len(query.words) > 1))
        is_sure = derived is not None and (
            says_all(text, derived.id) or (reading is None and is_told)
        )
        if derived is None or not is_sure:
            return reading
        return derived if reading is None or sizes <= Name.of(derived.id).sizes else reading

    def near(self, text: str) -> tuple[str, ...]:
        """Up to five ids that `text` may be a misspelling of, the likeliest first."""
        return self._near_names.near(text)

    def _footprint(self, model_id: str) -> Footprint:
        """Return what tells whether two models need the same memory."""
        if footprint := self._footprints.get(model_id):
            return footprint
        row = self.get(model_id)
        assert row is not None
        config = row.config
        language = config.get("text_config")
        shape = [
            (language if isinstance(language, dict) and key in language else config).get(key)
            for key in _SHAPE
        ]
        stored = msgspec.json.encode(
            [row.quantization, config.get("quantization_config"), shape]
        ).decode()
        footprint = Footprint(row.parameters, stored)
        self._footprints[model_id] = footprint
        return footprint

    @cached_property
    def _footprints(self) -> dict[str, Footprint]:
        """Those that were read, by id: as many as there are rows at most."""
        return {}

    @cached_property
    def _files(self) -> tuple[bytearray, int]:
        """Both files, one behind the other, and where the second begins."""
        lines = bytearray((tables.DATA / "models.jsonl").read_bytes())
        own = len(lines)
        lines += (tables.DATA / "models_derived.jsonl").read_bytes()
        return lines, own

    @property
    def _lines(self) -> bytearray:
        return self._files[0]

    @property
    def _derived_from(self) -> int:
        return self._files[1]

    @cached_property
    def _by_name(self) -> variants.NameIndex:
        return variants.NameIndex(self.named_ids())

    @cached_property
    def _ids(self) -> dict[str, tuple[int, int]]:
        """Every id and where its line begins and ends; an id stands first in its line and holds
        no quote."""
        places: dict[str, tuple[int, int]] = {}
        lines, start = self._lines, 0
        while end := lines.find(b"\n", start) + 1:
            first = start + len(_FIRST)
            places[lines[first : lines.index(b'"', first)].decode()] = (start, end)
            start = end
        return places

    @cached_property
    def _places(self) -> dict[str, tuple[int, int]]:
        return {model_id.lower(): place for model_id, place in self._ids.items()}

    @property
    def names(self) -> tuple[Name, ...]:
        """The names of `own_ids`, taken apart."""
        return self._names.plain

    @cached_property
    def _names(self) -> Names:
        return Names(self.own_ids)

    @cached_property
    def _derived_names(self) -> Names:
        return Names(self._releases)

    def named_ids(self) -> tuple[str, ...]:
        """Return the ids of all models, without copies and other number formats of them."""
        return (*self.own_ids, *self._releases)

    @property
    def _releases(self) -> Iterator[str]:
        """Derived rows that are models by themselves."""
        for model_id, (start, end) in self._ids.items():
            if (
                start >= self._derived_from
                and b'"rule":"mirror"' not in self._lines[start:end]
                and variants.read_suffix(model_id) is None
            ):
                yield model_id

    @cached_property
    def _quantized(self) -> Mapping[str, str]:
        """Derived rows in other number formats by the letters and digits of their names; of two
        alike that of the model's own publisher."""
        own = {variants.key_of(model_id.partition("/")[2]) for model_id in self.own_ids}
        ids: dict[str, str] = {}
        for model_id, (start, end) in self._ids.items():
            if start < self._derived_from or variants.read_suffix(model_id) is None:
                continue
            owner, _, name = model_id.partition("/")
            key = variants.key_of(name)
            if key.endswith("gguf") or key in own:
                continue  # of a name with "GGUF" the model is meant, in the usual file
            if key not in ids or b'"like":"%s/' % owner.encode() in self._lines[start:end]:
                ids[key] = model_id
        return ids

    @cached_property
    def _near_names(self) -> NearNames:
        return NearNames(self.named_ids())

    @cached_property
    def _nicknames(self) -> dict[frozenset[str], str]:
        """Ids by the words of what people call them: data/nicknames.tsv, a nickname, an id and a
        source a line. One with a size is of that size alone, where it is written in words."""
        return {
            frozenset(_WORD.findall(nickname)): model_id
            for nickname, model_id, _ in tables.rows("nicknames")
        }

    @cached_property
    def _aliases(self) -> dict[str, str]:
        """Ids that were renamed, and mirrors of the same weights: data/model_aliases.tsv, an
        alias and an id a line."""
        return {alias.lower(): model_id for alias, model_id in tables.rows("model_aliases")}
