"""Labels of Kubernetes nodes: the lookup reads every one of them back as the card it stands for."""

from importlib.resources import files

from fitgauge.catalog import node_labels
from fitgauge.catalog.catalog import bundled


def test_every_label_is_understood_as_its_card():
    for accelerator_id, (key, value) in node_labels.load().items():
        assert bundled().find(value).accelerator.id == accelerator_id
        assert bundled().find(f"{key}={value}").accelerator.id == accelerator_id


def test_every_label_has_a_source():
    lines = (
        files("fitgauge.catalog").joinpath("data/node_labels.tsv").read_text("utf-8").splitlines()
    )
    assert all(
        len(line.split("\t")) == 4 and line.split("\t")[3]
        for line in lines
        if not line.startswith("#")
    )
