"""Why a generation of a Connect group began.

Workers re-join for reasons of their own that they give nobody: the coordinator's line says only that somebody joined
again. The assignments and the config topic show the rest: a delay that ran out, work that was revoked in the
generation before, a configuration that changed, an assignment that failed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rebalance_audit.domain.causes import DEPARTURES, REJOINS, Cause
from rebalance_audit.domain.kinds import EvidenceTier
from rebalance_audit.domain.model import ConnectRecord, LogEvent, LogKind, Trigger
from rebalance_audit.domain.reconstruct.attempts.attempt import Attempt
from rebalance_audit.domain.reconstruct.attempts.triggers import logged_triggers, recorded_triggers
from rebalance_audit.domain.records import MemberMetadata

from .configs import Configs, connectors_of_line, words_of_line
from .departures import Departures
from .lines import WorkerLines
from .rounds import Round, Rounds, Worker
from .runs import Ownership, OwnershipRun

DELAY_EARLY_MS = 1_500
"""A worker that re-joins this long before the announced delay ends may still do so because of it: clocks, rounding."""
DELAY_LATE_MS = 10_000
"""Workers re-join when the delay ends, or as soon as they are free again (docs/measured.md#connect-tasks)."""
FOLLOW_UP_MS = 60_000
"""A worker that had to give work up joins again as soon as that has stopped: rebalance.timeout.ms bounds it
(docs/measured.md#defaults-of-kafka)."""

_CONNECT = {Cause.MEMBER_JOINED: Cause.CONNECT_WORKER_JOINED, Cause.MEMBER_LEFT: Cause.CONNECT_WORKER_LEFT}


class Causes:
    """Finds the triggers of each attempt, given all rounds of the group."""

    def __init__(
        self,
        rounds: Rounds,
        ownership: Ownership,
        configs: Configs,
        departures: Departures,
        lines: WorkerLines,
    ) -> None:
        self._rounds = rounds
        self._ownership = ownership
        self._configs = configs
        self._departures = departures
        self._lines = lines

    def of(self, attempt: Attempt, index: int) -> list[Trigger]:
        """All causes while this generation was prepared, the first cause first; [] if nothing shows any."""
        round_, before = self._rounds.at(index), self._rounds.before(index)
        if before is not None and before.attempt.incarnation != attempt.incarnation:
            before = None
        logged = logged_triggers(attempt, _metadata(before), _metadata(round_))
        rejoined = [t for t in logged if t.trigger in REJOINS]
        logged = [t for t in logged if t.trigger not in REJOINS]
        inferred = self._inferred(before, round_)
        recorded = recorded_triggers(
            _metadata(before), _metadata(round_), logged, lambda member_id: inferred.get(member_id, Cause.UNKNOWN)
        )
        if not logged:
            # A departure starts a rebalance before an arrival can join it.
            recorded.sort(key=lambda t: t.trigger not in DEPARTURES)
        membership = [_named(t) for t in (*logged, *recorded)]
        if not membership and round_ is not None:
            membership = self._first(round_) if before is None else self._by_logs(before, round_)
        own = self._own_causes(before, round_, rejoined)
        starts_with_rejoin = attempt.preparing is not None and any(
            attempt.preparing.ref in t.evidence for t in rejoined
        )
        if starts_with_rejoin and own:
            refs = tuple(ref for t in rejoined for ref in t.evidence)
            own[0] = replace(own[0], evidence=tuple(dict.fromkeys((*own[0].evidence, *refs))))
            return own + membership
        if starts_with_rejoin and not own:
            # Only the leader's re-join has a name of its own; of another worker's, nothing says why.
            leader = [t for t in rejoined if t.trigger == Cause.LEADER_REJOINED]
            others = [replace(t, trigger=Cause.UNKNOWN, tier=EvidenceTier.UNKNOWN) for t in rejoined]
            return (leader if before is not None and leader else others) + membership
        return membership + own

    @staticmethod
    def _first(round_: Round) -> list[Trigger]:
        if round_.number != 1 or not round_.workers:
            return []
        members = tuple(sorted(w.member_id for w in round_.workers))
        return [
            _inferred_trigger(Cause.CONNECT_WORKER_JOINED, "first generation of the group", round_, members=members)
        ]

    def _by_logs(self, before: Round, round_: Round) -> list[Trigger]:
        """Workers that came or went between two generations of which one is known from workers' logs alone."""
        if not round_.is_partial and not before.is_partial:
            return []
        gone = [run for run in self._ownership.ended_in(round_) if run.how == "gone"]
        left = {run.worker.member_id: line for run in gone if (line := self._departures.stopping(run)) is not None}
        known = {w.member_id for w in before.workers}
        found = [
            Trigger(
                trigger=Cause.CONNECT_WORKER_LEFT,
                tier=EvidenceTier.LOGGED,
                members=(member,),
                detail="it shut down",
                evidence=(line.ref,),
            )
            for member, line in sorted(left.items())
        ]
        return found + [
            _inferred_trigger(Cause.CONNECT_WORKER_JOINED, f"{w.url or w.key} joined", round_, members=(w.member_id,))
            for w in round_.workers
            if w.member_id not in known
        ]

    def _inferred(self, before: Round | None, round_: Round | None) -> Mapping[str, Cause]:
        """How each worker went that the record misses, by its statuses."""
        if before is None or round_ is None:
            return {}
        by_member: dict[str, list[OwnershipRun]] = {}
        for run in self._ownership.ended_in(round_):
            if run.how == "gone":
                by_member.setdefault(run.worker.member_id, []).append(run)
        found = {}
        for member_id, runs in by_member.items():
            ways = {self._departures.inferred(run) for run in runs}
            found[member_id] = (
                Cause.MEMBER_LEFT
                if Cause.MEMBER_LEFT in ways
                else Cause.UNKNOWN
                if Cause.UNKNOWN in ways
                else ways.pop()
            )
        return found

    def _own_causes(self, before: Round | None, round_: Round | None, rejoined: Sequence[Trigger]) -> list[Trigger]:
        if before is None or round_ is None or not round_.workers:
            return []
        causes = [
            self._failed(before, round_),
            self._follow_up(before, round_),
            self._delay(before, round_),
            self._config(before, round_),
        ]
        found = [cause for cause in causes if cause is not None]
        if not found and rejoined:
            late = self._caught_up(before, round_, rejoined) or self._compacted_away(before, round_)
            found = [late] if late is not None else []
        if not found and before.assignor is not None and round_.assignor not in (None, before.assignor):
            detail = f"the workers' common protocol was {before.assignor} and is {round_.assignor}"
            found = [_inferred_trigger(Cause.ASSIGNOR_CHANGED, detail, round_, before)]
        return found

    @staticmethod
    def _failed(before: Round, round_: Round) -> Trigger | None:
        if not before.is_failed:
            return None
        detail = (
            f"the assignment of generation {before.number} failed: the leader had not read the newest configuration"
        )
        return _inferred_trigger(Cause.CONNECT_ASSIGNMENT_FAILED, detail, round_, before, tier=_tier(before))

    def _follow_up(self, before: Round, round_: Round) -> Trigger | None:
        taken = {w.member_id: w for w in before.workers if w.taken}
        began_ms = _began_ms(round_)
        if not taken or began_ms - before.at_ms > FOLLOW_UP_MS:
            return None
        count = sum(len(w.taken) for w in taken.values())
        detail = f"{_workers(taken.values())} joined again after giving up {count} of its connectors and tasks"
        return _inferred_trigger(
            Cause.CONNECT_REVOCATION_FOLLOW_UP, detail, round_, before, members=tuple(sorted(taken)), tier=_tier(before)
        )

    def _delay(self, before: Round, round_: Round) -> Trigger | None:
        if not before.delay_ms:
            return None
        due_ms = before.at_ms + before.delay_ms
        if round_.delay_ms and abs(round_.at_ms + round_.delay_ms - due_ms) <= DELAY_EARLY_MS:
            return None  # what is left of it is announced again
        began_ms, slack_ms = _began_ms(round_), DELAY_LATE_MS
        if round_.attempt.preparing is None:
            slack_ms += max((w.metadata.rebalance_timeout for w in round_.workers if w.metadata), default=0)
        if not due_ms - DELAY_EARLY_MS <= began_ms <= due_ms + slack_ms:
            return None
        detail = f"the delay of {before.delay_ms} ms announced in generation {before.number} ended"
        given = [run for run in self._ownership.begun_in(round_) if self._ownership.before(run) is not None]
        if given:
            detail += f"; {len(given)} waiting connectors and tasks were handed out"
        return _inferred_trigger(Cause.CONNECT_DELAY_EXPIRED, detail, round_, before)

    def _config(self, before: Round, round_: Round) -> Trigger | None:
        old, new = before.config_offset, round_.config_offset
        if old is None or new is None or new <= old:
            return None
        refs: list[str] = []
        if self._configs.is_known:
            changes = self._configs.changes(old, new)
            if not changes:
                return None
            detail = "; ".join(dict.fromkeys(words for words, _ in changes))
            return _inferred_trigger(
                Cause.CONNECT_CONFIG_CHANGED, detail, round_, refs=_refs(changes), tier=EvidenceTier.RECORDED
            )
        lines = self._config_lines(before, round_)
        detail = f"config offset {old} -> {new}"
        if lines:
            words = dict.fromkeys(words_of_line(line) for line in lines)
            detail, refs = f"{'; '.join(words)} ({detail})", [line.ref for line in lines]
        tier = EvidenceTier.LOGGED if lines else EvidenceTier.INFERRED
        return _inferred_trigger(Cause.CONNECT_CONFIG_CHANGED, detail, round_, before, refs=refs, tier=tier)

    def _caught_up(self, before: Round, round_: Round, rejoined: Sequence[Trigger]) -> Trigger | None:
        """A worker joined again because it read, late, what the assignment was already based on."""
        old = {w.member_id: w.seen_config_offset for w in before.workers}
        named = {m for t in rejoined for m in t.members}
        for worker in round_.workers:
            was, now = old.get(worker.member_id), worker.seen_config_offset
            if worker.member_id not in named or was is None or now is None or before.config_offset is None:
                continue
            if was < now and was < before.config_offset:
                changes = self._configs.changes(max(was, 0), now)
                detail = f"{worker.url} read the config topic up to {now} only now"
                if changes:
                    detail += ": " + "; ".join(dict.fromkeys(words for words, _ in changes))
                return _inferred_trigger(
                    Cause.CONNECT_CONFIG_CHANGED,
                    detail,
                    round_,
                    before,
                    members=(worker.member_id,),
                    refs=_refs(changes),
                )
        return None

    def _compacted_away(self, before: Round, round_: Round) -> Trigger | None:
        """A worker joined again, and the config topic had grown; of what was written there nothing is left."""
        old, new = before.config_offset, round_.config_offset
        if old is None or new is None or new <= old or not self._configs.lacks(old, new):
            return None
        detail = f"config offset {old} -> {new}; what was written there is compacted away"
        return _inferred_trigger(Cause.CONNECT_CONFIG_CHANGED, detail, round_, before)

    def changed_connectors(
        self, before: Round | None, round_: Round, *, is_commanded: bool = False
    ) -> tuple[str, ...] | None:
        """Connectors whose configuration, tasks or target state is new to this generation; None: not known.
        `is_commanded`: without those of which only tasks' configurations are."""
        old, new = before.config_offset if before is not None else None, round_.config_offset
        if before is None or old is None or new is None:
            return None
        if new <= old:
            return ()
        if self._configs.is_known:
            records = [r.record for _, r in self._configs.changes(max(old, 0), new)]
            return tuple(sorted({str(r.connector) for r in records if not (is_commanded and r.kind == "commit")}))
        lines = self._config_lines(before, round_)
        told = [line for line in lines if not is_commanded or line.fields.get("connector") is not None]
        return tuple(sorted({name for line in told for name in connectors_of_line(line)})) if lines else None

    def _config_lines(self, before: Round, round_: Round) -> list[LogEvent]:
        nodes = {w.node for w in (*before.workers, *round_.workers) if w.node is not None}
        return [
            line
            for node in sorted(nodes)
            for line in self._lines.between(node, before.at_ms, round_.at_ms)
            if line.kind is LogKind.WORKER_CONFIG_CHANGED
        ]


def _named(trigger: Trigger) -> Trigger:
    return replace(trigger, trigger=_CONNECT.get(trigger.trigger, trigger.trigger))


def _metadata(round_: Round | None) -> dict[str, MemberMetadata] | None:
    if round_ is None or round_.attempt.value is None:
        return None
    return {w.member_id: w.metadata for w in round_.workers if w.metadata is not None}


def _began_ms(round_: Round) -> int:
    preparing = round_.attempt.preparing
    if preparing is not None and preparing.at_ms is not None:
        return preparing.at_ms
    return round_.joined_at_ms or round_.at_ms


def _tier(round_: Round) -> EvidenceTier:
    return EvidenceTier.RECORDED if round_.attempt.record is not None else EvidenceTier.LOGGED


def _workers(workers: object) -> str:
    listed = [w for w in workers if isinstance(w, Worker)]  # type: ignore[attr-defined]
    return ", ".join(sorted(w.url or w.member_id for w in listed))


def _refs(changes: Sequence[tuple[str, ConnectRecord]]) -> list[str]:
    return [record.ref for _, record in changes]


def _inferred_trigger(
    trigger: Cause,
    detail: str,
    round_: Round,
    before: Round | None = None,
    *,
    members: tuple[str, ...] = (),
    refs: Sequence[str] = (),
    tier: EvidenceTier = EvidenceTier.INFERRED,
) -> Trigger:
    found = [*refs, *(r.ref for r in (before, round_) if r is not None and r.ref is not None)]
    return Trigger(trigger=trigger, tier=tier, members=members, detail=detail, evidence=tuple(dict.fromkeys(found)))
