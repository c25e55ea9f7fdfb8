"""What MLX prints where memory runs out, and its command line; it prints no log of its memory.

Source: mlx 0.29 mlx/backend/metal/allocator.cpp ([metal::malloc]); mlx-lm 0.32 server.py."""

from fitgauge.engine.serving.start_log.arguments import argument
from fitgauge.engine.serving.start_log.lines import Line
from fitgauge.engine.serving.start_log.measurements import StartLog
from fitgauge.engine.serving.start_log.names import gpu_name, hub_id

SIGNATURES = ("[metal::malloc]", "mlx_lm", "mlx-lm", "mlx_vlm", "mlx.core", "/mlx/")


def read(lines: list[Line]) -> StartLog:
    """Return what a text of MLX's says: its model and the Mac, where they are named."""
    command = " ".join(
        line.text for line in lines if "mlx_" in line.text and "--model" in line.text
    )
    return StartLog(
        engine="mlx", model=hub_id(argument(command[:4096], "model")), gpu=gpu_name(lines)
    )
