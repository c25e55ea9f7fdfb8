"""The answers of recommend over the bundled catalog."""

import pytest

from bundled_models import offline_models
from fitgauge.catalog.catalog import bundled
from fitgauge.services.fit.checkpoints import Checkpoints
from fitgauge.services.recommend.schemas import RecommendRequest
from fitgauge.services.recommend.service import Recommender
from made_up import ENGINES, KNOWN
from whole_lists import whole_list


@pytest.fixture(scope="module")
def recommend():
    recommender = Recommender(ENGINES, bundled(), Checkpoints(offline_models()))
    asked = KNOWN["Qwen/Qwen3-32B"]
    return whole_list(
        lambda **fields: recommender.answer(
            RecommendRequest(model=asked.id, **{"context_length": 8192, **fields}), asked
        )
    )
