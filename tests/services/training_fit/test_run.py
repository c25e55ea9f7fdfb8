"""Time and cost of a whole run, from its samples or their lengths."""

import pytest

from arithmetic import value_of
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.services.training_fit.lengths import sequences_of
from notes import codes

ASKED = {"model": "Qwen/Qwen3-8B", "gpu": "A100 80GB", "method": "lora", "sequence_length": 2048}
LENGTHS = {"100": 900, "1000": 90, "4000": 10}


def test_samples_and_epochs_make_tokens_steps_time_and_cost(train):
    run = train(samples=10_000, epochs=3, micro_batch_size=2, micro_batches=4).run
    assert run.tokens == run.computed_tokens == 3 * 10_000 * 2048
    assert run.steps == 3 * 10_000 / 8
    assert run.seconds.low < run.seconds.expected < run.seconds.high
    assert run.gpu_hours.expected == pytest.approx(run.seconds.expected / 3600)
    assert run.tokens_per_second.expected == pytest.approx(run.tokens / run.seconds.expected)
    assert run.usd.low < run.usd.expected < run.usd.high
    assert run.basis == "calibrated"


def test_the_formula_gives_the_expected_seconds(train):
    for fields in ({"samples": 777}, {"samples": 777, "method": "qlora"}, {"token_budget": 1e9},
                   {"samples": 10, "mfu": 0.4}):  # fmt: skip
        run = train(**fields).run
        assert value_of(run.formula) == pytest.approx(run.seconds.expected, rel=1e-5)


def test_a_token_budget_is_as_many_sequences(train):
    budget, samples = train(token_budget=2048e6).run, train(samples=1_000_000).run
    assert budget.seconds == samples.seconds
    assert budget.tokens == samples.tokens


def test_a_measured_mfu_is_taken_as_it_is(train):
    run = train(samples=1000, mfu=0.4).run
    assert run.mfu.expected == pytest.approx(0.4)
    assert run.seconds.low == run.seconds.high
    assert run.basis == "assumed"


def test_a_price_that_is_sent_is_taken_for_every_gpu(train):
    run = train(samples=1000, price_per_gpu_hour=2, gpu_count=8).run
    assert run.gpu_hours.expected == pytest.approx(8 * run.seconds.expected / 3600)
    assert run.usd.expected == pytest.approx(2 * run.gpu_hours.expected)
    assert run.prices_as_of is None


def test_eight_gpus_take_an_eighth_of_the_steps(train):
    one, eight = train(samples=8000).run, train(samples=8000, gpu_count=8).run
    assert eight.steps * 8 == one.steps
    assert eight.seconds.expected == pytest.approx(one.seconds.expected / 8)


def test_lengths_stand_for_samples_and_for_the_lengths_of_sequences(train):
    answer = train(lengths=LENGTHS, sequence_length=None)
    assert answer.understood_as["sequence_length"] == 4000
    assert answer.understood_as["mean_sequence_length"] == 220
    assert answer.run.tokens == 900 * 100 + 90 * 1000 + 10 * 4000
    assert answer.run.steps == 1000


def test_longer_samples_are_cut_to_a_length_that_is_sent(train):
    answer = train(lengths=LENGTHS, sequence_length=1000)
    assert answer.understood_as["sequence_length"] == 1000
    assert answer.run.tokens == 900 * 100 + 100 * 1000


def test_samples_beside_lengths_are_as_many_of_those_lengths(train):
    few, many = train(lengths=LENGTHS).run, train(lengths=LENGTHS, samples=10_000).run
    assert many.tokens == 10 * few.tokens


def test_a_padded_micro_batch_is_as_long_as_its_longest_sample():
    """Of two of 100 or 300 tokens, alike often, three pairs of four are 300 long."""
    workload = TrainingWorkload(sequence_length=300, micro_batch_size=2, padded=True)
    sequences = sequences_of({100: 5, 300: 5}, workload)
    assert sequences.length == pytest.approx(0.75 * 300 + 0.25 * 100)
    assert sequences.attended == pytest.approx((0.75 * 300**2 + 0.25 * 100**2) / sequences.length)


def test_padding_is_computed_and_not_counted_as_tokens(train):
    run = train(lengths=LENGTHS, micro_batch_size=4).run
    assert run.computed_tokens > 2 * run.tokens


@pytest.mark.parametrize(
    "fields",
    [{"algorithm": "grpo", "gpu": "8xH200"}, {"precision": "fp32", "gpu": "B300"}],
    ids=str,
)
def test_runs_like_which_none_is_published_have_no_time(train, fields):
    answer = train(samples=1000, **fields)
    assert not hasattr(answer.run, "seconds")
    assert ("run-not-estimated", "token_budget") in codes(answer.warnings)


def test_what_does_not_fit_and_what_is_not_asked_have_no_run(train):
    for fields in ({}, {"samples": 10, "method": "full", "gpu": "RTX 4060"}):
        assert not hasattr(train(**fields).run, "seconds")


def test_checkpoints_that_stay_and_one_more_are_on_disk_at_once(train):
    disk = train(samples=10_000, save_total_limit=2).disk
    assert disk.checkpoint_bytes == sum(file.bytes for file in disk.files)
    assert disk.written == 20
    assert disk.total_bytes == 3 * disk.checkpoint_bytes


def test_all_checkpoints_stay_without_a_limit(train):
    disk = train(samples=10_000, save_steps=1000).disk
    assert disk.total_bytes == 10 * disk.checkpoint_bytes


def test_a_short_run_writes_one_checkpoint(train):
    disk = train(samples=10, save_total_limit=5).disk
    assert disk.written == 1
    assert disk.total_bytes == disk.checkpoint_bytes


def test_disk_without_data_counts_the_limit_alone(train):
    disk = train(save_total_limit=4).disk
    assert disk.written is None
    assert disk.total_bytes == 5 * disk.checkpoint_bytes
    assert train(save_steps=10).disk.total_bytes is None


def test_an_interval_that_no_source_states_leaves_the_number_open(train):
    disk = train(samples=1000, trainer="verl").disk
    assert disk.written is None


def test_an_amount_of_money_is_said_as_exactly_as_it_is_known(train):
    run = train(token_budget=10**12, gpu="64x H100", method="full")
    said = run.summary.partition(" and $")[2].split()[0]
    assert said == f"{float(f'{run.run.usd.expected:.3g}'):,.0f}"
