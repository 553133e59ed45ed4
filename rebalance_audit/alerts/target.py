"""Where alerts go: Alertmanager's v2 JSON by POST, or any service apprise knows. No secret gets into a log."""

from __future__ import annotations

import base64
import contextlib
import json
import logging
import re
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import unquote, urlsplit

import apprise

from rebalance_audit.alerts.message import TITLE_WIDTH, News, body, safe, title
from rebalance_audit.alerts.routing import key_of
from rebalance_audit.domain.detect.wording import counted, shown
from rebalance_audit.domain.kinds import FindingStatus, Severity

MESSAGES_PER_RUN = 10
"""More news than this for one apprise target become one message: nobody reads two hundred."""
OPEN_FOR = timedelta(days=30)
"""Alertmanager ends an alert by itself at its endsAt; an open one is sent once, so its end lies well ahead."""
HTTP_TIMEOUT_S = 10
SUBJECT_WIDTH = 200


class AlertError(Exception):
    """Alerts cannot be sent as asked: one sentence with the fault, the place and the remedy."""


class NoTargetError(AlertError):
    """The address that was given takes nothing, whoever answers there."""


def masked(target: str) -> str:
    """A target as a log may show it: tokens stand in hosts, paths, users and queries, so nearly nothing stays."""
    scheme, separator, _ = target.partition("://")
    if not separator or not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]{0,30}", scheme):
        return "(a target that is not a URL)"
    if scheme.lower() not in ("http", "https"):
        return f"{scheme}://…"
    try:
        parts = urlsplit(target)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return f"{scheme}://…"
    rest = "/…" if parts.path.strip("/") or parts.query else ""
    return f"{scheme}://{shown(parts.hostname or '', 80)}{port}{rest}"


class NotDelivered(Exception):
    """A message that a target did not take; the text says why, without secrets."""

    def __init__(self, why: str, status: int | None = None) -> None:
        super().__init__(why)
        self.status = status
        """Of HTTP, if it answered."""


class Sender:
    def __init__(self, target: str) -> None:
        self.target = target
        self.name = masked(target)
        self.key = key_of(target)
        """The target's name in the state file."""

    def send(self, pending: Sequence[News]) -> Iterator[Sequence[News]]:
        """Yield each message once it is delivered. Raises NotDelivered."""
        raise NotImplementedError


class _Webhook(Sender):
    """Alertmanager's `POST /api/v2/alerts`, or anything that takes the same."""

    def send(self, pending: Sequence[News]) -> Iterator[Sequence[News]]:
        if not pending:
            return
        now = datetime.now(UTC)
        # To Alertmanager another severity is another alert: the lesser one ends where the graver begins.
        ended = [replace(n, status="over", severity=n.sent_as, sent_as=None) for n in pending if n.sent_as]
        data = json.dumps([_alertmanager(news, now) for news in [*ended, *pending]]).encode()
        post(self.target, data)
        yield pending


def post(target: str, data: bytes) -> bytes:
    """Send JSON to an address; returns the answer. Raises NotDelivered; a redirect is not followed."""
    return ask("POST", target, data)


def ask(method: str, target: str, data: bytes | None = None) -> bytes:
    """Send JSON by any method, like `post`."""
    url, headers = _without_userinfo(target)
    headers["Content-Type"] = "application/json"
    request = urllib.request.Request(url, data=data, headers=headers, method=method)
    try:
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=HTTP_TIMEOUT_S) as answer:
            read: bytes = answer.read()
            return read
    except urllib.error.HTTPError as error:
        raise NotDelivered(f"it answered HTTP {error.code}.", error.code) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        reason = getattr(reason, "strerror", None) or reason
        raise NotDelivered(f"{_without_secrets(str(reason), target)}.") from None


def _without_userinfo(target: str) -> tuple[str, dict[str, str]]:
    """`user:password@` of a URL becomes a header: urllib takes it for a part of the host."""
    parts = urlsplit(target)
    userinfo, at, host = parts.netloc.rpartition("@")
    if not at:
        return target, {}
    token = base64.b64encode(unquote(userinfo).encode()).decode()
    return parts._replace(netloc=host).geturl(), {"Authorization": f"Basic {token}"}


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirected POST becomes a GET elsewhere and looks delivered: refuse it."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


class _Apprise(Sender):
    def __init__(self, target: str) -> None:
        super().__init__(target)
        with _apprise_log() as log:
            notifier = apprise.Apprise.instantiate(target, suppress_exceptions=True)
        if notifier is None:
            why = _without_secrets(log.getvalue().strip().splitlines()[-1], target) if log.getvalue().strip() else ""
            raise NoTargetError(
                f"{self.name} is no alert target: use http(s)://… for Alertmanager's JSON, or a URL that apprise knows"
                + (f" ({why})." if why else ".")
            )
        self._notifier = apprise.Apprise()
        self._notifier.add(notifier)

    def send(self, pending: Sequence[News]) -> Iterator[Sequence[News]]:
        if len(pending) > MESSAGES_PER_RUN:
            opened = sum(news.status == "open" for news in pending)
            head = f"{counted(opened, 'new incident')}, {len(pending) - opened} over"
            self._notify(head, "\n".join(title(news) for news in pending), _worst(pending))
            yield pending
            return
        for news in pending:
            self._notify(title(news), body(news), _worst([news]))
            yield [news]

    def _notify(self, head: str, text: str, kind: str) -> None:
        with _apprise_log() as log:
            ok = self._notifier.notify(title=head, body=text, notify_type=kind, body_format=apprise.NotifyFormat.TEXT)
        if not ok:
            lines = [line for line in log.getvalue().splitlines() if line.strip()]
            why = _without_secrets(lines[-1], self.target) if lines else "no reason was given"
            raise NotDelivered(why.rstrip(".") + ".")


def sender_for(target: str) -> Sender:
    """The sender for a target's address. A webhook's address as Slack, Discord or Teams give it out is known to
    apprise; any other http(s) one is taken for Alertmanager's."""
    if "://" not in target:
        raise NoTargetError(
            "An alert target is no URL: use http(s)://… for Alertmanager's JSON, or a URL that apprise knows."
        )
    if target.lower().startswith(("http://", "https://")):
        if not urlsplit(target).hostname:
            raise NoTargetError(f"{masked(target)} names no host to send alerts to.")
        with _apprise_log():
            is_known = apprise.Apprise.instantiate(target, suppress_exceptions=True) is not None
        if not is_known:
            return _Webhook(target)
    return _Apprise(target)


def refuse_no_target(targets: Sequence[str]) -> None:
    """Raises NoTargetError if nothing could be sent to one of these."""
    for target in targets:
        sender_for(target)


def _worst(pending: Sequence[News]) -> str:
    if all(news.status != FindingStatus.OPEN for news in pending):
        return str(apprise.NotifyType.SUCCESS.value)
    severities = {news.severity for news in pending if news.status == FindingStatus.OPEN}
    if Severity.CRITICAL in severities:
        return str(apprise.NotifyType.FAILURE.value)
    return str((apprise.NotifyType.WARNING if Severity.WARNING in severities else apprise.NotifyType.INFO).value)


def _alertmanager(news: News, now: datetime) -> dict[str, Any]:
    i = news.incident
    starts = _rfc3339(i.first_at_ms, now)
    ends = now + OPEN_FOR if news.status == "open" else max(_rfc3339(i.last_at_ms, now), starts)
    return {
        # Alertmanager knows an alert by its labels: only what stays the same while an incident grows may be one.
        "labels": {
            "alertname": "RebalanceIncident",
            "cluster": safe(i.cluster_id, 100),
            "severity": news.severity,
            "subject": safe(news.subject, SUBJECT_WIDTH),
            "incident_id": i.incident_id,
        },
        "annotations": {
            "summary": safe(i.title, TITLE_WIDTH),
            "description": body(news),
            "kind": i.kind,
            **({} if news.runbook is None else {"runbook_url": news.runbook.url(i)}),
        },
        "startsAt": starts.isoformat(timespec="milliseconds"),
        # An incident that is over ended in the past; Alertmanager takes that for resolved.
        "endsAt": ends.isoformat(timespec="milliseconds"),
    }


def _rfc3339(at_ms: int, now: datetime) -> datetime:
    """Never later than now: Alertmanager refuses an alert that ends before it starts, and clocks may be ahead."""
    try:
        return min(datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=at_ms), now)
    except OverflowError:
        return now


@contextlib.contextmanager
def _apprise_log() -> Iterator[Any]:
    """apprise's own messages, kept from every other handler as those of its HTTP client: they hold tokens."""
    loggers = [logging.getLogger(name) for name in ("apprise", "urllib3", "requests")]
    before = [log.propagate for log in loggers]
    silence = logging.NullHandler()
    for log in loggers:
        log.propagate = False
        log.addHandler(silence)
    try:
        with apprise.LogCapture(level=logging.WARNING, fmt="%(message)s") as captured:
            yield captured
    finally:
        for log, propagate in zip(loggers, before, strict=True):
            log.propagate = propagate
            log.removeHandler(silence)


def _without_secrets(text: str, target: str) -> str:
    text = text.replace(target, masked(target))
    rest = target.partition("://")[2]
    for part in sorted(re.split(r"[/?&=@:,\s]+", rest), key=len, reverse=True):
        if len(part) >= 4 and part != (urlsplit(target).hostname if target.startswith("http") else None):
            text = text.replace(part, "***")
    return shown(text, 200)
