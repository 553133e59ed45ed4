"""CN001, CN002, CN005: Connect's rounds: tasks that wait, are revoked again and again, or are not assigned."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from rebalance_audit.domain.causes import Cause
from rebalance_audit.domain.detect.finding import Extent
from rebalance_audit.domain.detect.history import History, HistoryStep, bursts, identity, label, refs_of
from rebalance_audit.domain.detect.modes import number
from rebalance_audit.domain.detect.wording import clock, counted, duration, folded, likely, listed, shown
from rebalance_audit.domain.kinds import MemberChange, Mode, MovementKind, Severity
from rebalance_audit.domain.model import Finding, Member, Movement


@dataclass(slots=True)
class _Delay:
    """One scheduled delay: from the round that announced it to the round that ended it."""

    first: HistoryStep
    steps: list[HistoryStep] = field(default_factory=list)
    end: HistoryStep | None = None

    @property
    def announced_ms(self) -> int:
        return self.first.rebalance.connect_delay_ms or 0

    @property
    def missing(self) -> list[Member]:
        gone = {identity(m): m for s in self.steps for m in s.rebalance.members if m.change == MemberChange.LEFT}
        return list(gone.values())

    @property
    def came_back(self) -> bool:
        """The missing worker itself, or another in its place."""
        later = [s for s in (*self.steps, self.end) if s is not None and s is not self.first]
        joined = {who for s in later for who in s.joined}
        if all(identity(m) in joined for m in self.missing):
            return True
        return len(joined) >= len(self.missing)


def tasks_waiting(history: History) -> list[Finding]:
    """Tasks were unassigned during Connect's scheduled delay: info by design, a warning when the worker stays away.

    Silent for a delay with which no task waits (a postponed revocation), and for a rebalance without a delay.
    """
    found: list[Finding] = []
    for delay in _delays(history):
        waiting = _waiting(delay)
        count = max(len(waiting), *(s.rebalance.unassigned_count or 0 for s in delay.steps))
        if not count:
            continue
        start_ms = delay.first.at_ms
        end_ms = delay.end.at_ms if delay.end is not None else history.now_ms
        due_ms = start_ms + delay.announced_ms + history.limits.delay_slack_ms
        names = listed([label(m) for m in delay.missing]) or "a worker"
        is_open = delay.end is None
        is_late = is_open and history.now_ms > due_ms
        stays_away = bool(delay.missing) and not delay.came_back
        tasks = counted(count, "task or connector", "tasks and connectors")
        if is_late:
            title = (
                f"{tasks} of {history.group} still wait {duration(history.now_ms - start_ms)} after {names} went; the "
            )
            title += f"announced delay was {duration(delay.announced_ms)}"
        elif is_open:
            title = (
                f"{tasks} of {history.group} wait for {names}, by design until {clock(start_ms + delay.announced_ms)}"
            )
        else:
            title = f"{tasks} of {history.group} waited {duration(end_ms - start_ms)} for {names}"
            title += ", which did not come back" if stays_away else ", as designed"
        worst = _longest(delay, waiting)
        pause = (
            f" Longest without its task: "
            f"{likely(worst.pause_estimate_ms, worst.pause_likely_lower_ms, worst.pause_likely_upper_ms)}."
            if worst is not None
            else ""
        )
        found += history.finding(
            "CN001",
            Extent(
                key=delay.first.rebalance.rebalance_id,
                is_open=is_open,
                first_seen_at_ms=delay.first.first_at_ms,
                last_seen_at_ms=end_ms,
            ),
            severity=Severity.WARNING if is_late or (stays_away and not is_open) else Severity.INFO,
            title=title,
            detail=f"Delay announced at {number(delay.first.rebalance)}: {duration(delay.announced_ms)}. "
            f"Waiting: {folded(waiting) or 'not known by name'}.{pause}",
            numbers={
                "waiting_count": count,
                "announced_delay_ms": delay.announced_ms,
                "waited_ms": end_ms - start_ms,
                "workers_missing": [label(m) for m in delay.missing],
                "came_back": not stays_away,
            },
            advice=_delay_advice(stays_away, is_open=is_open, is_late=is_late),
            evidence=refs_of([*delay.steps, *([delay.end] if delay.end else [])]),
        )
    return found


def _delay_advice(stays_away: bool, *, is_open: bool, is_late: bool) -> str:
    if is_late:
        return (
            "Look at the leader's log: the round that ends the delay did not come. Restarting the leader hands out its "
            "tasks."
        )
    shorter = "Where workers are removed on purpose or restart quickly, a lower value of it shortens the wait."
    if stays_away and is_open:
        return (
            "Bring the worker back, or remove it for good: the others take its tasks only after "
            f"scheduled.rebalance.max.delay.ms. {shorter}"
        )
    if stays_away:
        return (
            "The others took its tasks once scheduled.rebalance.max.delay.ms was over. Start the worker again if "
            f"it is needed. {shorter}"
        )
    return "Nothing, if the worker was restarted on purpose. scheduled.rebalance.max.delay.ms sets how long tasks wait."


def _delays(history: History) -> Iterator[_Delay]:
    current: _Delay | None = None
    for step in history.attempts:
        r = step.rebalance
        if r.protocol_type != "connect" or not step.is_settled:
            continue
        if r.connect_delay_ms:
            current = current or _Delay(first=step)
            current.steps.append(step)
        elif current is not None:
            current.end = step
            yield current
            current = None
    if current is not None:
        yield current


def _waiting(delay: _Delay) -> list[str]:
    held = {r for m in delay.missing for r in m.owned_before or ()}
    gained = {r for m in delay.first.rebalance.members for r in m.assigned or ()}
    if not held:
        held = {
            m.resource
            for m in delay.first.rebalance.movements
            if m.kind == MovementKind.REVOKED and m.to_member_id is None
        }
    return sorted(held - gained)


def _longest(delay: _Delay, waiting: list[str]) -> Movement | None:
    ends = delay.end.rebalance.movements if delay.end is not None else ()
    names = set(waiting)
    return max(
        (m for m in ends if m.resource in names and m.pause_estimate_ms is not None),
        key=lambda m: m.pause_estimate_ms or 0,
        default=None,
    )


def revocation_rounds(history: History) -> list[Finding]:
    """Connect rounds in a row took work away from workers.

    Silent for one hand-over (a round that revokes, one that assigns), and for consumer groups.
    """
    found: list[Finding] = []
    run: list[HistoryStep] = []

    def close() -> None:
        if run and len(run) >= history.limits.revoking_rounds:
            total = sum(s.rebalance.revoked_count or 0 for s in run)
            found.extend(
                history.finding(
                    "CN002",
                    history.extent(run),
                    severity=Severity.WARNING,
                    title=f"{len(run)} rounds of {history.group} in a row revoked tasks: "
                    f"{counted(total, 'revocation')} in {duration(run[-1].at_ms - run[0].first_at_ms)}",
                    numbers={"round_count": len(run), "revoked_count": total},
                    advice="Workers joining one by one make the leader revoke again and again: start them together, "
                    "and "
                    "use workers of 3.4 or later, which back off.",
                    evidence=refs_of(run),
                )
            )
        run.clear()

    for step in history.attempts:
        r = step.rebalance
        if r.protocol_type != "connect" or r.mode == Mode.EAGER or not step.is_settled:
            continue
        if r.revoked_count and (not run or step.at_ms - run[-1].at_ms <= history.limits.quiet_ms):
            run.append(step)
        else:
            close()
            if r.revoked_count:
                run.append(step)
    close()
    return found


def failing_rounds(history: History) -> list[Finding]:
    """Connect rounds ended with an assignment error, or a worker was behind with its configuration.

    Silent for rounds whose assignment arrived.
    """
    failing: list[HistoryStep] = []
    for step in history.attempts:
        r = step.rebalance
        is_follower = Cause.CONNECT_ASSIGNMENT_FAILED in {r.trigger, *(t.trigger for t in r.triggers)}
        # The round that failed is the one; where it is not in evidence, the one that it made necessary shows it.
        if r.connect_error or (is_follower and not (failing and failing[-1].index == step.index - 1)):
            failing.append(step)
    found: list[Finding] = []
    for part in bursts(failing, history.limits.quiet_ms):
        after = {s.index for s in part} | {s.index + 1 for s in part}
        details = [
            t.detail
            for s in history.attempts
            if s.index in after
            for t in s.rebalance.triggers
            if t.trigger == Cause.CONNECT_ASSIGNMENT_FAILED
        ]
        found += history.finding(
            "CN005",
            history.extent(part),
            severity=Severity.WARNING,
            title=f"{counted(len(part), 'round')} of Connect cluster {history.group} failed to assign",
            detail=shown(details[0], 300) if details and details[0] else None,
            numbers={"round_count": len(part)},
            advice="See whether every worker can read the config topic to its end; restart the worker that is behind.",
            evidence=refs_of(part, Cause.CONNECT_ASSIGNMENT_FAILED),
        )
    return found
