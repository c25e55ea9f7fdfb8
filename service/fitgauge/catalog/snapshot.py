"""The models that are known without the Hub: data/models.jsonl, one repository a line, and what
people call them.

A line is decoded only when it is asked for: the index holds the place of every id and nothing else.
"""

from functools import cached_property
from importlib.resources import files

import msgspec
from rapidfuzz import fuzz, process

from fitgauge.catalog.model_names import Footprint, ModelReading, Names, plain, tokens
from fitgauge.engine.model.families import read_config
from fitgauge.engine.model.spec import Model, Stored

_DATA = files("fitgauge.catalog") / "data"
_SHAPE = ("num_hidden_layers", "num_attention_heads", "num_key_value_heads", "kv_lora_rank")
"""Keys of a config that the size of the KV cache follows from."""

_FIRST = b'{"id":"'


def _likeness(one: str, other: str, **_: object) -> float:
    """Return how alike two names are, from 0 to 100: as a whole, and in their best matching
    part."""
    return (fuzz.QRatio(one, other) + fuzz.partial_ratio(one, other)) / 2


class SnapshotModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One repository as it was known on `date`.

    `config`: its config.json; `quantization`: its hf_quant_config.json, where it has one;
    `source`: where both come from. `parameters`: the exact count, and `counted` how it was made;
    None where the model could not be built. `elements`: numbers stored, by canonical dtype,
    where they are known."""

    id: str
    config: dict[str, object]
    source: str
    date: str
    parameters: int | None = None
    counted: str = ""
    quantization: dict[str, object] | None = None
    elements: dict[str, int] = {}


class Snapshot:
    """The bundled models, by id, by an older or mirrored id, and by what people write."""

    def get(self, model_id: str) -> SnapshotModel | None:
        """Return the model of this id or of one of its aliases, whatever the case of its
        letters; None where there is none."""
        place = self._places.get(self._aliases.get(model_id.lower(), model_id).lower())
        if place is None:
            return None
        start, end = place
        return msgspec.json.decode(self._lines[start:end], type=SnapshotModel)

    def model(self, model_id: str) -> Model | None:
        """Return the Model of this id; None where there is none."""
        row = self.get(model_id)
        if row is None:
            return None
        stored = Stored(elements=row.elements) if row.elements else None
        return Model(
            id=row.id,
            source="snapshot",
            spec=read_config(row.config, row.quantization),
            stored=stored,
        )

    def ids(self) -> tuple[str, ...]:
        """Return every id, in alphabetical order."""
        return tuple(self._ids)

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
        known = self._aliases.get(wanted)
        if known is None and wanted in self._places:
            known = next(one for one in self._ids if one.lower() == wanted)
        return ModelReading(known) if known else self._names.read(text, self._footprint)

    def made_from(self, repo_id: str, file: str | None) -> ModelReading | None:
        """Return the model that a repository in another format was made from by its name, with
        that format: org/Qwen3-32B-GGUF and the file Q4_K_M; None where the name holds no format,
        or may mean several models."""
        name = f"{repo_id.rpartition('/')[2]} {file or ''}"
        if not tokens(name)[1]:
            return None
        reading = self._names.read(name, self._footprint, unquantized=True)
        return reading if reading and not reading.others else None

    def near(self, text: str) -> tuple[str, ...]:
        """Up to five ids that `text` may be a misspelling of, the likeliest first."""
        return tuple(
            found
            for _, _, found in process.extract(
                plain(text), self._written, scorer=_likeness, limit=5, score_cutoff=65
            )
        )

    def _footprint(self, model_id: str) -> Footprint:
        """Return what tells whether two models need the same memory."""
        if known := self._footprints.get(model_id):
            return known
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
    def _lines(self) -> bytes:
        return (_DATA / "models.jsonl").read_bytes()

    @cached_property
    def _ids(self) -> dict[str, tuple[int, int]]:
        """Every id and where its line begins and ends; an id stands first in its line and holds
        no quote."""
        places, start = {}, 0
        for line in self._lines.splitlines(keepends=True):
            places[line[len(_FIRST) : line.index(b'"', len(_FIRST))].decode()] = (
                start,
                start + len(line),
            )
            start += len(line)
        return places

    @cached_property
    def _places(self) -> dict[str, tuple[int, int]]:
        return {model_id.lower(): place for model_id, place in self._ids.items()}

    @cached_property
    def _names(self) -> Names:
        return Names(self._ids)

    @cached_property
    def _written(self) -> dict[str, str]:
        """The words of every name, by id."""
        return {model_id: plain(model_id) for model_id in self._ids}

    @cached_property
    def _aliases(self) -> dict[str, str]:
        """Ids that were renamed, and mirrors of the same weights: data/model_aliases.tsv, an
        alias and an id a line."""
        table = (_DATA / "model_aliases.tsv").read_text("utf-8")
        return {
            alias.lower(): model_id
            for alias, model_id in (line.split("\t") for line in table.splitlines())
        }
