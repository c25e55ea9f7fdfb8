"""Messages and pictures on their way to Slack."""

import json
import logging
from collections.abc import Mapping
from typing import Any, NamedTuple

import aiohttp
from slack_sdk.errors import SlackApiError
from slack_sdk.http_retry.async_handler import AsyncRetryHandler
from slack_sdk.http_retry.builtin_async_handlers import (
    AsyncConnectionErrorRetryHandler,
    AsyncRateLimitErrorRetryHandler,
    AsyncServerErrorRetryHandler,
)
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.webhook.async_client import AsyncWebhookClient

from fitgauge_plugin.slack.answers import Message
from fitgauge_plugin.slack.blocks import Block, section
from fitgauge_plugin.slack.memory import Memory, memory_in

_LOGGER = logging.getLogger(__name__)

_RETRIES = 3
_THREAD = 200
"""Messages of a thread that are read for what it remembers."""
_UPLOAD_SECONDS = 30.0

_NOT_THERE = frozenset({"not_in_channel", "channel_not_found", "is_archived", "restricted_action"})
"""Why the bot cannot post where a command was typed; the command's own address still can."""


_NO_BLOCKS = frozenset({"invalid_blocks", "invalid_blocks_format", "msg_blocks_too_long"})
"""Why a message is posted as its text alone."""


class Place(NamedTuple):
    """Where an answer goes."""

    channel: str
    """Id of the channel or of the direct messages."""
    thread: str = ""
    """Time of the thread's first message; empty for a message of its own."""
    response_url: str = ""
    """Of a command or a button: reaches channels that the bot is not in."""


def _retries() -> list[AsyncRetryHandler]:
    return [
        AsyncRateLimitErrorRetryHandler(max_retry_count=_RETRIES),
        AsyncConnectionErrorRetryHandler(max_retry_count=_RETRIES),
        AsyncServerErrorRetryHandler(max_retry_count=1),
    ]


def web_client(token: str, base_url: str = "") -> AsyncWebClient:
    """Return a client that waits as long as Slack says (429 with Retry-After) and tries again
    where the connection breaks."""
    client = AsyncWebClient(token=token, base_url=base_url or AsyncWebClient.BASE_URL)
    client.retry_handlers = _retries()
    return client


async def post(client: AsyncWebClient, place: Place, message: Message) -> str:
    """Post a message; return the thread that its answers belong to, empty where nothing can be
    posted there. Raises SlackApiError where Slack refuses it."""
    try:
        time = await _post(client, place, message, message.blocks)
    except SlackApiError as error:
        reason = error.response.get("error")
        if reason in _NO_BLOCKS:
            _LOGGER.error("Slack refused blocks: %s", error)
            time = await _post(client, place, message, [])
        elif place.response_url and reason in _NOT_THERE:
            await respond(place.response_url, message, in_channel=True)
            return ""
        else:
            raise
    return place.thread or time


async def _post(client: AsyncWebClient, place: Place, message: Message, blocks: list[Block]) -> str:
    """Post a message with these blocks; return its time. Raises SlackApiError."""
    posted = await client.chat_postMessage(
        channel=place.channel,
        thread_ts=place.thread or None,
        text=message.text,
        blocks=blocks,
        metadata=message.metadata,
        unfurl_links=False,
        unfurl_media=False,
    )
    return str(posted["ts"])


async def respond(
    url: str, message: Message, *, in_channel: bool = False, replace: bool = False
) -> None:
    """Answer a command or a button at its own address, to one person or to the channel."""
    webhook = AsyncWebhookClient(url, retry_handlers=_retries())
    body: dict[str, Any] = {"text": message.text, "blocks": message.blocks}
    if replace:
        body["replace_original"] = True
    else:
        body["response_type"] = "in_channel" if in_channel else "ephemeral"
    if message.metadata:
        body["metadata"] = message.metadata
    response = await webhook.send_dict(body)
    if response.status_code != 200:
        _LOGGER.warning("Slack refused an answer at its response_url: %s", response.status_code)


async def upload(
    client: AsyncWebClient, channel: str, thread: str, picture: bytes, title: str
) -> None:
    """Add a picture to a thread. Where Slack does not take it, the text of the answer stands."""
    try:
        where = await client.files_getUploadURLExternal(
            filename="memory.png", length=len(picture), alt_txt=title
        )
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_UPLOAD_SECONDS)) as http,
            http.post(str(where["upload_url"]), data=picture) as response,
        ):
            response.raise_for_status()
        await client.files_completeUploadExternal(
            files=[{"id": str(where["file_id"]), "title": title}],
            channel_id=channel,
            thread_ts=thread,
            blocks=json.dumps([section([title])]),  # the client encodes none of this method
        )
    except (SlackApiError, aiohttp.ClientError, TimeoutError) as error:
        _LOGGER.warning("Slack took no picture: %s", error)


async def memory_of(client: AsyncWebClient, channel: str, thread: str) -> Memory | None:
    """Return what a thread remembers; None where it cannot be read."""
    try:
        replies = await client.conversations_replies(
            channel=channel, ts=thread, limit=_THREAD, include_all_metadata=True
        )
    except SlackApiError as error:
        _LOGGER.warning("A thread cannot be read: %s", error.response.get("error"))
        return None
    messages: list[Mapping[str, Any]] = replies.get("messages") or []
    return memory_in(messages)
