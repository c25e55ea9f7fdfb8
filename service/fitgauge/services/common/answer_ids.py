"""Permalinks: a question as a short text that stands in a URL.

An id is the question itself, so every replica can answer it and nothing is stored: operation and
request as canonical JSON (fields in order, those left out left out), deflated with a dictionary of
common words, in the base64 of URLs. It is readable by whoever has it, not encrypted.
"""

import base64
import binascii
import re
import zlib
from collections.abc import Mapping

import msgspec

from fitgauge.errors import UnknownAnswerError

LONGEST_ID = 2_000
"""Characters. Longer links break in chat programs and mail."""

_LARGEST_QUESTION = 16_384
"""Of a question as JSON [bytes]; an id that inflates to more is refused while it inflates."""

_VERSION = "1"
"""Names the dictionary and the layout below. Ids are links in tickets and chats: what reads a
version never changes."""

_RAW_DEFLATE = -15
_WORDS = (
    b'["plan_training",{"compare_fit","concurrencies":"list_models_that_fit","recommend_gpus",'
    b'"explain_utilization","tokens_per_second":"micro_batch_size":"sequence_length":2048,'
    b'"method":"qlora","training","serving","objective":"cheapest","engines":"quantizations":'
    b'"detail":"full","limit":20,"offset":"engine":"vllm","sglang","llama.cpp","kv_cache_dtype":'
    b'"fp8","quantization":"q4_k_m","awq","settings":"defaults","max_num_seqs":'
    b'"gpu_memory_utilization":0.9,"tensor_parallel":"task":"context_lengths":'
    b'"concurrency":8,"context_length":32768,"gpus":["RTX 4090","H100","A100 80GB"],'
    b'"gpu_count":"models":["meta-llama/Llama-3.3-70B-Instruct","Qwen/Qwen3-32B"],'
    b'"check_training_fit","check_fit",{"gpu":"RTX 4090","model":"Qwen/Qwen3-8B"}]'
)
_CHARACTERS = re.compile(rf"{_VERSION}[A-Za-z0-9_-]{{1,{LONGEST_ID - 1}}}", re.ASCII)
_SECRET = re.compile(rb"hf_[A-Za-z0-9]{16,}|://[^/\s\"]*@")
"""A token of the Hub, or a name and password in a URL."""


def answer_id(operation: str, request: msgspec.Struct) -> str | None:
    """Return the id of a question; None where it is too long for a link or holds a secret."""
    fields = msgspec.to_builtins(request)
    sent = {name: fields[name] for name in sorted(fields) if fields[name] is not None}
    question = msgspec.json.encode([operation, sent])
    if len(question) > _LARGEST_QUESTION or _SECRET.search(question):
        return None
    deflate = zlib.compressobj(9, zlib.DEFLATED, _RAW_DEFLATE, zdict=_WORDS)
    packed = deflate.compress(question) + deflate.flush()
    text = _VERSION + base64.urlsafe_b64encode(packed).decode().rstrip("=")
    return text if len(text) <= LONGEST_ID else None


def read_answer_id(
    text: str, requests: Mapping[str, type[msgspec.Struct]]
) -> tuple[str, msgspec.Struct]:
    """Return the operation and the request of an id. Raises UnknownAnswerError for any other
    text. requests: the request of each operation."""
    if not _CHARACTERS.fullmatch(text):
        raise _unknown()
    try:
        packed = base64.urlsafe_b64decode(text[1:] + "=" * (-len(text[1:]) % 4))
        inflate = zlib.decompressobj(_RAW_DEFLATE, zdict=_WORDS)
        question = inflate.decompress(packed, _LARGEST_QUESTION)
        if not inflate.eof or inflate.unused_data:
            raise _unknown()
        operation, fields = msgspec.json.decode(question, type=tuple[str, msgspec.Raw])
        return operation, msgspec.json.decode(fields, type=requests[operation])
    except (
        binascii.Error,
        zlib.error,
        msgspec.MsgspecError,
        UnicodeError,
        RecursionError,
        KeyError,
    ):
        raise _unknown() from None


def _unknown() -> UnknownAnswerError:
    return UnknownAnswerError(
        "This is not the id of an answer.",
        hint="Send the `answer_id` of an answer as it stands, whole.",
        field="answer_id",
    )
