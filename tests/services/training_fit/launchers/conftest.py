"""Commands of trainings."""

import pytest


@pytest.fixture(scope="module")
def command(train):
    """Provide the command of a question given by its fields, on top of the module's ASKED."""
    return lambda **fields: train(**fields).launch.command
