"""Messages of msgspec in words."""

from typing import Annotated, Literal

import msgspec
import pytest
from msgspec import Meta

from fitgauge.refused_values import in_words

Small = Annotated[int, Meta(ge=1, le=9)]
Name = Annotated[str, Meta(min_length=1, max_length=4)]


@pytest.mark.parametrize(
    ("value", "kind", "sentence"),
    [
        (0, Small, "`n` must be at least 1"),
        (10, Small, "`n` must be at most 9"),
        (0.0, Annotated[float, Meta(gt=0)], "`n` must be more than 0.0"),
        ("", Name, "`n` is empty"),
        ("abcde", Name, "`n` must be at most 4 long"),
        ("8", int, "`n` must be a whole number, not text"),
        ([], str | None, "`n` must be text or null, not a list"),
        ("c", Literal["a", "b"], "`n` cannot be 'c'"),
    ],
    ids=str,
)
def test_what_is_wrong_with_a_value_is_a_sentence(value, kind, sentence):
    with pytest.raises(msgspec.ValidationError) as error:
        msgspec.convert(value, kind)
    assert in_words(str(error.value), "`n`") == sentence


def test_any_other_message_stays():
    assert in_words("Object missing required field `a`", "`n`").startswith("Object missing")
