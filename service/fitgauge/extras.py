"""What needs packages that are installed on request, imported where the settings ask for it."""

from importlib import import_module
from typing import TYPE_CHECKING

from fitgauge.errors import InvalidSettingsError
from fitgauge.redaction import redacted
from fitgauge.settings import Settings

if TYPE_CHECKING:
    from fitgauge.shared_state import ValkeyState
    from fitgauge.tracing import Tracing


def create_shared_state(settings: Settings) -> "ValkeyState | None":
    """Return the state that replicas share, where the settings name one. Raises
    InvalidSettingsError where it cannot be used."""
    if not settings.shared_state:
        return None
    try:
        module = import_module("fitgauge.shared_state")
        state: ValkeyState = module.ValkeyState(settings.shared_state)
    except ImportError:
        detail = "FITGAUGE_SHARED_STATE needs a package that is not installed."
        raise InvalidSettingsError(detail, hint="pip install 'fitgauge[valkey]'") from None
    except ValueError as error:
        detail = f"FITGAUGE_SHARED_STATE cannot be read: {redacted(str(error))}"
        raise InvalidSettingsError(detail, hint="Set it as valkey://valkey:6379/0.") from None
    return state


def create_tracing(settings: Settings) -> "Tracing | None":
    """Return what traces, where the settings ask for it. Raises InvalidSettingsError where its
    packages are not installed."""
    if not settings.tracing:
        return None
    try:
        module = import_module("fitgauge.tracing")
    except ImportError:
        detail = "FITGAUGE_TRACING needs packages that are not installed."
        raise InvalidSettingsError(detail, hint="pip install 'fitgauge[otel]'") from None
    tracing: Tracing = module.Tracing()
    return tracing
