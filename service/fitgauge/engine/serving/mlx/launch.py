"""How to start MLX LM. Source: mlx-lm 0.32, server.py."""

from fitgauge.engine.serving.launch import Flags, Launch, optional, shell

_MAX_REQUESTS = 32
"""The default of decode-concurrency."""


def command(launch: Launch) -> str:
    """Return the command line."""
    requests = launch.workload.requests_per_replica
    flags: Flags = ["mlx_lm.server", "--model", launch.repository]
    flags += optional(
        ("--prefill-step-size", launch.settings.max_batched_tokens),
        ("--decode-concurrency", requests if requests > _MAX_REQUESTS else None),
    )
    if launch.workload.pipeline_parallel > 1:
        flags = ["mlx.launch", "--hostfile", "hosts.json", *flags, "--pipeline"]
    return shell(flags)
