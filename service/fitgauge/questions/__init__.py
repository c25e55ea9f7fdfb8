"""The questions Fitgauge answers: each takes a request of the contract and gives an answer of the contract."""

from fitgauge.questions.ask import Basis, Questions

__all__ = ["Basis", "Questions"]
