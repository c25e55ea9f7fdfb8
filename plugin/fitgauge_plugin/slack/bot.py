"""The bot: what Slack delivers, and what is posted for it."""

import json
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from slack_bolt.app.async_app import AsyncApp
from slack_bolt.context.ack.async_ack import AsyncAck
from slack_bolt.context.set_status.async_set_status import AsyncSetStatus
from slack_bolt.context.set_suggested_prompts.async_set_suggested_prompts import (
    AsyncSetSuggestedPrompts,
)
from slack_bolt.middleware.assistant.async_assistant import AsyncAssistant
from slack_bolt.response import BoltResponse
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from fitgauge_plugin.slack.answers import Message, message
from fitgauge_plugin.slack.blocks import context, section
from fitgauge_plugin.slack.buttons import ASK, OUTCOME
from fitgauge_plugin.slack.conversation import Turn, pressed, reply
from fitgauge_plugin.slack.deliveries import Deliveries
from fitgauge_plugin.slack.markup import line, plain
from fitgauge_plugin.slack.outcomes import OUTCOMES, Outcomes
from fitgauge_plugin.slack.pools import LONGEST, Pools
from fitgauge_plugin.slack.posting import Place, memory_of, post, respond, upload
from fitgauge_plugin.slack.service import Question, Service
from fitgauge_plugin.slack.texts import LANGUAGES, Language, language_of, say

_LOGGER = logging.getLogger(__name__)

_COMMAND = "/fit"
_NO_POOL = ("none", "off", "-", "无")
_PROMPTS = (
    "Will llama 3.3 70b fit on 2x4090 with 32k context?",
    "Which GPU for qwen3 32b in awq?",
    "qwen3 32b awq 在 4090 上能跑吗，上下文 16k",
)
_PROBE = "7b"
"""The model that shows whether a text names a GPU."""

Next = Callable[[], Awaitable[BoltResponse]]


class Bot:
    """Answers what people write, with a service, the channels' pools and a file of outcomes."""

    def __init__(self, service: Service, pools: Pools, outcomes: Outcomes) -> None:
        self._service = service
        self._pools = pools
        self._outcomes = outcomes
        self._deliveries = Deliveries()

    def app(self, client: AsyncWebClient, signing_secret: str = "") -> AsyncApp:
        """Return the app of Bolt. signing_secret: empty in Socket Mode, where Slack signs
        nothing."""
        app = AsyncApp(
            client=client,
            signing_secret=signing_secret,
            request_verification_enabled=bool(signing_secret),
            logger=logging.getLogger("slack_bolt"),
        )
        assistant = AsyncAssistant()
        assistant.thread_started(self._greet)
        assistant.user_message(self._direct_message)
        app.middleware(self._once)
        app.use(assistant)
        app.command(_COMMAND)(self._typed)
        app.event("app_mention")(self._mention)
        app.event("message")(self._direct_message)
        app.action(re.compile(rf"{ASK}_\d+"))(self._ask_button)
        for outcome in OUTCOMES:
            app.action(f"{OUTCOME}_{outcome}")(self._outcome_button)
        return app

    async def _once(self, body: dict[str, Any], next_: Next) -> BoltResponse:
        """Let an event through the first time. Slack sends it again with X-Slack-Retry-Num."""
        event_id = body.get("event_id")
        if event_id is not None and not self._deliveries.is_new(str(event_id)):
            return BoltResponse(status=200, body="")
        return await next_()

    async def _typed(self, ack: AsyncAck, body: dict[str, Any], client: AsyncWebClient) -> None:
        """Answer the command."""
        await ack()
        text, url = plain(body.get("text") or ""), str(body["response_url"])
        channel = str(body["channel_id"])
        word, _, rest = text.partition(" ")
        if word.lower() == "pool":
            await self._pool(channel, rest.strip(), url)
        elif word.lower() in ("", "help"):
            await respond(url, _plain_message(say(language_of(text) or "en", "help")))
        else:
            turn = await reply(self._service, text, None, self._pools.of(channel))
            await self._answer(client, Place(channel, response_url=url), turn, quote=text)

    async def _mention(self, event: dict[str, Any], client: AsyncWebClient) -> None:
        """Answer a mention in its thread."""
        await self._talk(event, client)

    async def _direct_message(
        self,
        event: dict[str, Any],
        client: AsyncWebClient,
        set_status: AsyncSetStatus | None = None,
    ) -> None:
        """Answer a direct message, in the assistant's pane too."""
        if event.get("channel_type") != "im" or event.get("subtype") or event.get("bot_id"):
            return
        if set_status is not None:
            with suppress(SlackApiError):  # a thread outside the pane has no status
                await set_status(say("en", "calculating"))
        await self._talk(event, client)

    async def _talk(self, event: Mapping[str, Any], client: AsyncWebClient) -> None:
        """Answer a message by what it and its thread say."""
        text, channel = plain(event.get("text") or ""), str(event["channel"])
        thread = event.get("thread_ts")
        memory = await memory_of(client, channel, thread) if thread else None
        if text:
            turn = await reply(self._service, text, memory, self._pools.of(channel))
        else:
            turn = Turn("en", missing=(say("en", "help"),))
        await self._answer(client, Place(channel, str(thread or event["ts"])), turn)

    async def _greet(self, set_suggested_prompts: AsyncSetSuggestedPrompts) -> None:
        """Suggest questions in a new thread of the assistant's pane."""
        await set_suggested_prompts(prompts=list(_PROMPTS), title=say("en", "greeting"))

    async def _ask_button(
        self, ack: AsyncAck, body: dict[str, Any], client: AsyncWebClient
    ) -> None:
        """Answer a button that asks another question, in the thread of its message."""
        await ack()
        value = json.loads(body["actions"][0]["value"])
        turn = await pressed(self._service, value, _language(value))
        of = body.get("message") or {}
        thread = str(of.get("thread_ts") or of.get("ts") or "")
        place = Place(str(body["channel"]["id"]), thread, str(body.get("response_url") or ""))
        await self._answer(client, place, turn, quote=body["actions"][0]["text"]["text"])

    async def _outcome_button(self, ack: AsyncAck, body: dict[str, Any]) -> None:
        """Append what happened to the rows of truth, and show it in place of the buttons."""
        await ack()
        action, of, url = body["actions"][0], body.get("message") or {}, str(body["response_url"])
        value = json.loads(action["value"])
        outcome = action["action_id"].removeprefix(f"{OUTCOME}_")
        language = _language(value)
        earlier = await self._service.again(str(value["a"]))
        if not earlier.is_success:
            await respond(url, _plain_message(say(language, "no_answer")))
            return
        name = f"{body['channel']['id']} {of.get('ts')}"
        today = datetime.now(UTC).date().isoformat()
        try:
            self._outcomes.note(name, outcome, earlier.body, value, today)
        except OSError as error:
            _LOGGER.error("The outcome cannot be written: %s", error)
            await respond(url, _plain_message(say(language, "not_written")))
            return
        noted = context([say(language, f"{outcome}_noted")])
        others = [
            noted if one.get("block_id") == OUTCOME else one for one in of.get("blocks") or []
        ]
        replaced = Message(str(of.get("text") or ""), others or [noted], of.get("metadata") or {})
        await respond(url, replaced, replace=True)

    async def _pool(self, channel: str, text: str, url: str) -> None:
        """Show, set or remove the channel's pool. A pool is a text that the service reads as a
        GPU."""
        language = language_of(text) or "en"
        if not text:
            pool = self._pools.of(channel)
            shown = say(language, "pool", pool=line(pool, LONGEST * 5))
            await respond(url, _plain_message(shown if pool else say(language, "no_pool")))
            return
        if text.lower() in _NO_POOL:
            await self._set_pool(channel, "", say(language, "pool_unset"), url)
            return
        probe = Question("check_fit", {"model": _PROBE, "gpu": text[:LONGEST]})
        read = await self._service.send(probe)
        if not read.is_success:
            reason = line(str(read.body.get("detail") or say(language, "no_answer")), 500)
            await respond(url, _plain_message(say(language, "pool_refused", reason=reason)))
            return
        shown = say(language, "pool_set", pool=line(text, LONGEST * 5))
        await self._set_pool(channel, text, shown, url)

    async def _set_pool(self, channel: str, pool: str, shown: str, url: str) -> None:
        """Set a channel's pool and show it to the channel."""
        try:
            self._pools.set(channel, pool)
        except OSError as error:
            _LOGGER.error("The pools cannot be written: %s", error)
            await respond(url, _plain_message(say("en", "not_written")))
            return
        await respond(url, _plain_message(shown), in_channel=True)

    async def _answer(
        self, client: AsyncWebClient, place: Place, turn: Turn, quote: str = ""
    ) -> None:
        """Post an answer, then its picture in the answer's thread."""
        posted = message(turn)
        if quote:
            posted.blocks.insert(0, context([f"“{line(quote, 300)}”"]))
        thread = await post(client, place, posted)
        per_gpu = (turn.answer or {}).get("per_gpu")
        if not thread or turn.question is None or per_gpu is None:
            return
        picture = await self._service.picture(turn.question, turn.language)
        if picture is not None:
            title = say(turn.language, "picture")
            await upload(client, place.channel, thread, picture, title)


def _plain_message(text: str) -> Message:
    return Message(text, [section([text])], {})


def _language(value: Mapping[str, Any]) -> Language:
    language = value.get("l")
    return language if language in LANGUAGES else "en"
