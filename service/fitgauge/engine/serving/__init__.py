"""GPU memory of serving: one package per engine, and the formulas that engines share."""
