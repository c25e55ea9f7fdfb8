"""Calibrated numbers are what calibrate.py makes of the fit part, never typed by hand."""

from accuracy import calibrate, quantiles, truth, vllm_evidence


def test_calibrating_again_gives_the_committed_file() -> None:
    assert calibrate.calibrated() == calibrate.ENGINES.read_text()


def test_calibration_sees_the_fit_part_alone() -> None:
    shown = vllm_evidence.evidence(calibrate.fitted(), ((0, 4), (9, 9)), lambda run, found: 1.0)
    assert shown
    assert {one.run.part for one in shown} == {"fit"}


def test_no_run_of_the_check_part_can_move_a_coefficient(monkeypatch) -> None:
    fit_only = tuple(run for run in truth.runs() if run.part == "fit")
    monkeypatch.setattr(calibrate, "runs", lambda: fit_only)
    assert calibrate.calibrated() == calibrate.ENGINES.read_text()


def test_campaigns_weigh_the_same_however_many_logs_they_posted() -> None:
    many = [run for run in truth.runs() if "llm-d-planner" in run.campaign][:9]
    one = next(run for run in truth.runs() if "llm-d-planner" not in run.campaign)
    seen = [quantiles.Seen(run, 1.0) for run in many] + [quantiles.Seen(one, 3.0)]
    assert quantiles.quantile(seen, 0.5) == 2.0


def test_a_stray_value_does_not_move_the_median_or_the_interval() -> None:
    run = truth.runs()[0]
    steady = [quantiles.Seen(run, 9.5 + number / 100) for number in range(5)]
    otherwise = quantiles.derived(9.4, 9.5, 9.7, "")
    assert quantiles.coefficient(
        [*steady, quantiles.Seen(run, 3.8)], otherwise
    ) == quantiles.coefficient(steady, otherwise)
