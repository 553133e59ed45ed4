"""Epochs as rebalances: outcome, times, members before and after, and the numbers that were skipped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rebalance_audit.domain.causes import EXPECTED, Cause
from rebalance_audit.domain.kinds import EvidenceTier, GroupType, MemberChange, Mode, Outcome, RebalanceKind
from rebalance_audit.domain.model import GroupEvidence, LogKind, Member, Movement, Rebalance, Trigger
from rebalance_audit.domain.reconstruct.assignment.avoidable import mark_avoidable
from rebalance_audit.domain.reconstruct.attempts.frame import rebalance_id
from rebalance_audit.domain.reconstruct.attempts.triggers import STATIC_RETURN
from rebalance_audit.domain.reconstruct.evidence.commits import Commits

from .causes import ComesBack, epoch_triggers
from .epoch import Epoch, is_same
from .share import assignor_name, share_movements


def epoch_id(evidence: GroupEvidence, epoch: Epoch) -> str:
    return rebalance_id(
        evidence.cluster_id, evidence.group_id, epoch.number, rewrite_seq=epoch.rewrite_seq, use=epoch.use, epoch=True
    )


def _outcome(epoch: Epoch, *, has_next: bool) -> Outcome:
    if epoch.is_emptied and not epoch.is_reached:
        return Outcome.EMPTIED
    if epoch.is_reached:
        return Outcome.COMPLETED
    return Outcome.SUPERSEDED if has_next or epoch.is_left_behind else Outcome.OPEN


class EpochRows:
    """The rows of all epochs of one group, in order."""

    def __init__(
        self,
        evidence: GroupEvidence,
        epochs: Sequence[Epoch],
        commits: Commits,
        group_type: GroupType,
        comes_back: ComesBack,
    ) -> None:
        self._evidence = evidence
        self._epochs = epochs
        self._commits = commits
        self._group_type = group_type
        self._comes_back = comes_back
        self._assignors: dict[Any, str | None] = {}
        """By epoch, of the line that says its target was computed."""
        for line in evidence.lines:
            if line.kind is LogKind.TARGET_COMPUTED:
                self._assignors.setdefault(line.fields.get("group_epoch"), line.fields.get("assignor"))
        brokers = (line.coordinator_broker_id for line in evidence.lines)
        self._coordinator_broker_id = next((broker for broker in brokers if broker is not None), None)

    def rebalances(self) -> list[Rebalance]:
        result: list[Rebalance] = []
        taken = {epoch_id(self._evidence, epoch) for epoch in self._epochs}
        for index, epoch in enumerate(self._epochs):
            previous = self._epochs[index - 1] if index else None
            if previous is not None:
                result += self._missing(previous.number, epoch.number, taken)
            result.append(mark_avoidable(self._row(index, epoch)))
        return result

    def _missing(self, before: int, number: int, taken: set[str]) -> list[Rebalance]:
        if number <= before + 1:
            return []
        rows = [(n, n) for n in range(before + 1, number)] if number - before <= 100 else [(before + 1, number - 1)]
        return [
            Rebalance(
                cluster_id=self._evidence.cluster_id,
                rebalance_id=self._free_id(first, taken),
                group_id=self._evidence.group_id,
                group_epoch=first,
                group_type=self._group_type,
                outcome=Outcome.MISSING,
                mode=Mode.SERVER,
                trigger_detail=f"epochs {first} to {last}" if last > first else None,
                is_complete_evidence=False,
            )
            for first, last in rows
        ]

    def _free_id(self, number: int, taken: set[str]) -> str:
        """The number may have been used before the group was deleted."""
        cluster_id, group_id = self._evidence.cluster_id, self._evidence.group_id
        use = 0
        while (found := rebalance_id(cluster_id, group_id, number, use=use, epoch=True)) in taken:
            use += 1
        taken.add(found)
        return found

    def _triggers(self, index: int, epoch: Epoch) -> list[Trigger]:
        # Indices, not slices: a group may have very many epochs.
        epochs = self._epochs
        earlier = next((epochs[i].record for i in range(index - 1, -1, -1) if not epochs[i].rewrite_seq), None)
        return epoch_triggers(epoch, earlier, self._evidence.lines, self._commits, self._group_type, self._comes_back)

    def _row(self, index: int, epoch: Epoch) -> Rebalance:
        evidence = self._evidence
        has_next = index + 1 < len(self._epochs)
        started_at_ms = epoch.record.at_ms if epoch.record else None
        target = epoch.target
        computed = getattr(target.record.value, "assignment_timestamp", None) if target else None
        finished_at_ms = epoch.finished.at_ms if epoch.finished else None
        triggers = self._triggers(index, epoch)
        first = triggers[0] if triggers else Trigger(trigger=Cause.UNKNOWN, tier=EvidenceTier.UNKNOWN)
        members = tuple(self._members(epoch))
        refs = [r.ref for r in (epoch.record, epoch.target, epoch.finished) if r is not None]
        refs += [ref for t in triggers for ref in t.evidence]
        times = [t for t in (started_at_ms, target.at_ms if target else None, finished_at_ms) if t is not None]
        held = {r for m in epoch.members.values() for r in m.held}
        is_shared = self._group_type == GroupType.SHARE
        movements = share_movements(epoch) if is_shared else _last_of_each(epoch.movements)
        moved = {m.resource for m in movements}
        return Rebalance(
            cluster_id=evidence.cluster_id,
            rebalance_id=epoch_id(self._evidence, epoch),
            group_id=evidence.group_id,
            group_epoch=epoch.number,
            group_type=self._group_type,
            protocol_type=self._group_type,
            kind=RebalanceKind.STATIC_REWRITE if epoch.rewrite_seq else RebalanceKind.REBALANCE,
            rewrite_seq=epoch.rewrite_seq,
            outcome=_outcome(epoch, has_next=has_next),
            mode=Mode.SERVER,
            assignor=assignor_name(self._assignors.get(epoch.number)),
            coordinator_broker_id=self._coordinator_broker_id,
            member_count=len(epoch.members),
            static_member_count=sum(
                getattr(m.metadata, "instance_id", None) is not None for m in epoch.members.values()
            ),
            started_at_ms=started_at_ms,
            started_tier=EvidenceTier.RECORDED if started_at_ms is not None else EvidenceTier.UNKNOWN,
            joined_at_ms=computed or (target.at_ms if target else None),
            assigned_at_ms=finished_at_ms,
            ended_at_ms=max(times) if times else None,
            broker_window_ms=finished_at_ms - started_at_ms
            if finished_at_ms is not None and started_at_ms is not None and not epoch.rewrite_seq
            else None,
            trigger=first.trigger,
            trigger_tier=first.tier,
            trigger_detail=first.detail or None,
            triggers=tuple(triggers),
            expected=bool(epoch.rewrite_seq) or first.trigger in EXPECTED,
            expected_reason=STATIC_RETURN if epoch.rewrite_seq else EXPECTED.get(first.trigger),
            resource_count=len(held),
            kept_count=len(held - moved),
            is_complete_evidence=epoch.record is not None,
            is_final=has_next,
            evidence=tuple(dict.fromkeys(refs)),
            members=members,
            movements=movements,
        )

    def _members(self, epoch: Epoch) -> Iterable[Member]:
        for member_id, member in sorted({**epoch.before, **epoch.members}.items()):
            was = epoch.before.get(member_id)
            now = epoch.members.get(member_id)
            before = frozenset(was.held) if was else frozenset()
            after = frozenset(now.held) if now else frozenset()
            if now is None and any(is_same(member, new) for new in epoch.members.values()):
                continue
            replaced = (
                next((old for old in epoch.before.values() if is_same(old, member)), None) if was is None else None
            )
            if replaced is not None:
                before = frozenset(replaced.held)
            metadata = member.metadata
            yield Member(
                member_id=member_id,
                group_instance_id=getattr(metadata, "instance_id", None),
                client_id=getattr(metadata, "client_id", None),
                client_host=getattr(metadata, "client_host", None),
                change=MemberChange.LEFT
                if now is None
                else MemberChange.STAYED
                if was
                else MemberChange.REPLACED
                if replaced
                else MemberChange.JOINED,
                member_epoch=member.member_epoch,
                # A classic member of a converted group alone has one of its own.
                session_timeout_ms=getattr(
                    getattr(metadata, "classic_member_metadata", None), "session_timeout_ms", None
                ),
                rebalance_timeout_ms=getattr(metadata, "rebalance_timeout_ms", None),
                subscribed_topics=getattr(metadata, "subscribed_topic_names", None),
                owned_before=tuple(sorted(before)),
                assigned=tuple(sorted(after)),
                revoked=tuple(sorted(before - after)),
                added=tuple(sorted(after - before)),
                standby_tasks=now.standby_tasks if now else None,
                warmup_tasks=now.warmup_tasks if now else None,
                evidence=(member.current.ref,) if member.current is not None else (),
            )


def _last_of_each(movements: Sequence[Movement]) -> tuple[Movement, ...]:
    """One row a resource."""
    by_resource: dict[str, Movement] = {}
    for movement in movements:
        by_resource[movement.resource] = movement
    return tuple(by_resource[r] for r in sorted(by_resource))
