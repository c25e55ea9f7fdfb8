"""No answer is longer than what hosts of agents read, and pages miss nothing."""

import pytest

from live import client, serving

LONGEST = 100_000
"""Characters of an answer that hosts of agents still read."""

LISTS = [
    ("/v1/recommend", {"model": "Qwen/Qwen3-8B", "include": "all"}, "items"),
    ("/v1/recommend", {"model": "Qwen/Qwen3-8B", "task": "training"}, "training"),
    ("/v1/models-for-gpu", {"gpu": "8x B200"}, "items"),
    ("/v1/training-plan", {"model": "Qwen/Qwen3-8B", "gpu": "H100", "method": "any"}, "plans"),
]


@pytest.fixture(scope="module")
def offline(stand_in):
    with serving(stand_in) as url, client(url) as opened:
        opened.timeout = 120
        yield opened


@pytest.mark.parametrize("path, body, rows", LISTS, ids=range(len(LISTS)))
def test_pages_of_any_length_are_short_and_together_the_whole_list(offline, path, body, rows):
    most = 100 if path == "/v1/training-plan" else 1000
    number, offset = 0, 0
    while offset is not None:
        answer = offline.post(path, json={**body, "limit": most, "offset": offset})
        assert answer.status_code == 200, answer.text
        assert len(answer.text) <= LONGEST
        page = answer.json()
        number += len(page[rows])
        total, offset = page["total"], page["next_offset"]
        assert offset is None or offset == number
    assert number == total > 20
