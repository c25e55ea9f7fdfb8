"""The answer to a question in plain words, in the terminal."""

import sys
from collections.abc import Callable
from typing import Any

import click
import msgspec

from fitgauge.console import echo_error, plain
from fitgauge.services.ask.schemas import AskAnswer
from fitgauge.services.common.fit_schemas import FitAnswer
from fitgauge.services.compare.schemas import CompareAnswer
from fitgauge.services.explain_log.schemas import LogAnswer
from fitgauge.services.models_for_gpu.schemas import ModelsForGpuAnswer
from fitgauge.services.recommend.schemas import RecommendAnswer
from fitgauge.services.training_fit.schemas import TrainingAnswer
from fitgauge.services.training_plan.schemas import TrainingPlanAnswer
from fitgauge.terminal.answers import show_fit, show_training
from fitgauge.terminal.logs import show_ledger
from fitgauge.terminal.tables import (
    show_comparison,
    show_models_for_gpu,
    show_plans,
    show_recommendations,
)

_VIEWS: dict[str, tuple[type, Callable[[Any], None]]] = {
    "check_fit": (FitAnswer, show_fit),
    "check_training_fit": (TrainingAnswer, show_training),
    "recommend_gpus": (RecommendAnswer, show_recommendations),
    "list_models_that_fit": (ModelsForGpuAnswer, show_models_for_gpu),
    "compare_fit": (CompareAnswer, show_comparison),
    "plan_training": (TrainingPlanAnswer, show_plans),
    "explain_log": (LogAnswer, show_ledger),
}
"""The answer type of each operation, and what prints it."""


def show_ask(answer: AskAnswer) -> None:
    """Print what was understood, what is missing, and the answer."""
    understood = msgspec.to_builtins(answer.understood)
    if understood:
        fields = ", ".join(f"{name} {value}" for name, value in understood.items())
        click.echo(plain(f"Understood: {fields}", sys.stdout.encoding))
    if answer.operation is None:
        echo_error("This is no question about GPU memory.")
    unread = answer.not_understood if answer.answer is None else []  # else the summary says it
    for line in (*answer.missing, *(f"Not read: {text}" for text in unread)):
        echo_error(line)
    if answer.operation is not None and answer.answer is not None:
        kind, show = _VIEWS[answer.operation]
        for one in answer.answers or [answer.answer]:
            show(msgspec.convert(one, kind))
    if answer.launch:
        click.echo(f"\n{answer.launch.command}")
