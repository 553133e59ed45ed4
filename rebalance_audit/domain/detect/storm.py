"""RB001: too many rebalances that nothing excuses."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from rebalance_audit.domain.causes import DEPLOYS, FAULTS, FOLLOW_UPS, Cause, cause_of, phrase_of
from rebalance_audit.domain.detect import client_advice
from rebalance_audit.domain.detect.finding import numbers_of
from rebalance_audit.domain.detect.history import History, HistoryStep, Identity, refs_of
from rebalance_audit.domain.detect.limits import Limits
from rebalance_audit.domain.detect.wording import counted, duration
from rebalance_audit.domain.kinds import Outcome, Severity
from rebalance_audit.domain.model import Finding

_ADVICE = {
    Cause.MEMBER_SESSION_EXPIRED: "Find out why the named members die or freeze: restarts, memory limits, network.",
    Cause.LEADER_REJOINED: "Members and partitions did not change: look at the leader client's log and version.",
    Cause.SUBSCRIPTION_CHANGED: "A client keeps sending other subscription data: look at its log and version.",
    Cause.TOPIC_METADATA_CHANGED: "Something keeps creating topics or partitions that this group subscribes to.",
    Cause.CLIENT_REQUESTED: "The application asks for it (enforceRebalance, ForceRebalance): its reason is quoted.",
    Cause.CONNECT_CONFIG_CHANGED: "Something keeps writing connector configurations: find the deploy job or operator.",
    Cause.APPEND_FAILED: "The offsets topic could not be written: look at the in-sync replicas of __consumer_offsets.",
    Cause.COORDINATOR_FAILOVER: "The coordinator keeps moving: look at the brokers that lead __consumer_offsets.",
}
_BOUNDED_BY_DEPLOY = DEPLOYS | {Cause.CONNECT_CONFIG_CHANGED}
_ADVICE_OTHERWISE = "Open the group's rebalances, and look at the log of the member named most often."


class _StormWindow:
    """How many generations the last `span_ms` held."""

    def __init__(self, span_ms: int) -> None:
        self._span_ms = span_ms
        self.steps: deque[HistoryStep] = deque()
        self.count = 0

    def take(self, step: HistoryStep) -> int:
        self.steps.append(step)
        self.count += step.generation_count
        while self.steps and self.steps[0].at_ms <= step.at_ms - self._span_ms:
            self.count -= self.steps.popleft().generation_count
        return self.count


@dataclass(slots=True)
class _Storm:
    steps: list[HistoryStep] = field(default_factory=list)
    peak_short_count: int = 0
    peak_per_minute: int = 0
    minute: _StormWindow = field(default_factory=lambda: _StormWindow(60_000))
    before: Finding | None = None
    """What was found of it in an earlier era."""

    def take(self, step: HistoryStep, short_count: int) -> None:
        self.steps.append(step)
        self.peak_short_count = max(self.peak_short_count, short_count)
        self.peak_per_minute = max(self.peak_per_minute, self.minute.take(step))


def storm(history: History) -> list[Finding]:
    """More unexcused rebalances than the group's limit, over a short or a long window; one finding from start to end.

    Silent for a bounded deploy (each member leaves and returns about once), the protocol's own follow-ups, Streams
    probing, and rewrites of returning static members.
    """
    reasons = excuses(history)
    unexcused = [step for step in history.attempts if reasons[step.index] is None]
    storms = _storms(unexcused, history.limits, history.carried("RB001"))
    return [finding for s in storms for finding in _finding(history, s)]


def excuses(history: History) -> dict[int, str | None]:
    """By step index the reason why a rebalance does not count as part of a storm; None if it counts."""
    limits = history.limits
    budget = _DeployBudget(history)
    reasons: dict[int, str | None] = {}
    chain = 0
    last_probing_ms: int | None = None
    for step in history.attempts:
        r = step.rebalance
        causes = {r.trigger, *(t.trigger for t in r.triggers)}
        in_budget = budget.spend(step)
        reason: str | None = None
        if r.outcome == Outcome.MISSING:
            continue  # judged below, by its neighbours
        if r.trigger in FOLLOW_UPS:
            chain += 1
            if chain <= limits.follow_up_chain:
                reason = phrase_of(r.trigger)
        else:
            chain = 0
            if r.outcome == Outcome.EMPTIED:
                reason = "nobody was left to wait"
            elif r.trigger == Cause.STREAMS_PROBING:
                if last_probing_ms is None or step.at_ms - last_probing_ms >= limits.probing_min_interval_ms:
                    reason = phrase_of(r.trigger)
                last_probing_ms = step.at_ms
            elif r.expected:
                reason = r.expected_reason or "expected"
            elif r.trigger in (Cause.SHARE_STATE_INITIALIZED, Cause.GROUP_CONVERTED):
                reason = phrase_of(r.trigger)
            elif r.trigger in _BOUNDED_BY_DEPLOY and in_budget and not causes & FAULTS:
                reason = "a bounded deploy"
        reasons[step.index] = reason
    _judge_missing(history, reasons)
    return reasons


class _DeployBudget:
    """The changes that may happen in one deploy window without counting; spent in order, old spending expires."""

    def __init__(self, history: History) -> None:
        self._limits = history.limits
        self._same_identity = history.same_identity
        self._turns: deque[tuple[int, str, Identity]] = deque()
        self._turn_count: Counter[tuple[str, Identity]] = Counter()
        self._direction_count: Counter[str] = Counter()
        self._config_changes: deque[int] = deque()
        self._most_members = 1

    def spend(self, step: HistoryStep) -> bool:
        """Book what this rebalance changed; whether all of it is within the budget."""
        limits = self._limits
        start_ms = step.at_ms - limits.deploy_window_ms
        while self._turns and self._turns[0][0] <= start_ms:
            _, direction, who = self._turns.popleft()
            self._turn_count[direction, who] -= 1
            self._direction_count[direction] -= 1
        while self._config_changes and self._config_changes[0] <= start_ms:
            self._config_changes.popleft()
        self._most_members = max(self._most_members, step.rebalance.member_count or 0)
        in_budget = True
        for direction, identities in (("left", step.left), ("joined", step.joined)):
            for who in identities:
                self._turns.append((step.at_ms, direction, who))
                self._turn_count[direction, who] += 1
                self._direction_count[direction] += 1
                allowed = limits.deploy_turns * self._same_identity.get(who, 1)
                # Members with ever new names would each be within their own turns: their sum is bounded as well.
                in_turns = self._turn_count[direction, who] <= allowed
                in_sum = self._direction_count[direction] <= limits.deploy_turns * self._most_members
                in_budget = in_budget and in_turns and in_sum
        if step.rebalance.trigger == Cause.CONNECT_CONFIG_CHANGED:
            self._config_changes.append(step.at_ms)
            in_budget = in_budget and len(self._config_changes) <= limits.deploy_config_changes
        return in_budget


def _judge_missing(history: History, reasons: dict[int, str | None]) -> None:
    """Skipped numbers count if they fell into a short enough time, and are more than an excused neighbour explains."""
    run: list[HistoryStep] = []
    before: HistoryStep | None = None
    for step in history.attempts:
        if step.rebalance.outcome == Outcome.MISSING:
            run.append(step)
            continue
        reason: str | None = None
        if before is None or step.first_at_ms - before.at_ms > history.limits.storm_short_window_ms:
            reason = "nothing shows when it was"
        elif reasons[step.index] is not None and sum(s.generation_count for s in run) <= max(
            2, len(step.joined) + len(step.left)
        ):
            reason = reasons[step.index]
        for skipped in run:
            reasons[skipped.index] = reason
        run, before = [], step
    for skipped in run:
        reasons[skipped.index] = "nothing shows when it was"


def _storms(unexcused: Sequence[HistoryStep], limits: Limits, before: Finding | None) -> Iterator[_Storm]:
    """`before`: the storm that went on as the era before ended."""
    short, long = _StormWindow(limits.storm_short_window_ms), _StormWindow(limits.storm_long_window_ms)
    current = None if before is None else _Storm(before=before)
    last_ms = 0 if before is None else before.last_seen_at_ms
    for step in unexcused:
        if current is not None and step.at_ms - last_ms > limits.storm_quiet_ms:
            if current.steps:
                yield current
            current = None
            # Rebalances of the storm that ended must not help to open the next.
            short, long = _StormWindow(limits.storm_short_window_ms), _StormWindow(limits.storm_long_window_ms)
        last_ms = step.at_ms
        short_count, long_count = short.take(step), long.take(step)
        if current is not None:
            current.take(step, short_count)
        elif short_count > limits.storm_short_count or long_count > limits.storm_long_count:
            current = _Storm()
            for earlier in (short if short_count > limits.storm_short_count else long).steps:
                current.take(earlier, short_count)
    if current is not None and current.steps:
        yield current


def _advice(history: History, steps: Sequence[HistoryStep], cause: Cause) -> str:
    named = (m for s in steps for t in s.rebalance.triggers if t.trigger == cause for m in t.members)
    of = client_advice.families(history.member(m) for m in dict.fromkeys(named))
    match cause:
        case Cause.MEMBER_POLL_TIMEOUT:
            return client_advice.poll_timeout(of)
        case Cause.MEMBER_JOINED:
            return client_advice.restart_storm(of, "restarts", steps[-1].rebalance.group_type)
        case Cause.MEMBER_LEFT:
            return client_advice.restart_storm(of, "stops", steps[-1].rebalance.group_type)
    return _ADVICE.get(cause, _ADVICE_OTHERWISE)


class _Sums(NamedTuple):
    """What a finding says of all rebalances of a storm, those of earlier eras among them."""

    counted: int
    """Those that count towards the limit."""
    all_count: int
    """With excused ones in between."""
    causes: Counter[Cause]
    unchanged_count: int
    lost_s: float | None
    peak_per_minute: int
    is_short: bool
    """Whether the limit of the short window was passed."""
    from_ms: int


def _sums(history: History, storm_: _Storm) -> _Sums:
    steps = storm_.steps
    first, last = steps[0], steps[-1]
    causes: Counter[Cause] = Counter()
    for s in steps:
        causes[s.rebalance.trigger] += s.generation_count
    lost = [s.rebalance.resource_seconds_estimate for s in steps if s.rebalance.resource_seconds_estimate is not None]
    from_index = first.index if storm_.before is None else 0
    own = _Sums(
        counted=sum(s.generation_count for s in steps),
        all_count=sum(s.generation_count for s in history.attempts if from_index <= s.index <= last.index),
        causes=causes,
        unchanged_count=sum(1 for s in steps if s.is_settled and not s.joined and not s.left),
        lost_s=round(sum(lost), 3) if lost else None,
        peak_per_minute=storm_.peak_per_minute,
        is_short=storm_.peak_short_count > history.limits.storm_short_count,
        from_ms=first.first_at_ms,
    )
    return own if storm_.before is None else _together(own, storm_.before, history.limits)


def _together(own: _Sums, before: Finding, limits: Limits) -> _Sums:
    earlier = numbers_of(before.numbers)
    causes = Counter({cause_of(text): count for text, count in earlier["causes"].items()})
    lost = [s for s in (earlier["resource_seconds_estimate"], own.lost_s) if s is not None]
    return _Sums(
        counted=earlier["rebalance_count"] + own.counted,
        all_count=earlier["with_excused_count"] + own.all_count,
        causes=causes + own.causes,
        unchanged_count=earlier["unchanged_member_count"] + own.unchanged_count,
        lost_s=round(sum(lost), 3) if lost else None,
        peak_per_minute=max(earlier["peak_per_minute"], own.peak_per_minute),
        is_short=own.is_short or earlier["limit_window_ms"] == limits.storm_short_window_ms,
        from_ms=before.first_seen_at_ms,
    )


def _who(history: History, storm_: _Storm, sums: _Sums) -> str:
    """The member that came or went most often, or that none did, as the end of a title."""
    steps = storm_.steps
    of_these = sum(s.generation_count for s in steps)
    changes = Counter(who for s in steps for who in dict.fromkeys((*s.left, *s.joined)))
    restless, restless_count = changes.most_common(1)[0] if changes else (None, 0)
    if restless is not None and restless_count * 2 >= of_these:
        among = "them" if storm_.before is None else f"the last {of_these:,}"
        return f"; {history.who(restless)} came or went in {restless_count} of {among}"
    return "; its members did not change" if sums.unchanged_count * 2 >= sums.counted else ""


def _finding(history: History, storm_: _Storm) -> list[Finding]:
    limits, steps = history.limits, storm_.steps
    sums = _sums(history, storm_)
    total, causes = sums.counted, sums.causes
    cause, cause_count = causes.most_common(1)[0]
    limit, window_ms = (
        (limits.storm_short_count, limits.storm_short_window_ms)
        if sums.is_short
        else (limits.storm_long_count, limits.storm_long_window_ms)
    )
    is_critical = sums.peak_per_minute >= limits.storm_critical_per_minute
    span_ms = steps[-1].at_ms - sums.from_ms
    share = "all" if cause_count == total else f"{cause_count:,}"
    limit_said = f"{limit} in {duration(window_ms)}"
    counting = (
        f"; {total:,} count towards the limit of {limit_said}" if sums.all_count > total else f" (limit: {limit_said})"
    )
    for_next_era = {"with_excused_count": sums.all_count} if history.goes_on or storm_.before is not None else {}
    return history.finding(
        "RB001",
        history.extent(steps, quiet_ms=limits.storm_quiet_ms, before=storm_.before),
        severity=Severity.CRITICAL if is_critical else Severity.WARNING,
        title=f"{history.group} rebalanced {sums.all_count:,} times in {duration(max(span_ms, 0))}{counting}, "
        f"{share} of them: {phrase_of(cause)}{_who(history, storm_, sums)}",
        detail="Causes: " + ", ".join(f"{phrase_of(c)} {n} ×" for c, n in causes.most_common()) + ". "
        f"At most {counted(sums.peak_per_minute, 'rebalance')} in one minute.",
        numbers={
            "rebalance_count": total,
            "span_ms": span_ms,
            "limit_count": limit,
            "limit_window_ms": window_ms,
            "peak_per_minute": sums.peak_per_minute,
            "unchanged_member_count": sums.unchanged_count,
            "causes": dict(causes),
            "resource_seconds_estimate": sums.lost_s,
            **for_next_era,
        },
        advice=_advice(history, steps, cause),
        evidence=refs_of(steps, cause),
    )
