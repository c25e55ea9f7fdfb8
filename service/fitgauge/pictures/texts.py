"""The words of the pictures, one table a language."""

from collections.abc import Mapping
from typing import Literal

Language = Literal["en", "zh"]

TEXTS: Mapping[Language, Mapping[str, str]] = {
    "en": {
        "fits": "fits",
        "tight": "tight",
        "does_not_fit": "does not fit",
        "unsupported": "unsupported",
        "needs": "needs",
        "need": "{need} needed of {available} per GPU",
        "likely": "{percent} likely",
        "load": "{context} tokens × {concurrency} at once",
        "step": "{sequence} tokens × {batch} per GPU",
        "available": "{available} available",
        "interval": "between {low} and {high}",
        "other": "other",
        "of": "{need} of {available}",
        "line": "The line: memory that may be used of one GPU",
        "compare": "What fits",
        "recommend": "GPUs for {model}",
        "nothing": "Nothing fits.",
        "more": "and {count} more",
        "unanswered": "no answer",
        "speed": "{tokens} tokens/s",
        "price": "{usd} USD/h",
        "fewest_gpus": "fewest GPUs",
        "cheapest": "cheapest",
        "fastest": "fastest",
        "headroom": "headroom",
        "kv_cache": "KV cache",
        "cuda_graphs": "CUDA graphs",
    },
    "zh": {
        "fits": "装得下",
        "tight": "勉强",
        "does_not_fit": "装不下",
        "unsupported": "不支持",
        "needs": "需要",
        "need": "每张 GPU 需要 {need}，可用 {available}",
        "likely": "可能性 {percent}",
        "load": "{context} token × {concurrency} 个并发请求",
        "step": "每张 GPU {sequence} token × {batch}",
        "available": "可用 {available}",
        "interval": "介于 {low} 与 {high} 之间",
        "other": "其他",
        "of": "{need} / {available}",
        "line": "竖线：每张 GPU 可用的显存",
        "compare": "哪些装得下",
        "recommend": "适合 {model} 的 GPU",
        "nothing": "没有装得下的。",
        "more": "另有 {count} 个",
        "unanswered": "没有回答",
        "speed": "{tokens} token/秒",
        "price": "{usd} 美元/小时",
        "fewest_gpus": "GPU 最少",
        "cheapest": "最便宜",
        "fastest": "最快",
        "headroom": "余量最大",
        "weights": "权重",
        "kv_cache": "KV 缓存",
        "state_cache": "状态缓存",
        "activations": "激活",
        "cuda_graphs": "CUDA 图",
        "runtime": "运行时",
        "communication": "通信缓冲",
        "fragmentation": "碎片",
        "sampler_states": "采样状态",
        "gradients": "梯度",
        "optimizer_states": "优化器状态",
        "master_weights": "主权重",
    },
}


def text(language: Language, key: str, **values: object) -> str:
    """Return a text with its values; the key in words where the language has none."""
    template = TEXTS[language].get(key) or TEXTS["en"].get(key) or key.replace("_", " ")
    return template.format(**values)
