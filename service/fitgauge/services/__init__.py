"""The questions Fitgauge answers: each takes a request of the contract and gives an answer of
the contract."""

from fitgauge.services.facade import Services
from fitgauge.services.serving_questions import CacheDependencies

__all__ = ["CacheDependencies", "Services"]
