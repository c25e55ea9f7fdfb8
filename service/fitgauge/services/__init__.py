"""The questions Fitgauge answers: each takes a request of the contract and gives an answer of
the contract."""

from fitgauge.services.facade import CacheDependencies, Services

__all__ = ["CacheDependencies", "Services"]
