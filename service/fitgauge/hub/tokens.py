"""The token that the Hub is asked with."""

import asyncio
import hashlib
from concurrent.futures import ThreadPoolExecutor

from huggingface_hub import constants, get_token
from huggingface_hub.errors import DeviceCodeError, OIDCError

from fitgauge.errors import HubUnreachableError


class Tokens:
    """Reads the service's token, in a thread: huggingface_hub reads it from a file, or renews
    it."""

    def __init__(self, setting: str | bool | None, pool: ThreadPoolExecutor) -> None:
        """Read by this setting: a token, False for none, None for the one that huggingface_hub
        has."""
        self._setting = setting
        self._pool = pool

    async def read(self) -> str | None:
        """Return the token to send. Raises HubUnreachableError where it cannot be read."""
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._pool, _token, self._setting)
        except (OSError, OIDCError, DeviceCodeError) as error:
            raise HubUnreachableError(
                f"Cannot read the Hub token: {type(error).__name__}.",
                hint="Check HF_TOKEN, or log in again.",
            ) from error

    async def identity(self) -> str:
        """Return a hash that distinguishes the token from others, empty without one. Raises what
        `read` does."""
        token = await self.read()
        return hashlib.sha256(token.encode()).hexdigest() if token else ""


def _token(setting: str | bool | None) -> str | None:
    """Return the token to send: the one given, none for False, else the one huggingface_hub
    finds."""
    if isinstance(setting, str) or setting is False:
        return setting or None
    return None if setting is None and constants.HF_HUB_DISABLE_IMPLICIT_TOKEN else get_token()
