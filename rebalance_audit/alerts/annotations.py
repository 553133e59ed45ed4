"""Incidents and marks as annotations of Grafana, by its HTTP API: each once, changed when it changes.

Source: Grafana's Annotations HTTP API (POST, PATCH and GET /api/annotations).
"""

from __future__ import annotations

import hashlib
import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlsplit

from rebalance_audit.alerts.state import locked, state_of
from rebalance_audit.alerts.target import AlertError, NoTargetError
from rebalance_audit.warehouse.advice import weigh_to_send

NOTE = "annotations"
TAG = "rebalance-audit"
LONGEST_TEXT = 2_000


def annotate(opened: Any, url: str, token: str, *, from_ms: int | None = None, timeout_s: float = 10) -> int:
    """Draw incidents and marks in Grafana; returns how many annotations were written or changed. Raises AlertError
    where Grafana is away or refuses; those before that are remembered."""
    grafana = _Grafana(url, token, timeout_s)
    changed = 0
    with locked(state_of(opened.location, NOTE)):
        note: dict[str, dict[str, Any]] = opened.recall(NOTE)
        known = note.setdefault(grafana.address, {})
        wanted = dict(_annotations(opened, from_ms))
        try:
            for name, annotation in wanted.items():
                digest = hashlib.sha256(json.dumps(annotation, sort_keys=True).encode()).hexdigest()[:16]
                before = known.get(name)
                if before is not None and before["digest"] == digest:
                    continue
                # Unknown here, but Grafana may have it: an answer that was lost, or a note that was.
                found = before["id"] if before is not None else grafana.find(name)
                number = grafana.add(annotation) if found is None else grafana.change(found, annotation)
                known[name] = {"id": number, "digest": digest}
                changed += 1
        finally:
            if changed:
                opened.remember(NOTE, note)
    return changed


def _annotations(opened: Any, from_ms: int | None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Name (also a tag, by which it is found again) and content."""
    incidents = opened.query(
        "SELECT cluster_id, incident_id, kind, severity, status, first_at_ms, last_at_ms, title, advice, group_ids"
        " FROM gold.incident WHERE NOT expected AND (?::BIGINT IS NULL OR last_at_ms >= ?) ORDER BY first_at_ms, 1, 2",
        [from_ms, from_ms],
    ).to_pylist()
    weigh_to_send(incidents, opened)
    for row in incidents:
        text = row["title"] if row["advice"] is None else f"{row['title']}. {row['advice']}"
        tags = [row["incident_id"], row["kind"], row["severity"], row["status"], f"cluster:{row['cluster_id']}"]
        groups = [f"group:{group}" for group in row["group_ids"][:20]]
        yield row["incident_id"], {
            "time": row["first_at_ms"], "timeEnd": row["last_at_ms"], "text": _plain(text),
            "tags": [TAG, *tags, *groups],
        }  # fmt: skip
    marks = opened.query(
        "SELECT mark_id, cluster_id, at_ms, text, scope FROM gold.mark"
        " WHERE (?::BIGINT IS NULL OR at_ms >= ?) ORDER BY at_ms, 1",
        [from_ms, from_ms],
    ).to_pylist()
    for row in marks:
        yield row["mark_id"], {
            "time": row["at_ms"], "text": _plain(row["text"]),
            "tags": [TAG, row["mark_id"], "mark", f"cluster:{row['cluster_id']}", f"group:{row['scope']}"],
        }  # fmt: skip


def _plain(text: str) -> str:
    """Grafana draws annotations as HTML; what clients named stays text."""
    return text[:LONGEST_TEXT].replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


class _Grafana:
    def __init__(self, url: str, token: str, timeout_s: float) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query:
            raise NoTargetError("--to must be Grafana's own address, http(s)://HOST:PORT, without user and query.")
        if not token:
            raise AlertError("Grafana wants a service account token; give --token-file FILE or set GRAFANA_TOKEN.")
        self.address, self._token, self._timeout_s = url.rstrip("/"), token, timeout_s

    def find(self, tag: str) -> int | None:
        found = self._ask("GET", f"/api/annotations?type=annotation&limit=1&tags={quote(TAG)}&tags={quote(tag)}", None)
        return int(found[0]["id"]) if found else None

    def add(self, annotation: Mapping[str, Any]) -> int:
        return int(self._ask("POST", "/api/annotations", annotation)["id"])

    def change(self, number: int, annotation: Mapping[str, Any]) -> int:
        self._ask("PATCH", f"/api/annotations/{number}", annotation)
        return number

    def _ask(self, method: str, path: str, content: Mapping[str, Any] | None) -> Any:
        request = urllib.request.Request(
            self.address + path,
            method=method,
            data=None if content is None else json.dumps(content).encode(),
            headers={"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=self._timeout_s) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            if error.code in (401, 403):
                raise AlertError(
                    f"{self.address} refuses the token ({error.code}); it needs the right annotations:write."
                ) from None
            raise AlertError(
                f"{self.address}{path.partition('?')[0]} answered {error.code}; check the address."
            ) from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            why = getattr(reason, "strerror", None) or reason
            raise AlertError(
                f"{self.address} does not answer ({why}); what was not written is written the next time."
            ) from None
