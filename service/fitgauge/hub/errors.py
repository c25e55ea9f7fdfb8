"""What the Hub means when it refuses: its status and X-Error-Code as one of Fitgauge's errors,
each with what to do."""

import time
from email.utils import parsedate_to_datetime

import httpx2
from huggingface_hub.errors import (
    DisabledRepoError,
    GatedRepoError,
    HfHubHTTPError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils import hf_raise_for_status

from fitgauge.errors import (
    FitgaugeError,
    GatedModelError,
    HubBusyError,
    HubUnreachableError,
    UnknownModelError,
)

LONGEST_WAIT = 60.0
USUAL_WAIT = 5.0


def is_missing_file(response: httpx2.Response, url: str) -> bool:
    """Return whether the repository and the revision are there and the file is not.

    A plain mirror says 404 and no code. url: what was asked for first, before any redirect.
    """
    if response.status_code != 404 or "/resolve/" not in url:
        return False
    return response.headers.get("x-error-code", "EntryNotFound") == "EntryNotFound"


def error_of(
    response: httpx2.Response, repo_id: str, revision: str, *, callers: bool
) -> FitgaugeError:
    """Return the error that an answer of 300 or more stands for. callers: the token that was sent
    to the Hub is the caller's own."""
    use = "send X-HF-Token:" if callers else "set HF_TOKEN to"
    status = response.status_code
    if status == 429 or (status == 503 and "retry-after" in response.headers):
        seconds = retry_after(response)
        return HubBusyError(
            f"The Hub is busy ({status}): retry in {seconds:.0f} s.",
            retry_after_seconds=seconds,
            hint="A token (HF_TOKEN) raises the Hub's rate limit.",
        )
    if status < 400 or status >= 500 or status == 408:
        return HubUnreachableError(f"The Hub answered {status}.", hint="Retry shortly.")
    if not _is_the_hubs(response):
        return HubUnreachableError(
            f"HF_ENDPOINT answered {status}; is it a Hugging Face Hub?",
            hint="Check HF_ENDPOINT and the proxy.",
        )
    if (coded := _coded_error(response, repo_id, revision, use)) is not None:
        return coded
    rejects = response.headers.get("x-error-message", "").startswith("Invalid credentials")
    if status == 401 and rejects:
        return _rejected_token(callers)
    if status in (401, 404):
        return _unknown(response, repo_id, use)
    if status == 403:
        return GatedModelError(
            f"The Hub forbids reading {repo_id}.",
            hint=f"{use[0].upper()}{use[1:]} a token with read access.",
        )
    return UnknownModelError(
        f"The Hub refuses {repo_id} ({status}).", hint="Check the model's name on the Hub."
    )


def _coded_error(
    response: httpx2.Response, repo_id: str, revision: str, use: str
) -> FitgaugeError | None:
    """Return the error of one of the Hub's own codes, as huggingface_hub sorts them out; None
    without one. use: how to send a token."""
    # without its body, which huggingface_hub would parse unbounded for a message that is not shown
    bare = httpx2.Response(response.status_code, headers=_codes(response), request=response.request)
    try:
        hf_raise_for_status(bare)
    except GatedRepoError:
        return GatedModelError(
            f"{repo_id} is gated.",
            hint=(
                f"Request access at https://huggingface.co/{repo_id} and {use} a token with access."
            ),
        )
    except RevisionNotFoundError:
        return UnknownModelError(
            f"{repo_id} has no revision {revision}.", hint=f"Send {repo_id} for its default branch."
        )
    except DisabledRepoError:
        return UnknownModelError(
            f"{repo_id} is disabled on the Hub.", hint="Send another repository of this model."
        )
    except RepositoryNotFoundError:
        return _unknown(response, repo_id, use)
    except HfHubHTTPError:
        pass
    return None


def _rejected_token(callers: bool) -> GatedModelError:
    """Return the error of a token that the Hub does not know."""
    if callers:
        return GatedModelError(
            "The Hub rejects the token in X-HF-Token.",
            hint="Renew it, or leave it out for public models.",
        )
    return GatedModelError(
        "The Hub rejects the service's token.",
        hint="Renew HF_TOKEN, or unset it for public models.",
    )


def _is_the_hubs(response: httpx2.Response) -> bool:
    """Return whether a refusal is the Hub's own or a mirror's, not a proxy's.

    They say why in a header or in JSON; a plain mirror sends a bare 401, 403 or 404. A proxy sends
    a page.
    """
    if _codes(response) or response.headers.get("content-type", "").startswith("application/json"):
        return True
    return response.status_code in (401, 403, 404) and not _is_page(response)


def _is_page(response: httpx2.Response) -> bool:
    """Return whether the body is HTML, for people to read."""
    kind = response.headers.get("content-type", "").lower()
    empty = response.headers.get("content-length") == "0"
    return kind.startswith(("text/html", "application/xhtml")) and not empty


def _codes(response: httpx2.Response) -> dict[str, str]:
    return {name: value for name, value in response.headers.items() if name.startswith("x-error-")}


def _unknown(response: httpx2.Response, repo_id: str, use: str) -> UnknownModelError:
    """Missing or private: the Hub does not tell strangers which. use: how to send a token."""
    if "authorization" in response.request.headers:
        hint = f"Check the spelling, or {use} a token with read access."
    else:
        hint = "Check the spelling; a private model requires HF_TOKEN."
    return UnknownModelError(f"The Hub has no model {repo_id}, or it is private.", hint=hint)


def retry_after(response: httpx2.Response) -> float:
    """Return the seconds that Retry-After asks for, as a number or a date, within [0,
    LONGEST_WAIT]; USUAL_WAIT where it cannot be read."""
    text = response.headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return min(float(text[:9]), LONGEST_WAIT)
    try:
        seconds = parsedate_to_datetime(text).timestamp() - time.time()
    except (ValueError, OverflowError):
        return USUAL_WAIT
    return min(max(seconds, 0.0), LONGEST_WAIT)
