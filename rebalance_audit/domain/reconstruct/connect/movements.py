"""Movements of one generation of a Connect group: what stopped, moved or began."""

from __future__ import annotations

from collections.abc import Mapping

from rebalance_audit.domain.kinds import MovementKind
from rebalance_audit.domain.model import Mark, Movement

from .bounds import not_before
from .existence import Existence
from .marks import Sources, start_marks, stop_marks
from .restarts import RESTART_MS, TaskRestart, joins_after_stop, reconfigured_lines, restarts_by_rounds
from .rounds import Round, resource_name, resource_type
from .runs import Ownership, OwnershipRun


class Movements:
    def __init__(
        self, ownership: Ownership, existence: Existence, sources: Sources, ids: Mapping[int, str], *, is_fresh: bool
    ) -> None:
        self._ownership = ownership
        self._existence = existence
        self._sources = sources
        self._ids = ids
        """Rebalance id by index of the attempt."""
        self._first = None if is_fresh else next(iter(sources.rounds.all), None)
        self._restarts = restarts_by_rounds(ownership, sources.rounds, sources.lines)

    def of(self, round_: Round) -> tuple[Movement, ...]:
        found: list[Movement] = []
        begun = self._ownership.begun_in(round_)
        for run in begun:
            before = self._ownership.before(run)
            if before is not None and self._existence.deleted_in(before) is not None:
                before = None
            elif before is None and round_ is self._first:
                # Evidence begins here: who had it before is not known.
                continue
            found.append(self._given(run, before, round_))
        given = {run.resource for run in begun}
        for run in self._ownership.ended_in(round_):
            # Unless another worker has it, too.
            if run.resource not in given and not self._ownership.is_held_after(run.resource, round_.index):
                given.add(run.resource)
                found.append(_movement(MovementKind.REVOKED, run, None, round_))
        for restart in self._restarts.get(round_.index, []):
            if restart.run.resource not in given:
                found.append(self._restarted(restart, round_))
        return tuple(found)

    def _given(self, run: OwnershipRun, before: OwnershipRun | None, round_: Round) -> Movement:
        if before is None:
            refs = [r.ref for r in run.statuses[:1]]
            return _movement(MovementKind.ASSIGNED, None, run, round_, refs=refs)
        kind = MovementKind.RETURNED if before.worker.key == run.worker.key else MovementKind.MOVED
        elsewhere = before.ended if before.ended is not round_ else None
        return _movement(
            kind,
            before,
            run,
            round_,
            stops=stop_marks(before, self._sources),
            resumes=start_marks(run, self._sources),
            revoked_in=self._ids.get(elsewhere.index) if elsewhere is not None else None,
        )

    def _restarted(self, restart: TaskRestart, round_: Round) -> Movement:
        run = restart.run
        stops = restart.stops() or joins_after_stop(round_)
        lines = reconfigured_lines(run, self._sources.lines, round_.at_ms - RESTART_MS, round_.at_ms)
        stops += [not_before(line, "the worker began to stop it") for line in lines[-1:]]
        resumes = (not_before(round_, "the assignment was delivered"), *restart.resumes())
        return _movement(MovementKind.RESTARTED, run, run, round_, stops=tuple(stops), resumes=resumes)


def _movement(
    kind: MovementKind,
    old: OwnershipRun | None,
    new: OwnershipRun | None,
    round_: Round,
    *,
    stops: tuple[Mark, ...] = (),
    resumes: tuple[Mark, ...] = (),
    revoked_in: str | None = None,
    refs: list[str] | None = None,
) -> Movement:
    run = new or old
    assert run is not None
    evidence = [round_.ref, *(m.ref for m in (*stops, *resumes)), *(refs or ())]
    return Movement(
        resource_type=resource_type(run.resource),
        resource=resource_name(run.resource),
        connector=run.resource[0],
        task=run.resource[1],
        kind=kind,
        from_member_id=old.worker.member_id if old else None,
        to_member_id=new.worker.member_id if new else None,
        from_client_id=_client_id(old),
        to_client_id=_client_id(new),
        from_worker_url=old.worker.url if old else None,
        to_worker_url=new.worker.url if new else None,
        revoked_in_rebalance_id=revoked_in,
        stop_marks=stops,
        resume_marks=resumes,
        evidence=tuple(dict.fromkeys(ref for ref in evidence if ref is not None)),
    )


def _client_id(run: OwnershipRun | None) -> str | None:
    if run is None:
        return None
    if run.worker.metadata is not None:
        return run.worker.metadata.client_id
    return run.worker.joined.fields.get("client_id") if run.worker.joined is not None else None
