"""Write the conversation of docs/SLACK.md anew: `make slack`."""

import sys
import tempfile
from pathlib import Path

from hub_stand_in import HubStandIn, safetensors_repository
from live import serving
from slack_stand_in import Sender, SlackStandIn
from slack_stand_in.running import running
from slack_stand_in.sender import SECRET
from slack_stand_in.transcript import transcript


def main(path: Path) -> None:
    """Replace the first text block of a page by the conversation."""
    with (
        tempfile.TemporaryDirectory() as data,
        HubStandIn(safetensors_repository("acme/tiny")) as hub,
        serving(hub, offline=True) as service,
        SlackStandIn() as slack,
        running(service, slack, Path(data), signing_secret=SECRET) as address,
    ):
        text = transcript(Sender(address, slack.url), slack)
    before, _, rest = path.read_text("utf-8").partition("```text\n")
    path.write_text(f"{before}```text\n{text.rstrip()}\n```{rest.partition('```')[2]}", "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
