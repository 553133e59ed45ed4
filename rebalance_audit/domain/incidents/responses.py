"""What people answered to incidents: who acknowledged one, who silenced alerts, until when and why.

Rows are only ever added. Of two acknowledgements the first stands; of two silences of one pattern the last.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, NamedTuple, Protocol

from rebalance_audit.domain.detect.wording import clock, shown

TEXT_LENGTH = 500
PATTERN_LENGTH = 249
"""Chosen: as long as a topic's name may be."""
LONGEST_SILENCE_MS = 366 * 86_400_000
"""Chosen: who set a silence of years has left by its end."""
_REASON_WIDTH, _NAME_WIDTH = 200, 60


class ResponseRefused(ValueError):
    """The answer cannot be taken as given: one sentence with the fault and the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """One answer of one person; columns of gold.response."""

    kind: str
    """`acknowledged` or `silenced`."""
    cluster_id: str | None = None
    """The cluster of the incident or silence; None is a silence for all clusters."""
    incident_id: str | None = None
    """What was acknowledged."""
    pattern: str | None = None
    """What was silenced: a shell pattern of groups, of culprits where no group is concerned, or of an incident's id."""
    by: str
    at_ms: int
    until_ms: int | None = None
    """When the silence ends (exclusive); one that ends when it was made lifts those before it."""
    reason: str | None = None


class Subject(Protocol):
    """The part of an incident that answers are about."""

    @property
    def cluster_id(self) -> str: ...
    @property
    def incident_id(self) -> str: ...
    @property
    def group_ids(self) -> Sequence[str]: ...
    @property
    def culprits(self) -> Sequence[str]: ...


class Standing(NamedTuple):
    """The answers in force for one incident at a moment."""

    acknowledged: Response | None
    """The first one."""
    also: tuple[Response, ...]
    """Those who acknowledged it after the first."""
    silenced: Response | None
    """The silence that ends last, of those in force."""


def acknowledgement(incident: Subject, by: str, at_ms: int, reason: str | None) -> Response:
    """Raises ResponseRefused for a name or a reason that is none."""
    return Response(
        kind="acknowledged",
        cluster_id=incident.cluster_id,
        incident_id=incident.incident_id,
        by=_text("The name", by, _NAME_WIDTH),
        at_ms=at_ms,
        reason=_text("The reason", reason, TEXT_LENGTH) if reason is not None else None,
    )


def silence(
    pattern: str, by: str, at_ms: int, until_ms: int | None, reason: str | None, cluster_id: str | None = None
) -> Response:
    """Raises ResponseRefused: no end, no reason, an end that is past or years ahead."""
    if until_ms is None:
        raise ResponseRefused("A silence needs an end; say until when, as 2h or 2026-11-21T14:00.")
    if reason is None:
        raise ResponseRefused("A silence needs a reason; say why, for those who look for the alert.")
    if until_ms < at_ms:
        raise ResponseRefused(
            f"The silence would end at {clock(until_ms)}, which is past; give a time to come, or `now`."
        )
    if until_ms - at_ms > LONGEST_SILENCE_MS:
        raise ResponseRefused(f"The silence would last until {clock(until_ms)}; give an end within a year.")
    return Response(
        kind="silenced",
        cluster_id=cluster_id,
        pattern=_text("The pattern", pattern, PATTERN_LENGTH),
        by=_text("The name", by, _NAME_WIDTH),
        at_ms=at_ms,
        until_ms=until_ms,
        reason=_text("The reason", reason, TEXT_LENGTH),
    )


def _text(what: str, text: str, most: int) -> str:
    said = text.strip()
    if not said:
        raise ResponseRefused(f"{what} is empty; give 1 to {most} characters.")
    if len(said) > most:
        raise ResponseRefused(f"{what} has {len(said):,} characters; give 1 to {most}.")
    return said


def standing(incident: Subject, responses: Iterable[Response], now_ms: int) -> Standing:
    """The answers in force for the incident at `now_ms`. `responses` may be about others too, in any order."""
    ordered = in_order(responses)
    acknowledged = [r for r in ordered if (r.cluster_id, r.incident_id) == (incident.cluster_id, incident.incident_id)]
    last = {(r.cluster_id, r.pattern): r for r in ordered if r.kind == "silenced" and r.at_ms <= now_ms}
    lasting = [r for r in last.values() if (r.until_ms or 0) > now_ms and covers(r, incident)]
    return Standing(
        acknowledged=acknowledged[0] if acknowledged else None,
        also=tuple(acknowledged[1:]),
        silenced=max(lasting, key=lambda r: (r.until_ms or 0, r.at_ms), default=None),
    )


def covers(silenced: Response, incident: Subject) -> bool:
    """A silence covers an incident if it fits all its groups: one that reaches further is still heard."""
    if silenced.pattern is None or silenced.cluster_id not in (None, incident.cluster_id):
        return False
    names = incident.group_ids or incident.culprits
    fits = bool(names) and all(fnmatchcase(name, silenced.pattern) for name in names)
    return fits or fnmatchcase(incident.incident_id, silenced.pattern)


def fits_group(silenced: Response, cluster_id: str, group_id: str) -> bool:
    """Whether a silence would cover an incident of this group alone."""
    if silenced.pattern is None or silenced.cluster_id not in (None, cluster_id):
        return False
    return fnmatchcase(group_id, silenced.pattern)


def in_order(responses: Iterable[Response]) -> list[Response]:
    """Sorted by time, then id: every reader sees two of the same millisecond in the same order."""
    return sorted(responses, key=lambda r: (r.at_ms, response_id(r)))


def acknowledged_words(stands: Standing) -> str | None:
    """`acknowledged by anna at 2026-11-21 14:03:11 UTC: rolling back; also by ben (asking)`. None: by nobody."""
    first = stands.acknowledged
    if first is None:
        return None
    others = list(dict.fromkeys(_name_and_why(r) for r in stands.also if (r.by, r.reason) != (first.by, first.reason)))
    also = f"; also by {', '.join(others[:3])}" + (" and others" if len(others) > 3 else "") if others else ""
    return f"acknowledged by {shown(first.by, _NAME_WIDTH)} at {clock(first.at_ms)}{_why(first)}{also}"


def silenced_words(stands: Standing) -> str | None:
    """`alerts silenced by anna until 2026-11-21 16:00:00 UTC: planned work`. None: not now."""
    now = stands.silenced
    if now is None:
        return None
    return f"alerts silenced by {shown(now.by, _NAME_WIDTH)} until {clock(now.until_ms)}{_why(now)}"


def standing_words(stands: Standing) -> Sequence[str]:
    """Each answer in force, in words; nothing where nobody answered."""
    return [words for words in (acknowledged_words(stands), silenced_words(stands)) if words is not None]


def _why(response: Response) -> str:
    return f": {shown(response.reason, _REASON_WIDTH)}" if response.reason else ""


def _name_and_why(response: Response) -> str:
    reason = f" ({shown(response.reason, _REASON_WIDTH)})" if response.reason else ""
    return shown(response.by, _NAME_WIDTH) + reason


def response_id(response: Response) -> str:
    parts = "\x00".join(str(getattr(response, name)) for name in Response.__dataclass_fields__)
    return f"rs:{hashlib.sha256(parts.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def response_row(response: Response) -> dict[str, Any]:
    """Columns of gold.response."""
    return {"response_id": response_id(response)} | {
        name: getattr(response, name) for name in Response.__dataclass_fields__
    }


def response_of(row: Mapping[str, Any]) -> Response:
    """The answer of a row of gold.response."""
    return Response(**{name: row[name] for name in Response.__dataclass_fields__})
