"""The command: the same questions in a terminal, and the service itself."""

import click

from fitgauge import __version__
from fitgauge.commands.group import Commands, Deferred

COMMANDS = {
    "ask": Deferred("ask", "Answer a QUESTION in plain words."),
    "catalog": Deferred("own_catalog", "Check catalog overlays of GPUs, names, prices and quotas."),
    "check": Deferred("check", "Will MODEL fit on GPU when it is served?"),
    "compare": Deferred("lists", "Which of MODELS fit on which of GPUS?"),
    "config": Deferred("service", "Print every setting and where it comes from."),
    "explain-log": Deferred("runs", "Compare a start-up log with its estimate."),
    "explain-trace": Deferred("runs", "Where the time goes in a profiler trace."),
    "fleet": Deferred("fleet", "Which models fit on which GPUs, for a whole company."),
    "gpus": Deferred("gpus", "List the accelerators of the catalog."),
    "key": Deferred("key", "Hand out API keys to a service's callers."),
    "mcp": Deferred("service", "Serve the tools over MCP on standard input and output."),
    "measure": Deferred("measure", "Run an engine here and compare it with its estimate."),
    "models-for": Deferred("lists", "Which models run on GPU?"),
    "recommend": Deferred("lists", "Recommend GPUs to serve MODEL on."),
    "serve": Deferred("service", "Run the service."),
    "slack": Deferred("chat", "Run the bot for Slack, which asks a running service."),
    "snapshot": Deferred("snapshot", "Keep the models that are known without the Hub."),
    "train-check": Deferred("training", "Will MODEL fit on GPU when it is trained?"),
    "train-measure": Deferred(
        "measure_training", "Run a training step here and compare it with its estimate."
    ),
    "train-plan": Deferred("training", "Which layouts train MODEL on GPU, and on how few?"),
    "truth": Deferred("truth", "Handle rows of truth: what was measured or said."),
    "utilization": Deferred("runs", "How much of GPU does a training run use?"),
}
"""The commands by name."""


_EXAMPLES = """\b
Examples:
  fitgauge check Qwen/Qwen3-32B "2x RTX 4090"
  fitgauge train-check llama-3.1-8b "RTX 4090" --method qlora
  fitgauge recommend gpt-oss-120b --context-length 32k --concurrency 8
  fitgauge ask "best quant of gemma 3 27b for 24GB?"
  fitgauge check -f deployment.yaml
"""


@click.group(cls=Commands, deferred=COMMANDS, epilog=_EXAMPLES)
@click.version_option(__version__)
def main() -> None:
    """Will model X fit on GPU Y, and if not, what will?"""
