"""A silence for an Alertmanager, which would otherwise repeat what it was sent before."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from fnmatch import translate
from typing import Any
from urllib.parse import urlsplit

from rebalance_audit.alerts.message import safe
from rebalance_audit.alerts.target import SUBJECT_WIDTH, AlertError, masked, post
from rebalance_audit.domain.incidents.responses import Response

_ALERTS = re.compile(r"/api/v2/alerts/?$")


def silence_at(target: str, silenced: Response) -> None:
    """`POST /api/v2/silences` at the Alertmanager whose `/api/v2/alerts` the target is.

    It matches the labels that alerts have, `subject` (the first group) and `cluster`. Raises AlertError for a target
    that is no Alertmanager, NotDelivered if it does not take it.
    """
    post(silences_url(target), json.dumps(_silence(silenced)).encode())


def silences_url(target: str) -> str:
    """Where this Alertmanager takes silences. Raises AlertError for a target that is none."""
    parts = urlsplit(target)
    if parts.scheme not in ("http", "https") or not _ALERTS.search(parts.path):
        raise AlertError(f"{masked(target)} is no Alertmanager: give the URL that ends in /api/v2/alerts.")
    return parts._replace(path=_ALERTS.sub("/api/v2/silences", parts.path)).geturl()


def _silence(silenced: Response) -> dict[str, Any]:
    pattern = silenced.pattern or ""
    label = "incident_id" if pattern.startswith("in:") else "subject"
    matchers = [_matcher("alertname", "RebalanceIncident"), _matcher(label, _regex(pattern), is_regex=True)]
    if silenced.cluster_id is not None:
        matchers.append(_matcher("cluster", safe(silenced.cluster_id, 100)))
    return {
        "matchers": matchers,
        "startsAt": _rfc3339(silenced.at_ms),
        "endsAt": _rfc3339(max(silenced.until_ms or 0, silenced.at_ms + 1)),
        "createdBy": safe(silenced.by, 100),
        "comment": safe(silenced.reason or "", 500),
    }


def _matcher(name: str, value: str, *, is_regex: bool = False) -> dict[str, Any]:
    return {"name": name, "value": value, "isRegex": is_regex, "isEqual": True}


def _regex(pattern: str) -> str:
    """A shell pattern in the words of Go's RE2, which has no atomic groups and anchors by itself."""
    inner = re.sub(r"^\(\?s:(.*)\)\\[zZ]$", r"\1", translate(safe(pattern, SUBJECT_WIDTH)))
    return re.sub(r"(?<!\\)\(\?>", "(?:", inner)


def _rfc3339(at_ms: int) -> str:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=at_ms)).isoformat(timespec="milliseconds")
