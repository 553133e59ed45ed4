"""The client libraries that log lines state: by the reasons, which they quote, that members send."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from rebalance_audit.domain.client_families import ALL, Families, families_of_reason
from rebalance_audit.domain.log_lines.reasons import classify_reason
from rebalance_audit.domain.model import LogEvent, LogKind

UUID_LENGTH = 37
"""Length of the random end of a member id, with its dash."""


def stated_families(lines: Iterable[LogEvent], before: Mapping[str, Families]) -> dict[str, Families]:
    """By client id: the libraries that send the reasons which lines quote. `before`: the same by earlier lines."""
    found = dict(before)
    for client_id, families in statements(lines):
        # Two libraries under one client id: nothing is known of either.
        found[client_id] = families if found.get(client_id, families) == families else ALL
    return found


def statements(lines: Iterable[LogEvent]) -> Iterator[tuple[str, Families]]:
    """Client ids, and the libraries that send what a line quotes of one."""
    for line in lines:
        members_of = _REASON_OF.get(line.kind)
        if members_of is None or not line.fields.get("client_reason"):
            continue
        families = families_of_reason(str(line.fields["client_reason"]))
        if families == ALL:
            continue
        for member_id in members_of(line):
            yield member_id[:-UUID_LENGTH], families


def _member_of(line: LogEvent) -> tuple[str, ...]:
    ids = (*line.fields.get("member_ids", ()), line.fields.get("member_id"))
    return tuple(i for i in ids if i is not None)


def _member_of_reason(line: LogEvent) -> tuple[str, ...]:
    return classify_reason(line.fields.get("reason", ""), line.fields.get("client_reason")).member_ids


_REASON_OF: Mapping[LogKind, Callable[[LogEvent], tuple[str, ...]]] = {
    LogKind.PREPARING: _member_of_reason,
    LogKind.MEMBER_LEFT: _member_of,
}
