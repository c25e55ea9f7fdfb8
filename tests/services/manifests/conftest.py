"""The answers to manifests."""

import asyncio

import pytest

from fitgauge.commands.manifests import manifest_checker
from fitgauge.services.manifests.service import Source


@pytest.fixture(scope="session")
def check(questions):
    """Return the answer to texts, or to files of data/."""

    def answer(*texts, **overrides):
        sources = [Source(f"{number}.yaml", text) for number, text in enumerate(texts)]
        return asyncio.run(manifest_checker(questions).check(sources, overrides))

    return answer
