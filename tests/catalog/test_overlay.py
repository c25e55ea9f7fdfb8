"""A company's own catalog: what it may change, and that one bad row refuses it whole, with file,
row and field."""

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from fitgauge.catalog.catalog import bundled
from fitgauge.catalog.overlay import overlay
from fitgauge.catalog.overlay_file import LARGEST, parse, schema
from fitgauge.errors import InvalidCatalogError, UnknownAcceleratorError

ROOT = Path(__file__).parents[2]
CARD = {
    "id": "lab-x1",
    "name": "Lab X1",
    "vendor": "nvidia",
    "marketed_bytes": 48 * 10**9,
    "usable": 47 * 10**9,
}


def laid(*files):
    """Return the catalog under files of these contents."""
    return overlay(
        bundled(),
        [
            (f"{number}.json", parse(f"{number}.json", json.dumps(one).encode()))
            for number, one in enumerate(files)
        ],
    )


def refusal(*files):
    with pytest.raises(InvalidCatalogError) as refused:
        laid(*files)
    assert refused.value.hint
    return refused.value.detail


def test_an_empty_file_changes_nothing():
    own = laid({})
    assert own.all() == bundled().all()
    assert own.offers.all() == bundled().offers.all()
    assert own.find("2x4090") == bundled().find("2x4090")


def test_a_new_card_is_found_by_its_id_and_name_and_what_is_unknown_is_null():
    found = laid({"accelerators": [CARD]}).find("4x lab x1")
    assert (found.accelerator.id, found.count) == ("lab-x1", 4)
    assert found.accelerator.vendor == "NVIDIA"
    assert found.accelerator.bandwidth_gbps is None
    assert found.accelerator.usable.low == found.accelerator.usable.high == 47 * 10**9
    assert ("usable", "0.json: accelerators, row 1 (lab-x1)") in [
        (source.of, source.text) for source in found.accelerator.sources
    ]


def test_a_row_of_ours_changes_what_it_gives_and_nothing_else():
    ours = bundled().find("h100").accelerator
    changed = laid({"accelerators": [{"id": "h100-sxm-80gb", "usable": 84 * 10**9}]}).find("h100")
    assert changed.accelerator.usable.expected == 84 * 10**9
    assert changed.accelerator.bandwidth_gbps == ours.bandwidth_gbps
    assert {source.text for source in changed.accelerator.sources if source.of == "usable"} == {
        "0.json: accelerators, row 1 (h100-sxm-80gb)"
    }


def test_a_fact_of_ours_can_be_made_unknown():
    assert (
        laid({"accelerators": [{"id": "h100-sxm-80gb", "bandwidth_gbps": None}]})
        .find("h100")
        .accelerator.bandwidth_gbps
        is None
    )


def test_a_name_means_its_card_and_count_before_anything_else():
    own = laid(
        {
            "names": {"ML-Large": "4x L40S", "h100": "H100 PCIe", "lab": "lab-x1"},
            "accelerators": [CARD],
        }
    )
    assert (own.find("2x ml-large").accelerator.id, own.find("2x ml-large").count) == (
        "l40s-48gb",
        8,
    )
    assert own.find("h100").accelerator.id == "h100-pcie-80gb"
    assert own.find("lab").accelerator.name == "Lab X1"


def test_a_quota_is_told_of_its_card_alone():
    own = laid({"names": {"small": "L4"}, "quotas": {"small": 2}})
    assert (own.find("L4").quota, own.find("L40S").quota) == (2, None)


def test_a_price_stands_in_the_place_of_what_clouds_ask():
    own = laid({"as_of": "2026-11-01", "prices": {"H100 SXM": 2.5}})
    price = own.offers.price("h100-sxm-80gb", 3)
    assert (price.usd_per_hour_low, price.usd_per_hour_high, price.clouds, price.as_of) == (
        7.5,
        7.5,
        ("own",),
        "2026-11-01",
    )
    assert own.offers.price("l4-24gb", 1) == bundled().offers.price("l4-24gb", 1)


def test_a_machine_is_added_or_replaces_ours_of_the_same_cloud_and_name():
    ours = bundled().offers.named("p5.48xlarge")[0]
    rows = [
        {
            "cloud": "own",
            "instance": "rack-7",
            "accelerator": "lab-x1",
            "count": 8,
            "usd_per_hour": 4,
        },
        {
            "cloud": "AWS",
            "instance": ours.instance,
            "accelerator": ours.accelerator_id,
            "count": 8,
            "usd_per_hour": 1.5,
        },
    ]
    own = laid({"as_of": "2026-11-01", "accelerators": [CARD], "instances": rows})
    assert own.offers.price("lab-x1", 16).usd_per_hour_low == 8
    assert [
        offer.usd_per_hour_low for offer in own.offers.named(ours.instance) if offer.cloud == "aws"
    ] == [1.5]
    assert (own.find("rack-7").accelerator.id, own.find("rack-7").count) == ("lab-x1", 8)


def test_only_hides_every_card_without_a_row():
    own = laid({"only": True, "accelerators": [CARD, {"id": "l40s-48gb"}]})
    assert [row.id for row in own.all()] == ["l40s-48gb", "lab-x1"]
    assert own.find("l40s").accelerator == bundled().find("l40s").accelerator
    assert {offer.accelerator_id for offer in own.offers.all()} == {"l40s-48gb"}
    with pytest.raises(UnknownAcceleratorError):
        own.find("h100")


def test_files_of_a_folder_are_one_catalog():
    own = laid({"accelerators": [CARD]}, {"names": {"lab": "lab-x1"}, "quotas": {"lab-x1": 4}})
    assert own.find("2x lab").quota == 4


def test_a_typo_is_told_with_its_line_and_what_it_may_mean():
    row = '[[accelerators]]\nid = "lab-x{}"\nname = "X"\nvendor = "NVIDIA"\n'
    sizes = "marketed_bytes = 48_000_000_000  # vendr\nusable = 47_000_000_000\n"
    first, second = row.format(1) + sizes, row.format(2) + sizes
    for text, told in (
        (first + second.replace("vendor", "vendr"), "line 10: accelerators, row 2 (lab-x2): "),
        (first + "[prices]\nh200 = '2.10'\n", "line 8: prices, 'h200': it must be a number"),
        (first.replace("accelerators", "accelerator"), "line 1: unknown field `accelerator`."),
    ):
        with pytest.raises(InvalidCatalogError) as refusal:
            parse("own.toml", text.encode())
        assert refusal.value.detail.startswith(f"own.toml, {told}")
        assert ("Did you mean `" in refusal.value.detail) == ("unknown" in refusal.value.detail)


@pytest.mark.parametrize(
    "contents, told",
    [
        ({"cards": []}, "0.json, line 1: unknown field `cards`."),
        ({"only": "yes"}, "0.json, line 1: `only` must be true or false, not text."),
        (
            {"accelerators": [CARD, {**CARD, "id": "lab-x2", "marketed_bytes": "48GB"}]},
            "accelerators, row 2 (lab-x2): `marketed_bytes` must be a whole number, not text.",
        ),
        (
            {"accelerators": [{**CARD, "vram": 1}]},
            "accelerators, row 1 (lab-x1): unknown field `vram`.",
        ),
        ({"accelerators": [{"name": "X"}]}, "accelerators, row 1: `id` is missing."),
        (
            {"accelerators": [{"id": "H 100"}]},
            "accelerators, row 1 (H 100): `id`: Expected `str` matching regex",
        ),
        (
            {"accelerators": [{"id": "h101", "usable": 1}]},
            "accelerators, row 1 (h101): Object missing required field `name`.",
        ),
        (
            {"accelerators": [CARD, CARD]},
            "accelerators, row 2 (lab-x1): id: duplicate of another row.",
        ),
        (
            {"accelerators": [{**CARD, "usable": -1}]},
            "accelerators, row 1 (lab-x1): usable.low: -1 is out of range.",
        ),
        (
            {"accelerators": [{**CARD, "usable": 0}]},
            "accelerators, row 1 (lab-x1): usable.low: 0 bytes.",
        ),
        (
            {"accelerators": [{**CARD, "usable": {"low": 3, "expected": 2, "high": 4}}]},
            "usable: low, expected and high must ascend.",
        ),
        (
            {"accelerators": [{**CARD, "bandwidth_gbps": 1e300}]},
            "accelerators, row 1 (lab-x1): bandwidth_gbps: 1e+300 is out of range.",
        ),
        (
            {"accelerators": [{**CARD, "name": ""}]},
            "accelerators, row 1 (lab-x1): name: a text of 0 characters.",
        ),
        (
            {"accelerators": [{**CARD, "name": "x" * 600}]},
            "accelerators, row 1 (lab-x1): name: a text of 600 characters.",
        ),
        (
            {"accelerators": [{**CARD, "sources": [["usable"]]}]},
            "accelerators, row 1 (lab-x1): `sources[0]`",
        ),
        ({"accelerators": 7}, "0.json, line 1: `accelerators` must be a list, not a whole number."),
        ({"only": True}, "only: true needs at least one row of accelerators."),
        ({"names": {"big": "RTX 9999"}}, "names, 'big': Unknown accelerator 'rtx 9999'."),
        ({"names": {"big": "a100"}}, "names, 'big': 'a100' is ambiguous: "),
        ({"names": {"big": "big"}}, "names, 'big': Unknown accelerator 'big'."),
        ({"names": {"big": 4}}, "names, 'big': it must be text, not a whole number."),
        ({"names": {" Big": "L4", "big ": "L4"}}, "names, 'big ': named twice."),
        ({"names": {"\u202e": "L4"}}, "names, '\\u202e': The name contains control characters."),
        ({"quotas": {"L4": -1}}, "quotas, 'L4': it must be at least 0."),
        ({"quotas": {"L4": 1.5}}, "quotas, 'L4': it must be a whole number, not a number."),
        ({"quotas": {"L4": 2, "l4-24gb": 3}}, "quotas, 'l4-24gb': L4 has a quota already."),
        ({"quotas": {"2x L4": 3}}, "quotas, '2x L4': '2x L4' means 2 GPUs."),
        ({"quotas": {"24GB": 3}}, "quotas, '24GB': '24GB' is ambiguous: "),
        ({"prices": {"L4": 0.5}}, "prices, 'L4': the price has no date."),
        ({"as_of": "soon", "prices": {"L4": 0.5}}, "0.json, line 1: `as_of`: "),
        (
            {"as_of": "2026-11-01", "prices": {"L4": "cheap"}},
            "prices, 'L4': it must be a number, not text.",
        ),
        ({"as_of": "2026-11-01", "prices": {"L4": -0.5}}, "prices, 'L4': it must be at least 0.0."),
        (
            {"instances": [{"cloud": "own", "instance": "rack", "accelerator": "L4"}]},
            "instances, row 1 (rack): `",
        ),
        (
            {"instances": [{"cloud": "own", "instance": "rack", "accelerator": "L4", "count": 0}]},
            "instances, row 1 (rack): `count` must be ",
        ),
        (
            {"instances": [{"cloud": "own", "instance": "rack", "accelerator": "H1", "count": 1}]},
            "instances, row 1 (rack): Unknown accelerator",
        ),
        (
            {"instances": [{"cloud": "own", "instance": "r", "accelerator": "L4", "count": 1}] * 2},
            "instances, row 2 (r): own has another",
        ),
        (
            {"names": {str(number): "L4" for number in range(2001)}},
            "0.json, line 1: `names` must be at most 2000 long.",
        ),
    ],
)
def test_a_bad_row_refuses_the_catalog_with_file_row_and_field(contents, told):
    detail = refusal(contents)
    assert detail.startswith(("0.json: ", "0.json, line 1: "))
    assert told in detail


@pytest.mark.parametrize(
    "name, raw, told",
    [
        ("a.toml", b"only = maybe", "Invalid value (at line 1, column 8)"),
        ("a.toml", b"[quotas]\nL4 = 1\nL4 = 2\n", "Cannot overwrite a value (at line 3"),
        ("a.toml", b"x = " + b"[" * 5000, "nested too deeply"),
        ("a.toml", b"\xff", "utf-8"),
        ("a.json", b'{"quotas": {"L4": 1, "L4": 2}}', "a key is repeated in one object"),
        ("a.json", b"[" * 100000, "nested too deeply"),
        ("a.json", b"[]", "the top level is not an object"),
        ("a.json", b"{", "line 1 column 2"),
        ("a.json", b" " * (LARGEST + 1), f"more than {LARGEST} bytes"),
        ("a.json", b'{"quotas": {"L4": ' + b"9" * 5000 + b"}}", "Exceeds the limit"),
        ("a.json", b'{"prices": {"L4": NaN}}', "prices, 'L4'"),
        ("a.json", b'{"prices": {"L4": Infinity}}', "prices, 'L4'"),
    ],
)
def test_what_is_no_catalog_is_refused_in_words(name, raw, told):
    with pytest.raises(InvalidCatalogError) as refused:
        overlay(bundled(), [(name, parse(name, raw))])
    assert refused.value.detail.startswith((f"{name}: ", f"{name}, line 1: "))
    assert told in refused.value.detail


def test_the_example_of_the_documentation_is_sound_and_follows_the_schema():
    example = ROOT / "docs" / "own-catalog.toml"
    own = overlay(bundled(), [(example.name, parse(example.name, example.read_bytes()))])
    assert own.names
    assert own.quotas
    assert f"```toml\n{example.read_text('utf-8')}```" in (
        ROOT / "docs" / "own-catalog.md"
    ).read_text("utf-8")


def test_the_committed_schema_is_what_the_code_says():
    committed = json.loads((ROOT / "docs" / "own-catalog.schema.json").read_text("utf-8"))
    assert committed == schema(), "run: fitgauge catalog schema > docs/own-catalog.schema.json"
    validator = Draft202012Validator(committed)
    validator.validate(
        {
            "as_of": "2026-11-01",
            "accelerators": [CARD],
            "names": {"x": "L4"},
            "prices": {"L4": 1},
            "quotas": {"L4": 2},
        }
    )
    assert not validator.is_valid({"accelerators": [{**CARD, "vram": 1}]})
    assert not validator.is_valid({"quotas": {"L4": -1}})
