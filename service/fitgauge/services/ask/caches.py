"""The size of the KV cache, where a question asks for it."""

from fitgauge.engine.quantity import KIB, gib
from fitgauge.services.common.fit_schemas import FitAnswer


def cache_in_words(answer: FitAnswer) -> str:
    """Return 'The KV cache takes 40.00 GiB for 131,072 tokens, about 320 KiB a token. ', of all
    GPUs together; empty where there is none."""
    tokens = int(answer.understood_as["context_length"]) * int(answer.understood_as["concurrency"])
    gpus = answer.gpu.count if answer.gpu else 1
    if answer.needs:
        size = answer.needs[0].kv_cache_bytes
    else:
        size = gpus * sum(term.bytes for term in answer.terms or () if term.name == "kv_cache")
    if not size:
        return ""
    over = f" over {gpus} GPUs" if gpus > 1 else ""
    each = f"about {size / tokens / KIB:,.0f} KiB a token"
    return f"The KV cache takes {gib(size)}{over} for {tokens:,} tokens, {each}. "
