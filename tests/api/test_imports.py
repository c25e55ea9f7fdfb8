"""What a service with default settings does not import: it costs memory and start."""

import subprocess
import sys

OPTIONAL = (
    "valkey",
    "opentelemetry.sdk",
    "opentelemetry.exporter",
    "slack_bolt",
    "aiohttp",
    "attr",
    "pydantic",
    "huggingface_hub.file_download",
    "tqdm",
)


def test_what_no_setting_asks_for_is_not_imported():
    code = (
        "import sys\n"
        "from fitgauge.app import create_app\n"
        "from fitgauge.settings import Settings\n"
        "create_app(Settings())\n"
        f"print([name for name in {OPTIONAL} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
