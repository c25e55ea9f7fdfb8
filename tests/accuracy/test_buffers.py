"""Buffers that engines of single machines printed, beside their estimates."""

from accuracy.buffers import Compared, compared, starts


def of(engine: str, *terms: str) -> list[Compared]:
    return [
        one for one in compared() if one.start.question["engine"] == engine and one.term in terms
    ]


def test_a_source_is_changed_for_or_kept_aside_as_a_whole() -> None:
    assert all(start.source for start in starts())
    parts = {(start.source, start.part) for start in starts()}
    assert len(parts) == len({source for source, _ in parts})


def test_caches_and_states_of_llama_cpp_are_those_that_it_printed() -> None:
    sizes = of("llama.cpp", "kv_cache", "state_cache")
    assert len(sizes) > 40
    assert all(abs(one.error) < 0.001 for one in sizes)


def test_compute_buffers_of_llama_cpp_lie_in_their_interval() -> None:
    buffers = of("llama.cpp", "activations")
    outside = {one.start.source for one in buffers if not one.is_within}
    # a printed 301 MiB beside logits of 304.75; experts in host memory in March and April 2026
    assert outside == {"public file 55953563577", "public file 54970614717"}


def test_totals_of_mlx_are_what_it_printed() -> None:
    assert all(abs(one.error) < 0.025 for one in of("mlx", "total"))
