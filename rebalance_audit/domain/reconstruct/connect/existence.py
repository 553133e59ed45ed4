"""Decides which connectors and tasks exist, so that what was deleted is not taken for lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rebalance_audit.domain.model import NO_END, ConnectRecord

from .configs import Configs
from .rounds import Resource, Round, Rounds, order
from .runs import Ownership, OwnershipRun

TOMBSTONE_EARLY_MS = 1_000
"""The leader writes tombstones after the assignment; its clock may be behind the coordinator's."""


class Existence:
    def __init__(
        self,
        rounds: Rounds,
        ownership: Ownership,
        configs: Configs,
        tombstones: Mapping[Resource, Sequence[ConnectRecord]],
        *,
        has_statuses: bool,
    ) -> None:
        self._rounds = rounds
        self._ownership = ownership
        self._configs = configs
        self._tombstones = tombstones
        self._has_statuses = has_statuses
        self._deleted: dict[OwnershipRun, Round | None] = {}

    def deleted_in(self, run: OwnershipRun) -> Round | None:
        """The generation from which on the run's resource is known to be deleted, if it is before its next run."""
        if run.ended is None:
            return None
        if run not in self._deleted:
            next_run = self._ownership.after(run)
            until = next_run.seen.index if next_run is not None else NO_END
            later = self._rounds.between(run.ended.index, until)
            self._deleted[run] = next((r for r in later if self._is_deleted(run, r, next_run)), None)
        return self._deleted[run]

    def tombstone(self, run: OwnershipRun) -> ConnectRecord | None:
        """The status tombstone by which the leader confirmed that the resource is gone after this run."""
        if run.ended is None:
            return None
        next_run = self._ownership.after(run)
        until_ms = next_run.seen.at_ms if next_run is not None else NO_END
        for record in self._tombstones.get(run.resource, ()):
            if run.ended.at_ms - TOMBSTONE_EARLY_MS <= record.at_ms < until_ms:
                return record
        return None

    def unassigned(self, round_: Round) -> list[Resource]:
        """Configured or once owned, not deleted, and without an owner after the generation."""
        held = {r for w in round_.workers for r in w.running or ()}
        configured: frozenset[Resource] = frozenset()
        if self._configs.is_known and round_.config_offset is not None:
            configured = self._configs.configured(round_.config_offset)
        found = set(configured - held)
        for resource in self._ownership.orphans.get(round_.index, ()):
            ended = self._ownership.ended_by(resource, round_.index)
            deleted = self.deleted_in(ended) if ended is not None else None
            if deleted is None or deleted.index > round_.index:
                found.add(resource)
        return sorted(found, key=order)

    def _is_deleted(self, run: OwnershipRun, round_: Round, next_run: OwnershipRun | None) -> bool:
        if (
            self._configs.is_known
            and round_.config_offset is not None
            and self._configs.is_gone(run.resource, round_.config_offset)
        ):
            return True
        record = self.tombstone(run)
        if record is not None:
            following = self._rounds.after(round_.index)
            return following is None or record.at_ms < following.at_ms
        if self._configs.is_known or self._has_statuses:
            return False
        # Assignments alone: taken from a worker that stayed when the configuration changed, and not handed on by the
        # generation that hands on what was revoked.
        before, following = self._rounds.before(round_.index), self._rounds.after(round_.index)
        return (
            run.how == "revoked"
            and run.ended is round_
            and following is not None
            and (next_run is None or next_run.seen.index > following.index)
            and before is not None
            and (round_.config_offset or 0) > (before.config_offset or 0)
        )
