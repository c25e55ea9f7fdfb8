"""One line of the log for every decision about access. It quotes no credentials."""

import json
import logging
from typing import cast

from litestar.types import Scope

from fitgauge.api.access.caller import AccessError, Caller
from fitgauge.api.gateway import PEER
from fitgauge.hub.request_context import REQUEST_IDS

_log = logging.getLogger("fitgauge.audit")


class Audit:
    """Writes the lines."""

    def allowed(self, scope: Scope, caller: Caller) -> None:
        """Log a request that passes."""
        self._line("allowed", scope, caller, "")

    def refused(self, scope: Scope, caller: Caller | None, error: AccessError) -> None:
        """Log a request that is refused. caller: None where it is unknown."""
        self._line("refused", scope, caller, f" status={error.status} code={error.slug}")

    def _line(self, decision: str, scope: Scope, caller: Caller | None, more: str) -> None:
        # a name is quoted as JSON: it may hold blanks, and nothing in it begins a line
        name = json.dumps(caller.id if caller else "unknown")
        fields = cast("dict[str, str]", scope)
        _log.info(
            "decision=%s caller=%s peer=%s method=%s route=%s request_id=%s%s",
            decision,
            name,
            fields.get(PEER, "in-process"),
            fields.get("method", ""),
            fields.get("path_template") or "unknown",
            REQUEST_IDS.get().request_id,
            more,
        )
