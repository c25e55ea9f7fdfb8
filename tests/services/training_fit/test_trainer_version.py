"""Defaults of a training tool that its releases changed: those of the release that is named."""

import pytest
from msgspec import convert

from fitgauge.errors import InvalidRequestError
from fitgauge.services.training_fit.launchers.tool import Change, Default
from fitgauge.services.training_fit.schemas import TrainingRequest

LLAMA = "meta-llama/Llama-3.1-8B"
TITAN = {
    "model": LLAMA,
    "method": "full",
    "gpu": "8x H100 80GB",
    "trainer": "torchtitan",
    "sequence_length": 8192,
    "activation_checkpointing": "selective",
    "compile": True,
}
TUNE = {"model": LLAMA, "method": "lora", "gpu": "RTX A6000", "trainer": "torchtune"}


def test_a_change_came_after_earlier_releases_and_earlier_days():
    change = Change((2024, 8, 28), (0, 3))
    for earlier in ("0.2.1", "v0.2", "2024-08", "2024-08-27", "2024.5"):
        assert change.came_after(earlier), earlier
    for later in ("0.3", "0.3.0", "0.6.1", "v1.0", "2024-08-28", "2024.9", "2026.2.1"):
        assert not change.came_after(later), later


def test_a_number_that_no_release_has_is_from_after_every_change():
    assert not Change((2026, 2, 9)).came_after("0.4.1")


def test_a_default_lasts_from_its_first_change_to_its_last():
    lasts = Default("loss", "full", "", since=Change((2024, 1, 1)), until=Change((2025, 1, 1)))
    assert [lasts.is_of(f"{year}-06-01") for year in (2023, 2024, 2025)] == [False, True, False]


def test_torchtune_took_the_loss_of_whole_logits_and_narrow_adapters_in_2024(train):
    for version, loss, targets in (
        ("0.2", "full", "q_proj,v_proj"),
        ("0.3", "chunked", "q_proj,v_proj"),
        ("2024-10", "chunked", "q_proj,v_proj"),
        ("0.4", "chunked", "q_proj,v_proj,o_proj,gate_proj,up_proj,down_proj"),
    ):
        echoed = train(**TUNE, trainer_version=version).understood_as
        assert (echoed["loss"], echoed["lora_targets"]) == (loss, targets), version
        assert echoed["trainer_version"] == version


def test_what_a_request_sends_stands_above_what_its_release_takes(train):
    sent = train(**TUNE, trainer_version="0.2", loss="chunked", lora_targets="all_linear")
    assert sent.understood_as["loss"] == "chunked"
    assert sent.understood_as["lora_targets"] == "all_linear"


def test_torchtitan_compiled_layers_alone_until_spring_2025(train):
    """47.65 GiB were printed in March 2025 on eight H100 (pytorch/torchtitan#929)."""
    then, now = (train(**TITAN, trainer_version=date) for date in ("2025-03-07", "2025-08"))
    assert then.per_gpu.reserved_bytes.expected / 2**30 == pytest.approx(47.65, rel=0.01)
    assert now.per_gpu.reserved_bytes.expected / 2**30 == pytest.approx(38.3, rel=0.01)


def test_a_release_that_is_named_leaves_no_other_within_the_interval(train):
    unnamed = train(**TITAN).per_gpu.allocated_bytes
    for date in ("2025-08", "2026-06"):
        named = train(**TITAN, trainer_version=date).per_gpu.allocated_bytes
        assert unnamed.low <= named.low
        assert named.high < unnamed.high, date


def test_an_answer_says_which_release_its_defaults_are_of(train):
    answer = train(**TUNE, trainer_version="0.3")
    said = {one.field: one.message for one in answer.assumed}
    assert said["lora_rank"].endswith("as torchtune 0.3")
    (warned,) = [one for one in answer.warnings if one.code == "command-of-another-release"]
    assert "the command is of 0.7" in warned.message


def test_a_version_without_a_trainer_is_refused(train, plan):
    for ask in (train, plan):
        with pytest.raises(InvalidRequestError, match="of a trainer") as error:
            ask(model=LLAMA, gpu="RTX A6000", method="lora", trainer_version="0.3")
        assert error.value.field == "trainer_version"


def test_a_plan_takes_the_releases_of_its_tool_and_of_transformers(plan):
    asked = {"model": LLAMA, "gpu": "A100 80GB", "gpu_count": 8, "method": "lora"}
    tune = {"framework": "torchtune", "trainer_version": "0.3"}
    settings = plan(**asked, **tune).plans[0].settings
    assert settings["lora_targets"] == "q_proj,v_proj"
    assert (settings["trainer"], settings["trainer_version"]) == ("torchtune", "0.3")
    older = plan(**asked, framework="fsdp", transformers_version="4.45", loss="full")
    assert older.plans[0].settings["transformers_version"] == "4.45"


@pytest.mark.parametrize("tool", ["trl", "axolotl", "llama-factory", "ms-swift", "torchtune"])
def test_the_settings_of_a_plan_get_the_same_answer_from_training_fit(train, plan, tool):
    """A base that the tool loads whole is loaded whole there too."""
    asked = {"model": LLAMA, "gpu": "RTX 4090", "gpu_count": 2, "method": "qlora"}
    for planned in plan(**asked, framework=tool).plans[:2]:
        again = train(**vars_of(planned.settings)).per_gpu
        assert again.required_bytes.expected == planned.required_bytes.expected, planned.layout


def vars_of(settings):
    """Return the fields of a request as JSON has them."""
    request = convert(settings, TrainingRequest)
    return {name: getattr(request, name) for name in request.__struct_fields__}
