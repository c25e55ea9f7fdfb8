"""Readers of families: every module's are in its folder's, and none is read twice."""

import importlib
import pkgutil

import pytest

from fitgauge.engine.model import families
from fitgauge.engine.model.families import dense, encoder, mixture, recurrent


@pytest.mark.parametrize("folder", [dense, encoder, mixture, recurrent])
def test_a_folder_names_the_readers_of_all_its_modules_once(folder):
    modules = [
        importlib.import_module(f"{folder.__name__}.{module.name}")
        for module in pkgutil.iter_modules(folder.__path__)
    ]
    named = [name for module in modules for name in getattr(module, "READERS", ())]
    assert sorted(named) == sorted(folder.READERS)


def test_no_model_type_has_a_reader_in_two_folders():
    named = [name for folder in (dense, encoder, mixture, recurrent) for name in folder.READERS]
    assert len(named) == len(set(named))
    assert set(named) <= families.READERS.keys()
