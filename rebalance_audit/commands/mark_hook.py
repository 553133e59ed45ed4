"""Marks over HTTP, for whatever deploys: `POST /marks` beside the metrics of `serve`.

    curl -d '{"text": "v2.3 of orders"}' -H "Authorization: Bearer $TOKEN" http://HOST:9464/marks

The body is a JSON object with the fields of `mark`'s options: text, at, group, cluster_id. Answers are JSON, too.
"""

from __future__ import annotations

import hmac
import json
import re
import threading
import time
from collections.abc import Iterable
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rebalance_audit.commands.mark import noted
from rebalance_audit.commands.options import CommandError, UsageError

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

PATH = "/marks"
LONGEST = 16_384
"""Bytes of a body: a text has 500 characters."""
FIELDS = {"text": str, "at": str | int, "group": str, "cluster_id": str}
_ONE_AT_A_TIME = threading.Lock()


class _NotMarked(Exception):
    def __init__(self, status: HTTPStatus, why: str) -> None:
        super().__init__(why)
        self.status = status


def token_in(file: Path) -> str:
    """The token in a file. Raises CommandError if there is none."""
    token = file.read_text("utf-8").strip()
    if not token:
        raise CommandError(f"--marks {file} is empty; put a token into it: openssl rand -hex 32 > {file}.")
    return token


def with_marks(metrics: WSGIApplication, location: str, token: str) -> WSGIApplication:
    """The application that answers PATH itself and leaves everything else to `metrics`."""

    def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if environ.get("PATH_INFO") != PATH:
            return metrics(environ, start_response)
        headers = [("Content-Type", "application/json")]
        try:
            status, answer = HTTPStatus.CREATED, _marked(environ, location, token)
        except _NotMarked as refused:
            status, answer = refused.status, {"error": str(refused)}
        if status is HTTPStatus.SERVICE_UNAVAILABLE:
            headers.append(("Retry-After", "30"))
        if status is HTTPStatus.UNAUTHORIZED:
            headers.append(("WWW-Authenticate", "Bearer"))
        start_response(f"{status.value} {status.phrase}", headers)
        return [json.dumps(answer).encode() + b"\n"]

    return application


def _marked(environ: WSGIEnvironment, location: str, token: str) -> dict[str, Any]:
    from rebalance_audit.warehouse.storage import passing_fault
    from rebalance_audit.warehouse.warehouse import Warehouse, WarehouseError

    if environ.get("REQUEST_METHOD") != "POST":
        raise _NotMarked(HTTPStatus.METHOD_NOT_ALLOWED, f"{PATH} takes POST alone.")
    given = environ.get("HTTP_AUTHORIZATION", "")
    if not hmac.compare_digest(given.encode("latin-1"), f"Bearer {token}".encode()):
        raise _NotMarked(HTTPStatus.UNAUTHORIZED, "The token is missing or wrong; send Authorization: Bearer TOKEN.")
    asked = _body(environ)
    now_ms = time.time_ns() // 1_000_000
    at = asked.get("at")
    try:
        with _ONE_AT_A_TIME:
            clusters, at_ms = noted(
                Warehouse.open(location), text=asked.get("text", ""), at=None if at is None else str(at),
                group=asked.get("group", "*"), cluster_id=asked.get("cluster_id"), now_ms=now_ms,
                names=("text", "at", "group"),
            )  # fmt: skip
    except UsageError as error:
        raise _NotMarked(HTTPStatus.BAD_REQUEST, str(error)) from None
    except (CommandError, WarehouseError) as error:
        raise _NotMarked(HTTPStatus.SERVICE_UNAVAILABLE, str(error)) from None
    except Exception as error:
        if (sentence := passing_fault(error)) is None:
            raise
        raise _NotMarked(HTTPStatus.SERVICE_UNAVAILABLE, sentence) from None
    return {"at_ms": at_ms, "clusters": clusters}


def _body(environ: WSGIEnvironment) -> dict[str, Any]:
    """The fields. Raises _NotMarked."""
    length = environ.get("CONTENT_LENGTH") or ""
    if not re.fullmatch("[0-9]+", length):
        raise _NotMarked(HTTPStatus.LENGTH_REQUIRED, "The body's Content-Length is missing, or no number.")
    if len(length) > 9 or int(length) > LONGEST:  # Python makes no number of very many digits
        raise _NotMarked(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"The body has more than {LONGEST:,} bytes.")
    try:
        asked = json.loads(environ["wsgi.input"].read(int(length)))
    except (ValueError, RecursionError):
        asked = None
    except OSError:  # it timed out, or the connection is gone
        raise _NotMarked(HTTPStatus.REQUEST_TIMEOUT, "The body did not come as a whole; send it again.") from None
    if not isinstance(asked, dict):
        raise _NotMarked(HTTPStatus.BAD_REQUEST, 'The body is no JSON object; write it as {"text": "v2.3 of orders"}.')
    for name, value in asked.items():
        if name not in FIELDS:
            raise _NotMarked(HTTPStatus.BAD_REQUEST, f"There is no field {name[:40]!r}; there are {', '.join(FIELDS)}.")
        if isinstance(value, bool) or not isinstance(value, FIELDS[name]):
            raise _NotMarked(HTTPStatus.BAD_REQUEST, f"{name} is no text; write it in quotes, or leave it out.")
    return asked
