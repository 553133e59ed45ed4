"""Somebody who is called: takes alerts as Alertmanager does, whatever becomes of the caller."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Quiet(BaseHTTPRequestHandler):
    """Says nothing of its requests."""

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextlib.contextmanager
def listening(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """Its address, http://127.0.0.1:PORT."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


class Webhook:
    """`before`: called with each message, before its alerts are in `alerts`."""

    def __init__(self, before: Callable[[], None] = lambda: None) -> None:
        self.alerts: list[dict[str, Any]] = []
        webhook = self

        class Handler(Quiet):
            def do_POST(self) -> None:
                before()
                webhook.alerts += json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(200)
                self.end_headers()

        self._listening = listening(Handler)
        self.url = f"{self._listening.__enter__()}/alerts"

    def labels(self, name: str) -> list[str]:
        return [alert["labels"][name] for alert in list(self.alerts)]

    def close(self) -> None:
        self._listening.__exit__(None, None, None)
