"""Attempts of a classic group by its coordinator's log lines alone.

Lines say when a join phase began and ended, and show generations that never got a record.
"""

from __future__ import annotations

from collections.abc import Iterable

from rebalance_audit.domain.causes import Cause
from rebalance_audit.domain.log_lines.reasons import classify_reason
from rebalance_audit.domain.model import LogEvent, LogKind
from rebalance_audit.domain.reconstruct.attempts.attempt import Attempt

_LOOK_BACK = 20
"""An assignment arrives while its generation is among the last."""
_DOWNGRADE = "Downgrade group "
_ONE_OPERATION_MS = 200
"""Lines that one request caused are no further apart (docs/measured.md#lines-and-records)."""
_CLOSING = (LogKind.STABILIZED, LogKind.EMPTIED)
_MEMBER_KINDS = frozenset(
    {
        LogKind.MEMBERS_NOT_REJOINED,
        LogKind.LEADER_REPLACED,
        LogKind.MEMBER_JOINED,
        LogKind.MEMBER_LEFT,
        LogKind.MODERN_MEMBER_LEFT,
        LogKind.MEMBER_FAILED,
        LogKind.MEMBER_FENCED,
        LogKind.STATIC_MEMBER_REPLACED,
        LogKind.EMPTY_ASSIGNMENT,
    }
)


class _LineReader:
    """Reads attempts from lines: one per `Preparing` line, or per closing line whose `Preparing` is not in evidence."""

    def __init__(self) -> None:
        self.attempts: list[Attempt] = []
        self._running: Attempt | None = None
        self._incarnation = 0
        self._closed: Attempt | None = None
        self._waiting: list[LogEvent] = []

    def hear(self, line: LogEvent) -> None:
        number = line.fields.get("generation_id")
        running = self._running
        if line.kind is LogKind.PREPARING and isinstance(number, int):
            self._prepare(line, number)
        elif line.kind in _CLOSING and isinstance(number, int):
            self._close(line, number)
        elif line.kind is LogKind.ASSIGNMENT_RECEIVED and isinstance(number, int):
            owner = next(
                (a for a in reversed(self.attempts[-_LOOK_BACK:]) if a.number == number and not a.rewrite_seq), None
            )
            (owner or self._begin(number)).received = line
        elif line.kind is LogKind.JOIN_PHASE_FAILED:
            if running is not None:
                running.during.append(line)
        elif line.kind is LogKind.NO_MEMBER_REJOINED and running is not None:
            running.failure, self._running = line, None
        elif line.kind is LogKind.PERSIST_FAILED and self.attempts:
            self.attempts[-1].failure = line
        elif line.kind is LogKind.STATIC_MEMBER_REPLACED and running is None and self.attempts:
            last = self.attempts[-1]
            self._begin(last.number, rewrite_seq=last.rewrite_seq + 1, replaced=line)
        elif line.kind in _MEMBER_KINDS:
            (self._waiting if running is None else running.during).append(line)

    def ended(self) -> list[Attempt]:
        """All attempts; there are no more lines."""
        self._end_waiting(None)
        return self.attempts

    def _begin(
        self,
        number: int,
        *,
        rewrite_seq: int = 0,
        preparing: LogEvent | None = None,
        replaced: LogEvent | None = None,
        converted: LogEvent | None = None,
    ) -> Attempt:
        attempt = Attempt(
            number=number,
            incarnation=self._incarnation,
            rewrite_seq=rewrite_seq,
            preparing=preparing,
            replaced=replaced,
            converted=converted,
        )
        self.attempts.append(attempt)
        return attempt

    def _prepare(self, line: LogEvent, number: int) -> None:
        last = self.attempts[-1] if self.attempts else None
        if last is not None and last.replaced is not None and _is_near(last.replaced, line):
            # It came back with another subscription or protocol: a rebalance, not a rewrite.
            self._waiting.insert(0, last.replaced)
            self.attempts.pop()
        reason = str(line.fields.get("reason", ""))
        if reason.startswith(_DOWNGRADE):
            self._begin(number, converted=line)
        if last is not None and last.number == number and classify_reason(reason, None).trigger == Cause.APPEND_FAILED:
            last.unwritten = line
        if number == 0 and self.attempts and self.attempts[-1].number > 1:
            self._incarnation += 1  # deleted meanwhile, and started again
        self._end_waiting(line)
        self._running = self._begin(number + 1, preparing=line)
        self._running.during, self._waiting = self._waiting, []

    def _close(self, line: LogEvent, number: int) -> None:
        running = self._running
        if running is None or running.number != number:
            running = self._begin(number)
            running.during, self._waiting = self._waiting, []
        if line.kind is LogKind.STABILIZED:
            running.stabilized = line
        else:
            running.emptied = line
        self._running, self._closed = None, running

    def _end_waiting(self, next_line: LogEvent | None) -> None:
        """Gives the lines that were put aside to the attempt that has just ended. Before 4.0 the line of a LeaveGroup
        comes after the lines of what it caused, so the line of the member for which the join phase waited comes after
        its end."""
        if self._closed is None:
            return
        end = self._closed.stabilized or self._closed.emptied
        of_end = [
            line for line in self._waiting
            if line.kind is LogKind.MEMBER_LEFT and end is not None and _is_near(end, line)
            and (next_line is None or _apart_ms(end, line) < _apart_ms(line, next_line))
        ]  # fmt: skip
        self._closed.during += of_end
        self._waiting = [line for line in self._waiting if line not in of_end]


def attempts_by_lines(lines: Iterable[LogEvent]) -> list[Attempt]:
    reader = _LineReader()
    for line in lines:
        if line.at_ms is not None:
            reader.hear(line)
    return reader.ended()


def _is_near(one: LogEvent, other: LogEvent) -> bool:
    return _apart_ms(one, other) <= _ONE_OPERATION_MS


def _apart_ms(one: LogEvent, other: LogEvent) -> int:
    return abs((one.at_ms or 0) - (other.at_ms or 0))


def line_order(line: LogEvent) -> tuple[int, str, str]:
    # Within one file the byte decides; refs end in it, so pad the number.
    head, _, byte = line.ref.rpartition("@")
    return (line.at_ms or 0, head, byte.rjust(20, "0"))
