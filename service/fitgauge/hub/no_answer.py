"""Errors of a Hub that gives no answer."""

from fitgauge.errors import HubUnreachableError


def offline(endpoint: str) -> HubUnreachableError:
    """Return the error of a Hub that must not be asked."""
    return HubUnreachableError(
        f"Offline (HF_HUB_OFFLINE), and this model of {endpoint} is not cached.",
        hint=("Send a model that is cached or in the snapshot, or unset HF_HUB_OFFLINE."),
        retry_after_seconds=60.0,
    )


def unreachable(endpoint: str, why: str) -> HubUnreachableError:
    """Return the error of a Hub that gives no answer, or none that can be read."""
    return HubUnreachableError(
        f"No answer from {endpoint}: {why.rstrip('.')}.",
        hint="Retry shortly, or check HF_ENDPOINT and the proxy.",
    )


def not_running() -> HubUnreachableError:
    """Return the error of a resolver that was not started."""
    return HubUnreachableError("The Hub resolver is not running.", hint="Call start() first.")


def late(endpoint: str, seconds: float) -> HubUnreachableError:
    """Return the error of a Hub that took longer than a lookup may."""
    return HubUnreachableError(f"{endpoint} did not answer within {seconds:g} s.")
