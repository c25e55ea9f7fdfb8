"""What a question is about: one pattern for each topic."""

import re
from collections.abc import Mapping
from typing import Literal

Topic = Literal[
    "time",
    "disk",
    "merging",
    "format",
    "largest",
    "comparison",
    "all weights",
    "price of tokens",
    "price",
    "as published",
    "fastest",
    "text alone",
    "rate",
    "cache",
    "one gpu",
    "whole context",
    "nodes",
]

_PATTERNS: Mapping[Topic, str] = {
    "time": (  # how long something takes, or what it costs
        r"\bhow (?:long|much time|many (?:\w+[ -])?(?:hours|days|minutes))\b"
        r"|\b(?:training|train|run) ?time\b"
        r"|\btime (?:to|for) (?:train|fine)|\bcosts? (?:to|of) (?:train|fine)|\btraining costs?\b"
        r"|how much (?:does it|will it|would it|is it to|to) (?:cost|train|fine)"
        r"|多久|多长时间|训练时间|多少钱"
        r"|얼마나 걸"
    ),
    "disk": (
        r"\b(?:disk|storage)\b|\bcheckpoints? size\b|\bsize of (?:a |the )?checkpoints?\b|磁盘|硬盘"
    ),
    "merging": (  # adapters that are merged into their base
        r"\bmerg(?:e|ing)\s+(?:\w+\s+){0,2}(?:lora|adapters?|qlora|peft)\b|\bmerge_and_unload\b"
        r"|合并\s*(?:lora|适配器|权重)"
    ),
    "format": (  # which number format of the weights to take
        r"\b(?:best|which|what|right|highest|largest|biggest|recommended)\s+(?:\w+\s+){0,2}"
        r"(?:quants?|quanti[sz]ations?(?: level)?|bit ?width|bpw|gguf|precision)\b"
        r"|\bany (?:kind of |sort of )?quant\w*"
        r"|(?:什么|哪[种个]|多少位?)的?量化|量化(?:到|成)?(?:什么|多少|几)"
    ),
    "largest": (  # the largest model
        r"largest|biggest|\bhow (?:big|large)(?: of)? an?\b|\bmax(?:imum)? (?:model )?size\b"
        r"|最大的?"
        r"|多大(?:参数|规模|尺寸)?(?:量)?的?模型"
    ),
    "comparison": (  # things side by side
        r"\bcompare\b|\bvs\.?\b|\bversus\b|\bor\b|\bdifference\b|\bbetter\b|\bthan\b|\bbetween\b"
        r"|\bworth\b|\bupgrad\w+|\bover (?:an?|the|my)\b"
        r"|对比|比较|还是|或者?|哪个好|아니면|중에|それとも|または|どちら|どっち"
    ),
    "all weights": (  # that are trained, which "full" alone says: "training Mistral 7B full"
        r"(?<!in )\bfull\b(?!(?:[ -]\w+)?[ -](?:context|ctx|length|precision|sequence|window"
        r"|epochs?"
        r"|checkpoint\w*|recompute|shard\w*|dataset|data|node|nodes|gpus?|size|speed|batch)\b)"
        r"|\bfully\b(?=\s*(?:$|[.?!,;]|on\b|with\b))"
    ),
    "price of tokens": (
        r"\b(?:price|cost|usd|dollars?|\$)\b[^.?]{0,16}\bper\b[^.?]{0,16}\btokens?\b"
        r"|\bper (?:million|1m|m|mtok|billion) ?(?:output |input )?tok(?:en)?s?\b"
        r"|/ ?m ?tok(?:en)?s?\b"
    ),
    "price": (  # what is the cheapest
        r"\bcheap\w*|\b(?:less|least|most|more) (?:expensive|cost[- ]effective)|\bbest (?:value"
        r"|price)"
        r"|\b(?:what|how much)\b[^.?]{0,24}\bcosts?\b[^.?]{0,24}\b(?:run|serve|host|rent"
        r"|deploy)\w*\b"
        r"|\bcosts?\b[^.?]{0,24}\bto (?:run|serve|host|rent|deploy)\b"
        r"|便宜|划算|性价比|安い"
    ),
    "as published": (  # weights as they are published
        r"\bfull[- ]precision\b|\b(?:un|non-?)quanti[sz]ed\b|\b(?:without|no) quanti[sz]ation\b"
        r"|\bnative precision\b|不量化|非量化|全精度"
    ),
    "fastest": (  # what is the fastest
        r"\bfast(?:er|est)\b|\bquicke(?:r|st)\b|更快|最快"
    ),
    "text alone": (  # a model served for text alone, whatever else it reads
        r"\b(?:text|language[ -]?model)[ -]?only\b|\bonly (?:for )?text\b|\bnur text\b"
        r"|\bsolo texto\b"
        r"|\b(?:no|without|w/o|disabl\w+|skip\w*|drop\w*) (?:the |any )?(?:vision|images?|mmproj)\b"
        r"|纯文本|只[用需要]?文[本字]"
    ),
    "rate": (  # how fast a launch is
        r"\bhow (?:fast|quick|slow)\b|^\W*(?:tok/s|tokens?/s|tokens? (?:per|a) second|t/s|tps)\b"
        r"|\bhow many (?:tokens?|tok|t|texts|embeddings|documents|passages|sentences)\b"
        r"(?! can| does it hold)"
        r"|\b(?:speed|throughput)\b|\b(?:what|which)\b[^.?]{0,30}\b(?:tokens?/s|tok/s|t/s|tps)\b"
        r"|\b(?:tok/s|tokens?/s(?:ec)?|t/s|tps)\s*\?"
        r"|(?<!\b\d )(?<!\b\d\d )(?<!\d\d\d )(?<!\d)"
        r"\b(?:tok/s|tokens?/s(?:ec)?|tokens? (?:per|a) second|t/s|tps)\W*$|多快|速度|每秒多少"
        r"|多少 ?(?:个 ?)?tokens? ?(?:每秒|/ ?s|一秒)"
    ),
    "cache": (  # how large the KV cache is
        r"\b(?:how (?:much|big|large|many)|what(?:'s| is)?|size of)\b[^.?,;]{0,32}\bkv[- ]?cache\b"
        r"|\bkv[- ]?cache\b[^.?,;]{0,16}\b(?:size|per token|usage|take|need|how)\b"
        r"|kv ?cache ?.{0,6}(?:多大|多少)"
    ),
    "one gpu": (  # several models on one GPU
        r"\bon the same\b|\bnext to\b|\bbesides? (?:an?|the|it)\b"
        r"|\btogether\b(?! ai)|\bside[- ]by[- ]side\b|\balongside\b|\bconcurrently\b"
        r"|\bsame (?:gpu|card|machine)\b"
        r"|\bat the same time\b|\bsimultaneously\b"
        r"|\bat once\b"
        r"|同一[张块台]|同时"
    ),
    "whole context": (  # all the tokens that the model reads, without their number
        r"(?:\b(?:(?:with|at|for|on|use|using|support\w*|needs?|wants?)\s+|w/\s*)"
        r"(?:(?:its|the|a|my)\s+)?(?:max(?:imum|imal)?|longest)|\b(?:full|whole|entire|native))"
        r"\s+(?:possible\s+)?"
        r"(?:context|ctx)(?:\s+(?:length|window|size))?\b(?!\s*(?:of|is|=|:)?\s*\d)"
        r"|(?:满|全|最大)上下文(?!.{0,6}(?:多少|多大|多长|是什么))"
    ),
    "nodes": (  # how many nodes are needed, each of the GPUs that it counts
        r"\bhow many (?:nodes|machines|servers|hosts|boxes)\b"
    ),
}
_TOPICS = {topic: re.compile(pattern, re.IGNORECASE) for topic, pattern in _PATTERNS.items()}


def is_about(text: str, *topics: Topic) -> bool:
    """Return whether a text is about one of some topics, whatever else it is about."""
    return any(_TOPICS[topic].search(text) for topic in topics)
