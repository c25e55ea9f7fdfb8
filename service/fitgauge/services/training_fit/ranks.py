"""Pipeline stages of a training run as answers list them."""

from collections.abc import Iterable

from fitgauge.engine.quantity import Bytes
from fitgauge.engine.training.estimate import TrainingStage
from fitgauge.engine.training.odds import training_probability
from fitgauge.engine.training.profile import TrainingProfile
from fitgauge.services.common.ranks import brief_ranks, rank_answer
from fitgauge.services.common.schemas import RankAnswer


def training_rank_answers(
    stages: Iterable[TrainingStage], usable: Bytes, profile: TrainingProfile
) -> list[RankAnswer]:
    """Return every pipeline stage of a training run on GPUs with `usable` memory [bytes]."""
    return brief_ranks(
        [
            rank_answer(
                stage, stage.need, usable, training_probability(stage.demand, usable, profile)
            )
            for stage in stages
        ]
    )
