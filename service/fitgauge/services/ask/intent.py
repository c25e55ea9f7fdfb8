"""What a question is about, by its words."""

import re
from collections.abc import Collection

from fitgauge.services.ask import vocabulary as v
from fitgauge.services.ask.topics import is_about

_QUESTION = re.compile(
    r"\?|吗|吧|呢|多少|几[张卡块台]|能否|可否|是否|如何|怎么|什么|哪[些个种]|能不能|可以.{0,20}不|够不|行不|까요|나요|"
    r"ますか|ですか|ますでしょうか|"
    r"^\W*(?:how|what|which|can|could|does|do|is|are|will|would|should|may)\b"
)


_LARGEST_BEFORE = re.compile(
    r"(?:which size of|largest|biggest|which|what|最大的?|哪些|哪个)\W*(?:\w+\W+)?$"
)

_OF_THE_FAMILY = re.compile(
    r"\W*(?:that |which )?(?:i|we|you|models?|sizes?|versions?|variants?|can|could"
    r"|should|fits?|runs?|will|would|do|is|works?)\b"
    r"|\W*(?:模型|型号)",
    re.IGNORECASE,
)
"""What follows the name of a family of which one is asked for: "which Qwen3 model"."""

_SIZED = re.compile(r"\d\s?[bm](?![a-z])", re.IGNORECASE)
"""A model's own size in its name."""

OTHERS = (
    r"(?:\s+\w+){0,2}\s+(?:users|requests|people|clients|sessions|sequences|streams|chats|agents"
    r"|hours|days|weeks|developers|devs|conversations|layers|tokens|adapters|replicas|copies|instances|models)\b"
)
"""What is counted where it is no GPU: "how many users can an A100 serve"."""

FEWEST = (
    r"\b(?:fewest|least|minim(?:um|al)|min\.?)\s+(?:(?:number|count|amount) of\s+)?"
    r"(?:gpus?|cards?|[a-z]{1,2}\d{1,3}s?|(?:[rg]tx )?\d{4}s)\b"
)
"""As few GPUs as will do: "minimum number of H200s"."""

GPUS = re.compile(
    r"\bwhat (?:(?:should|shall|do|would|could|must) (?:i|we|you)|to)"
    r" (?:buy|get|rent|order|purchase)\b"
    r"|\bwhat (?:do|would|will|does) (?:i|we|you|one|it) (?:need|take|require)\b"
    r"|\bhow many (?:for|to|do (?:i|we|you) need|would (?:i|we) need|are needed)\b|\bhow many\W*$"
    r"|\bhow many (?:rtx |gtx )?\d{4}\b|\bhow many of (?:each|them|those|these)\b"
    rf"|\bhow (?:many|much)\b(?!{OTHERS})[^.?]{{0,30}}"
    r"\b(?:gpus?|cards?|nodes?|machines?|(?:[rg]tx )?\d{4}s|blocks)\b"
    rf"|\bhow many\b(?!{OTHERS})[^.?]{{0,30}}\b(?!q\d)[a-z]{{1,2}}\d{{1,3}}s?\b"
    r"|\b(?:which|what)(?:'s| is| are)?\s+(?:\w+\s+){0,6}"
    r"(?:gpus?|(?:graphics? )?cards?|hardware|setup|config(?:uration)?s?|instance|machine|device)\b"
    r"|\b(?:gpu|card) count\b|\brecommendations?\W*$"
    r"|\b(?:minimum|minimal|min|recommended|required|suitable|optimal|cheapest|smallest|special)\b"
    r"[^.?]{0,40}\b(?:gpus?|cards?|hardware|vram|setup|config\w*|requirements?|instance|memory)\b"
    r"|\b(?:hardware|gpu|vram|memory|system) requirements?\b|\brequirements\b"
    rf"|{FEWEST}"
    r"|多少(?:张|块|片|个|台|卡)|几(?:张|块|片|台|卡|个)|什么(?:样的)?(?:显卡|卡|配置|gpu|硬件)"
    r"|哪些(?:显卡|卡|gpu)|哪[种个](?:显卡|卡|gpu)|多少\s*(?:个)?\s*(?:gpu|a100|h100|资源|算力)|最低.{0,6}(?:配置|要求|算力|显卡)"
    r"|配置(?:推荐|要求)|推荐.{0,6}(?:配置|显卡|gpu)|硬件(?:要求|配置|需求)|몇\s*[장대개]"
    r"|(?:どの|どんな|何の)(?:gpu|グラボ)|何枚"
    r"|\bwhat is the compute\b|\bcompute (?:is )?(?:needed|required)\b",
    re.IGNORECASE,
)

NEED = re.compile(
    r"\bhow (?:much|many|big|large)\b[^.?]{0,60}\b(?:memory|vram|gpu|ram|gbs?|gib|gigabytes)\b"
    r"|\b(?:memory|vram|ram)\b[^.?]{0,30}\b(?:need|require|cost|usage|necessary)"
    r"|\bhow much (?:would|does|do|is|need)\b"
    r"|多[大少].{0,4}(?:显存|内存|现存|資源|资源)|(?:显存|内存).{0,8}多[大少]"
    r"|얼마|どれくらい"
    r"|必要な?\s*(?:vram|メモリ|gpu)|(?:vram|メモリ).{0,8}必要",
    re.IGNORECASE,
)


MEMORY = re.compile(
    r"\b(?:memory|vram|oom\w*|gpus?|cards?|fits?|hardware|ram|cuda out of|runs?|running|load"
    r"|loading|rig|workstation|laptop|steam deck|on-?prem|budget|kv[- ]?cache"
    r"|max[-_ ]model[-_ ]len|compute (?:is )?(?:needed|required)"
    r"|deploy\w*|host|graphics? cards?|serve|serving|infer\w*|enough|train\w*|"
    r"fine-?\s?tun\w*|finetun\w*|require\w*|lora|qlora)\b"
    r"|显存|内存|现存|爆|跑|部署|运行|推理|训练|微调|显卡|够|学习|학습|메모리"
    r"|動(?:く|き|か)|メモリ|足り|載(?:る|り)|乗(?:る|り)|推論|学習|チューニング|raspberry|phone|android|ipad",
    re.IGNORECASE,
)


_QUANTIZED = re.compile(
    r"(?<!un)(?<!non-)(?<!not )\bquanti[sz]ed\b|\bqat\b|量化(?:版|后|的模型|模型)",
    re.IGNORECASE,
)
_ADAPTERS = re.compile(r"\b(\d{1,4})\s+(?:lora\s+)?(?:adapters|loras)\b", re.IGNORECASE)
_TRAINED = re.compile(r"\b(?:re)?train|\bfine-?\s?tun|\btuning\b|微调|训练", re.IGNORECASE)

_SERVING = re.compile(r"\b(?:" + "|".join(v.SERVING) + r")\b|推理|部署|运行|跑", re.IGNORECASE)
_STRONG = tuple(
    word
    for word in v.TRAINING
    if word not in ("deepspeed", "accumulation", "optimizer", "reward", "sequence length")
)


def _words(phrases: Collection[str]) -> re.Pattern[str]:
    joined = "|".join(
        re.escape(phrase).replace(r"\ ", r"[\s_-]*") for phrase in sorted(phrases, key=len)[::-1]
    )
    return re.compile(rf"(?<![a-z])(?:{joined})(?![a-z])", re.IGNORECASE)


_TRAINING = _words(_STRONG)
_WEAK_TRAINING = _words(v.TRAINING)
DISTILLS = re.compile(r"\bdistil\w* (?:[^\s.,;?!]+ ){1,5}?into\b", re.IGNORECASE)
"""What stands between a teacher and the model that is trained: "distill R1 into Qwen3 8B"."""
_HAN_TRAINING = re.compile("|".join(v.HAN_TRAINING))


def asks(sentence: str) -> bool:
    """Return whether a sentence is a question."""
    return _QUESTION.search(sentence.lower()) is not None


def about_training(text: str) -> bool:
    """Return whether a question is about training, not about serving."""
    plain = re.sub(r"预训练模型|pre-?trained", " ", text, flags=re.IGNORECASE)
    if any(one.search(plain) for one in (_TRAINING, _HAN_TRAINING, DISTILLS)):
        return True
    return _WEAK_TRAINING.search(plain) is not None and _SERVING.search(plain) is None


def about_memory(text: str) -> bool:
    """Return whether a text is about memory, hardware or running a model."""
    low = text.lower()
    return any(pattern.search(low) for pattern in (MEMORY, NEED, GPUS))


def wants_largest(text: str, model: str | None) -> bool:
    """Return whether a text is about one model of a family, the largest that fits: "the biggest
    llama", "which Qwen3 model"."""
    if model is None or _SIZED.search(model):
        return False
    named = re.search(re.escape(model), text, re.IGNORECASE)
    if named is None or _LARGEST_BEFORE.search(text[: named.start()].lower()) is None:
        return False
    is_family = not any(map(str.isdigit, model))
    return is_family or _OF_THE_FAMILY.match(text, named.end()) is not None


_TURBOQUANT = re.compile(
    r"\b(turboquant_\w+)|\bturbo ?quant(?:ized)?\b[\s:,-]*(?:(k8v4)|(3)[ -]?bits?)?"
)


def turboquant(text: str) -> str | None:
    """Return the format of a KV cache that a text calls TurboQuant, the one of 4 bits where it says
    no more; None where it does not."""
    match = _TURBOQUANT.search(text.lower())
    if match is None:
        return None
    named, mixed, bits = match.groups()
    return named or ("turboquant_k8v4" if mixed else f"turboquant_{bits or 4}bit_nc")


def is_quantized(text: str) -> bool:
    """Return whether a text is about a quantized model, of which it does not say the format."""
    return _QUANTIZED.search(text) is not None and not is_about(text, "format")


def served_adapters(text: str) -> int | None:
    """Return how many LoRA adapters a text serves; None where it serves none."""
    match = _ADAPTERS.search(text)
    if match is None or _TRAINED.search(text):
        return None
    return int(match[1])
