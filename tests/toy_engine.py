"""A serving engine from outside the package: its row, its profile and its log."""

from typing import Any

from msgspec import structs

from fitgauge.catalog.engines import Engines, load_engines
from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.serving import warmup
from fitgauge.engine.serving.engine import Engine
from fitgauge.engine.serving.engine_facts import LogParser, Platform
from fitgauge.engine.serving.estimate import Estimate
from fitgauge.engine.serving.launch import Launch, optional, shell
from fitgauge.engine.serving.profile import EngineProfile
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.serving.start_log.lines import Line
from fitgauge.engine.serving.start_log.measurements import StartLog, find_readings, rule
from fitgauge.engine.serving.workload import Workload
from fitgauge.engine.weights.sharding import ShardedWeights, shard_weights

TOY = "toy"
MODEL = "Qwen/Qwen3-8B"
LOG = f"toy-serve 1.0.0 on NVIDIA H100 80GB HBM3\ntoy-serve: {MODEL}: loaded 15.27 GiB\n"
_RULES = (rule("loaded", r"loaded (?P<weights>NUM)", "GiB"),)


def estimate(
    spec: ModelSpec,
    sharded: ShardedWeights,
    workload: Workload,
    accelerator: Accelerator,
    profile: EngineProfile,
) -> Estimate:
    """Return the estimate of any engine that warms up."""
    loaded = warmup.loaded_stages(spec, sharded, workload, accelerator)
    memory = warmup.warmed_stages(spec, workload, profile, block=16)
    return warmup.warmed_estimate(accelerator, workload, loaded, memory)


def command(launch: Launch) -> str:
    """Return how to start it."""
    return shell(
        ["toy-serve", launch.model.id, *optional(("--batch", launch.settings.max_num_seqs))]
    )


def read_log(lines: list[Line]) -> StartLog:
    """Return what its log says."""
    return StartLog(
        engine=TOY,
        version="1.0.0",
        model=MODEL,
        gpu="H100",
        readings=tuple(find_readings(lines, _RULES)),
        outcome="served",
    )


ROW = Engine(
    name=TOY,
    title="Toy",
    aliases=("toyserve",),
    estimate=estimate,
    shard_weights=shard_weights,
    default_batch=lambda accelerator, context, version, spec, ranks: (32, 2048),
    command=command,
    platforms={"nvidia": Platform()},
    formats={"awq": (8, 0)},
    served_formats=("awq",),
    log_parser=LogParser(("toy-serve",), read_log),
)


def profiles(**changes: Any) -> Engines:
    """Return the bundled profiles, and the toy's."""
    bundled = [load_engines().profile(name, None) for name in ENGINES if name != TOY]
    toy = structs.replace(bundled[0], engine=TOY, since=(1, 0), newest="1.0.0", **changes)
    return Engines((*bundled, toy))
