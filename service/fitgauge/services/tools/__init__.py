"""The forgiving face for agents: seven tools with few parameters and short answers."""

from fitgauge.services.tools.service import Tools

__all__ = ["Tools"]
