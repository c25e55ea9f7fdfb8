"""The grammar: every row of tokens parses, every text is read, in time linear in its length."""

from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counted_calls import calls
from fitgauge.catalog.catalog import bundled
from fitgauge.catalog.snapshot import Snapshot
from fitgauge.services.ask.grammar import _parser, facts
from fitgauge.services.ask.names import GpuNames, ModelNames
from fitgauge.services.ask.reading import Reader
from fitgauge.services.ask.scan import Token

READER = Reader(GpuNames(bundled()), ModelNames(Snapshot()))
VALUES = {"NUM": 3.0, "SIZE": 24.0, "COUNT": 2, "MACHINES": 2, "GPU": "4090", "PARAMS": "7b"}
_TEXT = (
    "4090 2x 8* a100 80g h100 qwen3 32b llama 3.1 awq context 32k users 8 batch size lora full"
    " 微调 显存 张 两 , . ? $ per hour tp kv cache fp8 ram gpu model deepseek v3 token mac m3 max"
    " 并发 1e9 m q4_k_m x * ( ) : / - of the train vllm 上下文 모델 2台 g5.12xlarge org/name-7b"
)
WORDS = _TEXT.split()


TERMINALS = {symbol.name for rule in _parser().rules for symbol in rule.expansion if symbol.is_term}


@given(st.lists(st.sampled_from(sorted(TERMINALS)), max_size=20))
def test_every_row_of_tokens_parses(kinds):
    tokens = [
        Token(kind, VALUES.get(kind, kind.lower()), kind, at, at + 1, 0)
        for at, kind in enumerate(kinds)
    ]
    places = [fact.start for fact in facts(tokens)]
    assert places == sorted(places)


@settings(deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=60).map(" ".join))
def test_every_row_of_words_is_read(text):
    understood = READER.read(text).understood
    assert understood.gpu is None or bundled().find_unlike(understood.gpu)
    assert understood.model is None or understood.models is None


@settings(deadline=None)
@given(st.text(max_size=300))
def test_every_text_is_read(text):
    READER.read(text)


@pytest.mark.parametrize(
    "piece",
    [
        "4090 ", "qwen-", "8x", "7b a100-", "((((", "which ", "微调", "9", "a.", "x/a ", "2 ",
        "2x ", "vllm serve ", "vllm serve -a\n", "/vllm-openai",
    ],
)  # fmt: skip
def test_work_grows_with_length_and_not_faster(piece):
    text = piece * 8000
    READER.read(text[:8000])  # fills the caches of names
    once, twice = (calls(partial(READER.read, text[:length])) for length in (4000, 8000))
    assert twice <= 2.5 * once
