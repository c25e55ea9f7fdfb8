"""Slack as the bot sees it: its Web API on a threaded http.server, as slack_sdk's own tests have
it, and what Slack sends, signed as Slack signs it.

Every message is held to the SDK's models of blocks and to Slack's limits as it arrives."""

from slack_stand_in.sender import Sender
from slack_stand_in.server import Received, SlackStandIn

__all__ = ["Received", "Sender", "SlackStandIn"]
