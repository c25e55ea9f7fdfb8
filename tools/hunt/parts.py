"""By which parts of a model two counts of its weights differ."""

from collections import Counter
from collections.abc import Mapping

from fitgauge.engine.weights.rank_bytes import RankWeights

_PARTS = (
    ("buffer", ("cos_sin_cache", "_scale_float", "inv_freq", "_buffer", "expert_map")),
    ("projector", ("projector", "merger", "connector", "adapter", "mm_")),
    ("tower", ("visual", "vision", "audio", "tower", "speech", "encoder.")),
    ("embedding", ("embed", "wte", "wpe", "word_")),
    ("head", ("lm_head", "output.weight", "score", "classifier")),
)
"""Parts of a model by what names of their tensors hold, tried in this order."""
_OURS = {"language": "layers", "vision": "tower", "audio": "tower", "encoder": "tower"}


def by_part(mine: RankWeights, groups: Mapping[str, int], total: int) -> str:
    """Return by part what our weights are larger by than an engine's tensors [MB], where they are
    larger by `total` [bytes]; what no part explains are buffers.

    groups: bytes by the name of tensors."""
    difference: Counter[str] = Counter()
    for name, size in groups.items():
        part = next((p for p, words in _PARTS if any(w in name for w in words)), "layers")
        difference[part] -= size
    for part, size in mine.by_part.items():
        difference[_OURS.get(str(part), str(part))] += size
    difference.pop("buffer", None)
    difference["buffers"] = total - difference.total()
    terms = sorted(difference.items(), key=lambda term: -abs(term[1]))
    return ", ".join(f"{part} {size / 1e6:+.2f} MB" for part, size in terms if abs(size) >= 5e3)
