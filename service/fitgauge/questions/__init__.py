"""The questions Fitgauge answers: each takes a request of the contract and gives an answer of the contract."""

from fitgauge.questions.ask import Grounds, Questions

__all__ = ["Grounds", "Questions"]
