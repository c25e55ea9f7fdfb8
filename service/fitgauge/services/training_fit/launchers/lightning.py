"""Lightning: its defaults. Its training loop is the user's own script."""

from fitgauge.services.training_fit.launchers.tool import Default, Tool

LIGHTNING = Tool(
    name="lightning",
    title="Lightning",
    phrases=("pytorch lightning", "lightning trainer", "lightning fabric", "lightning ai"),
    version="2.6",
    writer="other",
    framework="transformers",
    aliases=("fabric",),
    defaults=(
        Default("precision", "fp32", "src/lightning/fabric/connector.py, precision: 32-true"),
    ),
)  # fmt: skip
