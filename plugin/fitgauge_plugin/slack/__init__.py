"""A bot for Slack that asks a running service: `fitgauge slack` runs it, docs/SLACK.md says how.

It stores nothing of a conversation: what a thread is about stands in its messages.
"""
