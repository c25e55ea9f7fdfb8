"""data/checkpoints.tsv: what it names can be loaded, and every row has a source."""

import re
from collections import Counter

from bundled_models import SNAPSHOT, model_of
from fitgauge.catalog.checkpoints import checkpoint_name, rows
from fitgauge.engine.quantization.requested import requested_scheme
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.weights.rank_bytes import rank_weights
from fitgauge.hub.reference import parse_reference

TAG = re.compile(r"[a-z0-9.-]+:[a-z0-9.-]+")
SIZE = re.compile(r"(\d+) bytes")


def test_every_row_is_of_a_bundled_model_in_a_format_with_a_source() -> None:
    kinds = {kind for row in ENGINES.values() for kind in row.checkpoint_kinds}
    for row in rows():
        assert SNAPSHOT.get(row.model) is not None, row
        assert row.kind in kinds, row
        assert TAG.fullmatch(row.name) if row.kind == "ollama" else parse_reference(row.name), row
        assert row.form == "F16" or requested_scheme(row.form, model_of(row.model).spec), row
        assert row.source.count("/") >= 2, row


def test_one_name_is_known_of_a_model_in_a_format() -> None:
    keys = Counter((row.model, row.kind, row.form) for row in rows())
    assert keys.most_common(1)[0][1] == 1


def test_a_name_is_looked_up_whatever_the_case() -> None:
    assert checkpoint_name("qwen/qwen3-32b", "ollama", "q4_k_m") == "qwen3:32b"
    assert checkpoint_name("Qwen/Qwen3-32B", "ollama", "Q2_K") is None


def test_the_files_of_ollamas_library_are_as_large_as_their_format_makes_the_model() -> None:
    """Of one block type the size follows exactly but for the file's header."""
    for row in rows():
        if row.kind == "ollama" and row.form in ("Q4_0", "Q8_0"):
            size = SIZE.search(row.source)
            assert size is not None, row
            spec = model_of(row.model).spec
            scheme = requested_scheme(row.form, spec)
            sharded = ENGINES["llama.cpp"].shard_weights(spec, scheme, stored=None)
            assert abs(rank_weights(sharded).bytes / int(size[1]) - 1) < 0.01, row
