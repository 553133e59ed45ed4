"""Somebody who is called: takes alerts as Alertmanager does, whatever becomes of the caller."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Webhook:
    """`before`: called with each message, before its alerts are in `alerts`."""

    def __init__(self, before: Callable[[], None] = lambda: None) -> None:
        self.alerts: list[dict[str, Any]] = []
        webhook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                before()
                webhook.alerts += json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/alerts"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def labels(self, name: str) -> list[str]:
        return [alert["labels"][name] for alert in list(self.alerts)]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
