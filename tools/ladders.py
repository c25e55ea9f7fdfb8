"""Write docs/SETTINGS.md: what `settings: "auto"` may change, from the engines' own ladders."""

from pathlib import Path

from fitgauge.engine.serving.ladders import MOST_LAYOUTS, Ladders
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.services.fit.auto_settings import MOST_ESTIMATES

PAGE = Path(__file__).parents[1] / "docs" / "SETTINGS.md"

_HEAD = f"""# Settings that are chosen

`settings: "auto"`, the default of POST /v1/fit, answers for the launch nearest to the engine's own
defaults under which the workload fits. What a request sets is never changed, nor what a caller
gets: number formats, KV cache dtype, context, concurrency, engine, GPUs, host memory. `chosen`
lists each change with its reason and its cost; `settings: "defaults"` judges the engine's own
defaults. The same question has the same answer on every machine.

Steps, of which the first that fits is taken:

- **A** the engine's defaults.
- **B** limits of the scheduler.
- **C** the engine's share of the GPU, with B.
- **D** another layout over the GPUs, of at most {MOST_LAYOUTS}: with A, then with B, then with C.
- **E** no CUDA graphs, with B and C, layouts in the same order.

A step is tried at the end of its ladders, then each setting goes back towards its default as far
as the workload still fits. If no step fits, the likeliest is judged; if none is likely, the
figures are those of the least that the workload takes. A question takes at most {MOST_ESTIMATES}
estimates.

Written by `make formulas` from the engines' own ladders.

| Engine | B | C | D | E |
| --- | --- | --- | --- | --- |
"""


def page() -> str:
    """Return the page."""
    return _HEAD + "".join(f"| {name} | {_cells(row.ladders)} |\n" for name, row in ENGINES.items())


def _cells(ladders: Ladders) -> str:
    batch = "; ".join(f"`{one.setting}`: {one.rule}" for one in ladders.batch)
    share = f"`gpu_memory_utilization`: {ladders.share.rule}" if ladders.share else ""
    graphs = "`enforce_eager`" if ladders.without_graphs else ""
    return " | ".join(cell or "-" for cell in (batch, share, ladders.layouts_rule, graphs))


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
