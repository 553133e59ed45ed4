"""An S3 server for tests: moto's, with a count of what goes through it and with the faults a real store has.

with ObjectStore() as store:                 in this process
    store.environment()                      what a client needs to know
    store.fault = throttled(5)               from here on

python -m tests.object_store                 as a process of its own; prints the environment
"""

from __future__ import annotations

import json
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

BUCKET = "warehouses"
Environ = dict[str, Any]
Answer = tuple[str, str]
"""Status line, and the error's code as S3 names it."""
Fault = Callable[[Environ, bool], Answer | None]
"""Asked before a request is served (False) and after it was (True); what it gives is sent instead of the answer."""


@dataclass(slots=True)
class Traffic:
    requests: int = 0
    bytes_out: int = 0
    refused: int = 0


class ObjectStore:
    def __init__(self, port: int = 0) -> None:
        self._app = DomainDispatcherApplication(create_backend_app)
        self._server = make_server("127.0.0.1", port, self._serve, threaded=True, request_handler=_Quiet)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self.traffic = Traffic()
        self.fault: Fault | None = None

    def __enter__(self) -> ObjectStore:
        self._thread.start()
        self.make_bucket(BUCKET)
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def environment(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test-secret-value",
            "AWS_REGION": "us-east-1",
        }

    def make_bucket(self, name: str) -> None:
        urllib.request.urlopen(urllib.request.Request(f"{self.url}/{name}", method="PUT"), timeout=30).close()

    def counted(self) -> Traffic:
        """What went through since the last time."""
        found, self.traffic = self.traffic, Traffic()
        return found

    def _serve(self, environ: Environ, start: Callable[..., Any]) -> Iterable[bytes]:
        self.traffic.requests += 1
        fault = self.fault
        if fault is not None and (answer := fault(environ, False)) is not None:
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            return self._refuse(start, answer)
        if fault is None:
            return self._counted(self._app(environ, start))
        kept: list[Any] = []
        content = list(self._app(environ, lambda *given, **named: kept.append((given, named))))
        if (answer := fault(environ, True)) is not None:
            return self._refuse(start, answer)
        given, named = kept[-1]
        start(*given, **named)
        return self._counted(content)

    def _refuse(self, start: Callable[..., Any], answer: Answer) -> Iterable[bytes]:
        self.traffic.refused += 1
        status, code = answer
        body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{code}</Message></Error>".encode()
        start(status, [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
        return [body]

    def _counted(self, body: Iterable[bytes]) -> Iterator[bytes]:
        for part in body:
            self.traffic.bytes_out += len(part)
            yield part


class _Quiet(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log(self, type: str, message: str, *args: Any) -> None:
        """Nothing: pytest shows what fails."""


def _is_write(environ: Environ) -> bool:
    return environ["REQUEST_METHOD"] in ("PUT", "POST", "DELETE")


def throttled(times: int) -> Fault:
    """So many of the next requests are answered with SlowDown."""
    left = [times]

    def fault(environ: Environ, is_served: bool) -> Answer | None:
        if is_served or left[0] <= 0:
            return None
        left[0] -= 1
        return "503 Slow Down", "SlowDown"

    return fault


def lost_acknowledgement(part: str) -> Fault:
    """The next write to a key that contains this is done, and its answer lost."""
    left = [1]

    def fault(environ: Environ, is_served: bool) -> Answer | None:
        if not is_served or not left[0] or not _is_write(environ) or part not in environ["PATH_INFO"]:
            return None
        left[0] -= 1
        return "500 Internal Server Error", "InternalError"

    return fault


@dataclass(slots=True)
class Busy:
    """One request of so many is throttled. Of as many writes one is done and its answer lost."""

    one_of: int
    throttled: int = 0
    lost: int = 0
    _requests: Iterator[int] = field(default_factory=lambda: count(1))
    _writes: Iterator[int] = field(default_factory=lambda: count(1))

    def __call__(self, environ: Environ, is_served: bool) -> Answer | None:
        if not is_served:
            if next(self._requests) % self.one_of:
                return None
            self.throttled += 1
            return "503 Slow Down", "SlowDown"
        if not _is_write(environ) or next(self._writes) % self.one_of:
            return None
        self.lost += 1
        return "500 Internal Server Error", "InternalError"


def refuses_writes(status: str, code: str, after: int = 0) -> Fault:
    """Every write, after so many that are served."""
    left = [after]

    def fault(environ: Environ, is_served: bool) -> Answer | None:
        if is_served or not _is_write(environ):
            return None
        left[0] -= 1
        return (status, code) if left[0] < 0 else None

    return fault


READ_ONLY = ("403 Forbidden", "AccessDenied")
FULL = ("507 Insufficient Storage", "QuotaExceeded")


def expired(after: int = 0) -> Fault:
    """Credentials end after so many requests."""
    left = [after]

    def fault(environ: Environ, is_served: bool) -> Answer | None:
        if is_served:
            return None
        left[0] -= 1
        return ("400 Bad Request", "ExpiredToken") if left[0] < 0 else None

    return fault


def slow(seconds: float, after: int = 0) -> Fault:
    """Each answer takes so long, after so many that do not."""
    left = [after]

    def fault(environ: Environ, is_served: bool) -> Answer | None:
        if not is_served:
            left[0] -= 1
            if left[0] < 0:
                time.sleep(seconds)
        return None

    return fault


def main() -> None:
    with ObjectStore(int(sys.argv[1]) if len(sys.argv) > 1 else 0) as store:
        print(json.dumps(store.environment() | {"bucket": BUCKET}), flush=True)
        while True:
            time.sleep(3600)


if __name__ == "__main__":
    main()
