"""Callers with kept-alive connections, who ask until they are told to close."""

import http.client
import json
import threading

BODY = json.dumps({"model": "Qwen/Qwen3-8B", "gpu": "H100"}).encode()


class Caller(threading.Thread):
    """A keep-alive connection that asks until it is told to close."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.link = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        self.answered = self.lost = 0
        self.told_to_close = False

    def run(self) -> None:
        """Ask. `lost` counts requests that were sent and not answered."""
        while not self.told_to_close:
            try:
                self.link.request("POST", "/v1/fit", BODY, {"content-type": "application/json"})
                answer = self.link.getresponse()
                answer.read()
            except (OSError, http.client.HTTPException):
                self.lost += 1
                return
            self.answered += answer.status == 200
            self.told_to_close = answer.getheader("connection", "").lower() == "close"
