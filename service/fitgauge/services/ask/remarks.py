"""What a question says that no request has a field for, each with what to do about it."""

import math
import re

from fitgauge.services.ask.intent import DISTILLS
from fitgauge.services.ask.topics import is_about
from fitgauge.services.ask.vocabulary import NUMBER_WORDS

_COPIES = re.compile(
    r"\b([2-9]|[1-9]\d{1,2}|"
    + "|".join(word for word, count in NUMBER_WORDS.items() if count > 1)
    + r") (?:(?:replicas|copies|instances)|(?:[\w.-]+ ){0,3}[\w.-]*\d+(?:\.\d+)?b models)\b"
)
"""Several of one model: "3 copies", "two llama 3.1 8b models"."""

_OF_ITS_OWN = re.compile(
    r"\b(?:one|an?|1x?|two|2x?) [\w -]{2,24}\b(?:each|apiece|per (?:replica|copy|instance))\b"
    r"|\bits own (?:gpu|card)\b"
)
"""GPUs that each copy has for itself: "one L40S each"."""

_SHARE = 0.92
"""Of a GPU that all copies take together: vLLM's own of one."""

_DRAFT = (
    re.compile(r"\bspeculative decoding\b|\bdraft model\b|\bwith (?:an? )?(?:\S+ )?draft\b"),
    "the answer is without it. Send `draft_model`, or `speculative_tokens` for the model's own MTP"
    " head.",
)
_DISTILLATION = (
    re.compile(
        r"\bdistill(?:ing|ation)\b|\bdistill (?:an?|the|my|it)\b|\bteacher model\b"
        rf"|{DISTILLS.pattern}"
    ),
    "distillation is not estimated. Train the student alone (check_training_fit) and serve the"
    " teacher (check_fit): on the same GPUs their memory adds up.",
)
_WITHOUT_GPU = (
    "gpu: runs without one are not estimated. What a model needs on a GPU is about what it needs in"
    " the memory of the machine."
)
_REMARKS = (
    _DISTILLATION,
    (
        re.compile(r"\b(?:ud[-_])?q\d_k_xl\b|\b\d\.\d{1,2}[- ]?bits?\b"),
        "such files mix types in a way of their own; the answer is of the usual file of about as"
        " many bits.",
    ),
    (
        re.compile(
            r"\b\d{3,5} ?x ?\d{3,5} images?\b|\b\d+ images?\b"
            r"|\bimages? per (?:request|prompt)\b|\b(?:\d{3,4}p|4k) images?\b"
        ),
        "images take tokens of the context: count them in `context_length`.",
    ),
    (
        re.compile(r"\bkv[- ]?cache offload\w*|\boffload\w* (?:the )?kv[- ]?cache\b"),
        "the answer keeps the cache on the GPU: send `kv_offload_gib` for a part in host memory.",
    ),
    (
        re.compile(r"not divisible by weight quantization block_[nk]\b"),
        "vLLM that prints this loads no FP8 experts whose shard is no multiple of their blocks:"
        " send a smaller `tensor_parallel`, with `expert_parallel` or `pipeline_parallel`.",
    ),
    (
        re.compile(r"\b\d(?:\.\d{1,2})? ?bpw\b"),
        "ExLlama's formats are not estimated; the answer is of a GGUF file of about as many bits.",
    ),
    (
        re.compile(
            r"[€£¥$]\s?\d[\d.,]*k?\b(?!\s*(?:/|per|an|a) ?(?:h|mo)|[\d.,]*\s*(?:/|per\b))"
            r"|\b\d[\d.,]*k? ?(?:€|(?:euros?|eur|usd|gbp|dollars|bucks)\b)(?!\s*(?:/|per|an"
            r"|a) ?(?:h|mo))|\d+ ?[万千]?(?:元|(?:以内)?的?预算)|预算\D{0,3}\d+ ?[万千]?"
        ),
        "what GPUs cost to buy is not known here; prices are those of renting. Send"
        " `max_usd_per_hour` for a limit.",
    ),
    (
        re.compile(r"[€£]\s?\d[\d.,]*k?|\d[\d.,]*k?\s?[€£](?=\s*(?:/|per|an?) ?(?:h|mo))"),
        "taken as so many US dollars.",
    ),
    (
        re.compile(r"\b(?:steam deck|rog ally|playstation|xbox|chromebook)\b"),
        "not in the catalog; send the memory that its GPU has as `gpu`, such as 16GB.",
    ),
    (
        re.compile(
            r"\b(?:and|plus|with|alongside|next to|\+) (?:an?|the|some) (?:small |tiny |little )?"
            r"(?:re-?ranker|reranking model|embedd?(?:er|ing)s?(?: model)?"
            r"|vision model|asr model|speech model|tts(?: model)?|guard(?:rail)? model)\b"
        ),
        "name that model too: the answer is without it.",
    ),
)


def share_of_each(text: str) -> tuple[float, str] | None:
    """Return the part of one GPU that each of several copies of a model has, and the words that
    say how many there are; None for one."""
    match = _COPIES.search(text.lower())
    if match is None or _OF_ITS_OWN.search(text.lower()):
        return None
    copies = NUMBER_WORDS.get(match[1]) or int(match[1])
    return math.floor(_SHARE / copies * 100) / 100, match[0]


def remarks(text: str, *, alone: bool, drafted: bool, training: bool) -> list[str]:
    """Return a sentence for each, with the words of the question that it is about. alone: whether
    it is about a machine without a GPU, and the answer is not; drafted: whether it names a draft
    model; training: whether it is about training, of which few say anything."""
    rows = (_DISTILLATION,) if training else _REMARKS if drafted else (_DRAFT, *_REMARKS)
    matches = ((pattern.search(text.lower()), sentence) for pattern, sentence in rows)
    notes = [f"{match[0]}: {sentence}" for match, sentence in matches if match]
    return [*notes, _WITHOUT_GPU] if alone and is_about(text, "no gpu") else notes
