"""Settings of training that a text says in words alone: the optimizer, what is offloaded, and that
activations are kept."""

import re
from collections.abc import Mapping

from fitgauge.services.ask.vocabulary import NUMBER_WORDS

_EIGHT_BIT_ADAM = (
    r"(?:8[- ]?bits?|int8)[- ](?:paged[- ])?adamw?\b|(?<![a-z])adamw?[- _]?8[- _]?bits?"
    r"|8[- ]?bit optimi[sz]er"
)
OPTIMIZERS = re.compile(
    rf"(?P<paged_adamw_8bit>paged[- _](?:{_EIGHT_BIT_ADAM}))|(?P<adamw_8bit>{_EIGHT_BIT_ADAM})"
    r"|(?P<paged_adamw>\bpaged[- _]adamw?\b)|(?P<adafactor>\badafactor\b)|(?P<muon>\bmuon\b)"
    r"|(?P<galore_adamw>\bgalore\b)|(?P<lomo>\blomo\b)|(?P<sgd>\bsgd\b)"
    r"|(?P<lion>\blion optimi[sz]er\b)",
    re.IGNORECASE,
)
"""Optimizers as people write them; the name of the group is the request's."""

_OFFLOADED = re.compile(r"\boffload\w*|卸载|オフロード", re.IGNORECASE)
_NOT_OFFLOADED = re.compile(
    r"\b(?:no|without|not|don't)\s+(?:\w+\s)?offload|不\w?卸载"
    r"|\boffload\w*[ =:]*(?:none|false|off)\b",
    re.IGNORECASE,
)
_NOT_RECOMPUTED = re.compile(
    r"\b(?:no|without|disabl\w+|turn(?:ed|ing)? off)\s+(?:gradient|activation|grad)[- _]checkpoint"
    r"|\b(?:gradient|activation|grad)[- _]checkpoint\w*\s*(?:is\s|=|:)?\s*"
    r"(?:off|disabled|false|none)\b",
    re.IGNORECASE,
)
_RECOMPUTED = re.compile(
    r"\b(full|selective)(?: activation| gradient)?[- _](?:recomput\w+|checkpointing)", re.IGNORECASE
)
IMAGE = r"(?:images?|pictures?|photos?|screenshots?)"
PIXELS = re.compile(
    rf"\b(\d{{3,5}}) ?[x*] ?(\d{{3,5}})(?= ?(?:px|pixels?)?[ -]{IMAGE}\b)"
    rf"|(?<=\b)(?:{IMAGE} (?:are |is |of |at |with |sized? )*)(\d{{3,5}}) ?[x*] ?(\d{{3,5}})\b",
    re.IGNORECASE,
)
"""Pixels next to a word for images."""

_IMAGES = re.compile(
    rf"\b(\d{{1,3}}|{'|'.join(NUMBER_WORDS)}) {IMAGE}"
    r" (?:per|a|each|in (?:a|each|every)) (?:sample|example|sequence|conversation|row|prompt)\b",
    re.IGNORECASE,
)
"""How many images a sample has."""

_PRETRAINED = re.compile(
    r"\bpre-?train\w*|\bfrom (?:scratch|zero)\b|预训练|从头训练", re.IGNORECASE
)
_OF_ONE_GPU = re.compile(
    r"\bmicro|\bmbs\b|per[- _]?(?:device|gpu|card)|每(?:张|块)?卡", re.IGNORECASE
)
_LEAST_GLOBAL = 32
"""Sequences from which on a batch of a pre-training is that of a step over all GPUs."""


_SWITCHES: Mapping[str, tuple[re.Pattern[str], object]] = {
    "compile": (re.compile(r"\btorch[. _]?compile\b|(?:,|with|and) compile\b", re.I), True),
    "optimizer_in_backward": (re.compile(r"\boptimi[sz]er[- _]in[- _]backward\b", re.I), True),
    "precision": (
        re.compile(r"\bfp8[- ](?:training|pre-?training|fine-?tuning|recipe)\b", re.I),
        "fp8",
    ),
}
"""Settings that a text only names."""
_COUNTS: Mapping[str, re.Pattern[str]] = {
    "context_parallel": re.compile(
        r"\b(?:context|sequence)[- ]parallel\w*(?: size| degree)?(?: of)?[ =:]*(\d{1,3})\b"
        r"|\bcp[ =:]?(\d{1,3})\b",
        re.I,
    ),
    "fsdp_version": re.compile(r"\bfsdp-?v?([12])\b", re.I),
    "group_size": re.compile(
        r"\b(\d{1,4}) (?:generations|rollouts|completions)\b(?! tokens?)"
        r"|\b(?:num[_ -]?generations|group[_ -]?size)(?: of)?[ =:]*(\d{1,4})\b",
        re.I,
    ),
}
"""Settings of which a text says the number."""


_AT_MOST = r"(?:up to|at most|no more than|max(?:imum)?(?: of)?|\d+\s*(?:to|-))\s*"


def says_at_most(text: str, gpus: int) -> bool:
    """Return whether a text has so many GPUs at most: "on up to 8 A100s", "2 to 8 L40S"."""
    return re.search(rf"\b{_AT_MOST}{gpus}\b(?!\s*k?\s*tokens)", text, re.IGNORECASE) is not None


def is_global_batch(text: str, sequences: float) -> bool:
    """Return whether the batch of a text about training is that of a step over all GPUs, as those
    of pre-training are: "from scratch with batch size 512"."""
    of_all = sequences >= _LEAST_GLOBAL and _PRETRAINED.search(text) is not None
    return of_all and _OF_ONE_GPU.search(text) is None


_RESUMED = re.compile(
    r"\bresum\w*\b[^.?\n]{0,100}?\bfrom \d{1,4}\b[^.?\n]{0,40}?"
    r"\b(?:on|to|onto|with) (\d{1,4})\b(?!\s*gb)",
    re.IGNORECASE,
)
"""A run that goes on with other GPUs: "resume from 8 H100s on 4"."""


def run_words(text: str) -> Mapping[str, object]:
    """Return the fields of a run as a whole that the words of a text set."""
    resumed = _RESUMED.search(text)
    return {} if resumed is None else {"resume_gpu_count": int(resumed[1])}


def training_words(text: str) -> Mapping[str, object]:
    """Return the fields that the words of a text about training set."""
    fields: dict[str, object] = {}
    if (optimizer := OPTIMIZERS.search(text)) is not None:
        fields["optimizer"] = optimizer.lastgroup
    if _OFFLOADED.search(text) and not _NOT_OFFLOADED.search(text):
        fields["offload"] = _offloaded(text)
    if (recomputed := _RECOMPUTED.search(text)) is not None:
        fields["activation_checkpointing"] = recomputed[1].lower()
    if _NOT_RECOMPUTED.search(text):
        fields["activation_checkpointing"] = "none"
    fields |= {name: value for name, (words, value) in _SWITCHES.items() if words.search(text)}
    for name, words in _COUNTS.items():
        if (count := words.search(text)) is not None:
            fields[name] = int(count[count.lastindex or 1])
    if (size := image_size(text)) is not None:
        fields["image_size"] = size
    if (images := _IMAGES.search(text)) is not None:
        word = images[1].lower()
        fields["images"] = NUMBER_WORDS.get(word) or int(word)
    return fields


def _offloaded(text: str) -> str:
    """Return what a text about training offloads: all that can be where it does not say."""
    low = text.lower()
    if "nvme" in low:
        return "nvme"
    return (
        "optimizer"
        if re.search(r"optimi[sz]er[- ]offload|offload\w* (?:the )?optim", low)
        else "cpu"
    )


def image_size(text: str) -> str | None:
    """Return the first size of an image that a text names, as "1024x768"; None without one."""
    match = PIXELS.search(text)
    return None if match is None else "x".join(side for side in match.groups() if side)


def without_pixels(text: str) -> str:
    """Return a text of the same length with sizes of images blanked: 1080 is a GPU too."""
    return PIXELS.sub(lambda match: re.sub(r"[\dx*]", " ", match[0]), text)
