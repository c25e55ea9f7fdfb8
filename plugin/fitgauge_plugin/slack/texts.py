"""The words of the bot, one table a language."""

import re
from collections.abc import Mapping
from typing import Literal, get_args

Language = Literal["en", "zh"]

_HAN = re.compile(r"[\u3400-\u9fff]")

_TEXTS: Mapping[Language, Mapping[str, str]] = {
    "en": {
        "fits": "Fits",
        "tight": "Tight",
        "does_not_fit": "Does not fit",
        "unsupported": "Unsupported",
        "needs": "Without a GPU",
        "per_gpu": "Per GPU",
        "of": "{need} of {available} GiB ({low} to {high})",
        "in_total": "In total",
        "total": "{need} of {available} GiB ({count} x the fullest GPU)",
        "likely": "Likely",
        "max_context_length": "Longest context",
        "max_concurrency": "Requests at once",
        "max_micro_batch_size": "Sequences per GPU",
        "max_sequence_length": "Longest sequences",
        "fixes": "What would fit",
        "assumed": "Assumed",
        "read_as": "Read as",
        "smallest": "GPUs that hold it",
        "apply": "Apply: {change}",
        "take": "Ask with {gpu}",
        "halve": "Halve the context ({tokens})",
        "add_gpu": "Add a GPU ({count})",
        "recommend": "Recommend GPUs",
        "ran": "It ran",
        "did_not_run": "It did not",
        "ran_noted": "It ran: noted for `fitgauge truth export`.",
        "did_not_run_noted": "It did not run: noted for `fitgauge truth export`.",
        "pool": "GPU of this channel: {pool}.",
        "pool_default": "GPU not named: this channel's pool, {pool}.",
        "no_pool": "This channel has no GPU pool. Set one: `/fit pool 4x H100 80GB`.",
        "pool_set": "This channel's questions are about {pool} now, where they name no GPU.",
        "pool_unset": "This channel has no GPU pool any more.",
        "pool_refused": "No GPU pool was set. {reason}",
        "cut": "Your message has {length} characters: the first {read} were read.",
        "not_used": "Not used: {numbers}",
        "model_missing": "Which model? Name one, such as Qwen/Qwen3-8B, or a size, such as 7b.",
        "gpu_missing": "Which GPU? Name one, such as RTX 4090 or 2x A100 80GB.",
        "not_understood": "That says nothing of a model or a GPU.",
        "help": "Ask: `/fit llama 3.3 70b on 2x4090 ctx 32k`, `which GPU for qwen3 32b awq?`, "
        "`qlora llama 3.1 8b on a 4090`. `/fit pool 4x H100 80GB` sets this channel's GPU.",
        "not_written": "This cannot be written down now: see the log of the bot.",
        "no_answer": "The service does not answer now. Please ask again later.",
        "busy": "The service is busy. Please ask again in {seconds} s.",
        "greeting": "Will a model fit on a GPU, and if not, what will?",
        "calculating": "is estimating",
        "picture": "Memory of one GPU",
    },
    "zh": {
        "fits": "装得下",
        "tight": "勉强",
        "does_not_fit": "装不下",
        "unsupported": "不支持",
        "needs": "未指定 GPU",
        "per_gpu": "每张 GPU",
        "of": "需要 {need} GiB，可用 {available} GiB（{low} 至 {high}）",
        "in_total": "合计",
        "total": "需要 {need} GiB，可用 {available} GiB（{count} x 最满的 GPU）",
        "likely": "可能性",
        "max_context_length": "最长上下文",
        "max_concurrency": "并发请求",
        "max_micro_batch_size": "每张 GPU 的序列数",
        "max_sequence_length": "最长序列",
        "fixes": "这样装得下",
        "assumed": "假定",
        "read_as": "理解为",
        "smallest": "装得下的 GPU",
        "apply": "采用：{change}",
        "take": "改用 {gpu}",
        "halve": "上下文减半（{tokens}）",
        "add_gpu": "加一张 GPU（{count}）",
        "recommend": "推荐 GPU",
        "ran": "跑起来了",
        "did_not_run": "没跑起来",
        "ran_noted": "跑起来了：已记录，见 `fitgauge truth export`。",
        "did_not_run_noted": "没跑起来：已记录，见 `fitgauge truth export`。",
        "pool": "本频道的 GPU：{pool}。",
        "pool_default": "未指定 GPU：按本频道的 {pool} 计算。",
        "no_pool": "本频道没有默认 GPU。设置方法：`/fit pool 4x H100 80GB`。",
        "pool_set": "本频道的问题若未指定 GPU，从现在起按 {pool} 计算。",
        "pool_unset": "本频道不再有默认 GPU。",
        "pool_refused": "没有设置默认 GPU。{reason}",
        "cut": "消息共 {length} 个字符：只读取了前 {read} 个。",
        "not_used": "未使用：{numbers}",
        "model_missing": "哪个模型？例如 Qwen/Qwen3-8B，或规模，例如 7b。",
        "gpu_missing": "哪种 GPU？例如 RTX 4090 或 2x A100 80GB。",
        "not_understood": "没有看到模型或 GPU。",
        "help": "这样提问：`/fit qwen3 32b awq 在 4090 上能跑吗 上下文 16k`。"
        "`/fit pool 4x H100 80GB` 设置本频道的默认 GPU。",
        "not_written": "现在无法记录：请查看机器人的日志。",
        "no_answer": "服务暂时没有回应，请稍后再问。",
        "busy": "服务繁忙，请 {seconds} 秒后再问。",
        "greeting": "模型装得进 GPU 吗？装不下的话，什么装得下？",
        "calculating": "正在估算",
        "picture": "单张 GPU 的显存",
    },
}

LANGUAGES: tuple[Language, ...] = get_args(Language)


def language_of(text: str) -> Language | None:
    """Return the language of a text; None where it has no letters that tell."""
    if _HAN.search(text):
        return "zh"
    return "en" if len(re.findall(r"[A-Za-z]{2,}", text)) > 2 else None


def say(language: Language, key: str, **values: object) -> str:
    """Return a text with its values."""
    return _TEXTS[language][key].format(**values)
