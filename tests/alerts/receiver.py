"""An HTTP server on the loopback that keeps what it is sent."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlsplit

from tests.webhook import Quiet, listening


class Receiver:
    """Its `answer` is a status, 200 at first; a redirect leads elsewhere."""

    def __init__(self) -> None:
        self.received: list[Any] = []
        self.answer = 200
        self.authorization: str | None = None
        receiver = self

        class Handler(Quiet):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.authorization = self.headers["Authorization"]
                if receiver.answer == 200:
                    receiver.received.append(json.loads(body))
                self.send_response(receiver.answer)
                if receiver.answer == 302:
                    self.send_header("Location", "/elsewhere")
                self.end_headers()

            def do_GET(self) -> None:
                self.send_response(200)
                self.end_headers()

        self._listening = listening(Handler)
        self.port = urlsplit(self._listening.__enter__()).port

    @property
    def webhook(self) -> str:
        """As an Alertmanager."""
        return f"http://127.0.0.1:{self.port}/api/v2/alerts"

    @property
    def apprise(self) -> str:
        """As a service that apprise knows."""
        return f"json://127.0.0.1:{self.port}/hook"

    def stop(self) -> None:
        self._listening.__exit__(None, None, None)
