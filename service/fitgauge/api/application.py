"""The application's class."""

from litestar import Litestar
from litestar.plugins import PluginProtocol
from litestar.plugins.core import MsgspecDIPlugin


class Application(Litestar):
    """Litestar without its plugins for pydantic and attrs: no route takes such classes, and their
    imports, both generations of pydantic among them, are a fifth of the start and 6 MiB."""

    @staticmethod
    def _get_default_plugins(plugins: list[PluginProtocol]) -> list[PluginProtocol]:
        return [*plugins, MsgspecDIPlugin()]
