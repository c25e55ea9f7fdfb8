"""The questions Fitgauge answers: each takes a request of the contract and gives an answer of
the contract."""
