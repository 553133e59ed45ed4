"""Silences of an Alertmanager, which would otherwise repeat what it was sent before.

`silence --to` sets one of a pattern. `alert` and `watch` keep one for each incident that they sent there and that is
silenced in the warehouse, wherever that was said: in the app, or by `silence`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fnmatch import translate
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, urlsplit

from rebalance_audit.alerts.message import safe
from rebalance_audit.alerts.target import SUBJECT_WIDTH, NoTargetError, NotDelivered, ask, masked, post
from rebalance_audit.domain.incidents.responses import Response, response_id

_ALERTS = re.compile(r"/api/v2/alerts/?$")


def silence_at(target: str, silenced: Response) -> str | None:
    """`POST /api/v2/silences` at the Alertmanager whose `/api/v2/alerts` the target is; the silence's id there.

    It matches the labels that alerts have, `subject` (the first group) and `cluster`. Raises NoTargetError for a target
    that is no Alertmanager, NotDelivered if it does not take it.
    """
    answer = post(silences_url(target), json.dumps(_silence(silenced)).encode())
    try:
        return str(json.loads(answer)["silenceID"])
    except (ValueError, KeyError, TypeError):  # something that only takes the same JSON
        return None


def is_alertmanager(target: str) -> bool:
    """Whether silences can be set at this target."""
    parts = urlsplit(target)
    return parts.scheme in ("http", "https") and _ALERTS.search(parts.path) is not None


def bring_into_line(
    target: str, there: dict[str, dict[str, Any]], wanted: Mapping[str, Response | None]
) -> Iterator[tuple[str, bool]]:
    """Set and lift silences at this Alertmanager; yields each incident, and whether it is silenced there now.

    `wanted`: incidents with the silence that each should have. `there`: those that it has by us, by incident; changed
    as it goes. Incidents in `there` alone are left as they are. Raises NotDelivered.
    """
    for incident_id, silenced in sorted(wanted.items()):
        asked = None if silenced is None else response_id(silenced)
        if incident_id in there and there[incident_id]["answer"] != asked:
            _lift(target, there[incident_id]["id"])
            del there[incident_id]
            if asked is None:
                yield incident_id, False
        if silenced is not None and incident_id not in there:
            found = silence_at(target, replace(silenced, pattern=incident_id))
            there[incident_id] = {"id": found, "answer": asked}
            yield incident_id, True


def _lift(target: str, silence_id: str | None) -> None:
    """One that ended, or that is not known there any more, is lifted already: to delete it would be an error."""
    if silence_id is None:
        return
    url = silences_url(target).removesuffix("s") + f"/{quote(silence_id, safe='')}"
    try:
        state = json.loads(ask("GET", url))["status"]["state"]
    except NotDelivered as failure:
        if failure.status == HTTPStatus.NOT_FOUND:
            return
        raise
    except (ValueError, KeyError, TypeError):
        return
    if state != "expired":
        ask("DELETE", url)


def silences_url(target: str) -> str:
    """The address of this Alertmanager's silences. Raises NoTargetError for a target that has none."""
    if not is_alertmanager(target):
        raise NoTargetError(f"{masked(target)} is no Alertmanager: give the URL that ends in /api/v2/alerts.")
    parts = urlsplit(target)
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
