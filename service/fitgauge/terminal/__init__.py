"""Answers as a person reads them in a terminal: the picture before the table."""

from fitgauge.terminal.answers import show_fit, show_training
from fitgauge.terminal.ask import show_ask
from fitgauge.terminal.fleet import show_drift, show_fleet
from fitgauge.terminal.gpus import show_gpu, show_gpus, show_machine
from fitgauge.terminal.logs import show_ledger, show_utilization
from fitgauge.terminal.manifests import show_manifests
from fitgauge.terminal.tables import (
    show_comparison,
    show_models_for_gpu,
    show_plans,
    show_recommendations,
)
from fitgauge.terminal.truth import show_gaps

__all__ = [
    "show_ask",
    "show_comparison",
    "show_drift",
    "show_fit",
    "show_fleet",
    "show_gaps",
    "show_gpu",
    "show_gpus",
    "show_ledger",
    "show_machine",
    "show_manifests",
    "show_models_for_gpu",
    "show_plans",
    "show_recommendations",
    "show_training",
    "show_utilization",
]
