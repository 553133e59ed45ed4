"""silver.checkpoint: where the fold of a group with news begins, and when a checkpoint cannot be used (decision
0012)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import pyarrow as pa
from deltalake.exceptions import DeltaError

from rebalance_audit.domain import tables
from rebalance_audit.domain.gather.windows import FOLD_VERSION, Checkpoint, NumberRun, Piece, Seam
from rebalance_audit.domain.model import GroupRecord
from rebalance_audit.warehouse.arrow_tables import arrow_schema
from rebalance_audit.warehouse.damage import is_of_newer_format
from rebalance_audit.warehouse.queries import cursor
from rebalance_audit.warehouse.warehouse import Warehouse, WarehouseError
from spark_jobs.belonging import Belonging
from spark_jobs.commits.shown import from_first_changed
from spark_jobs.group_evidence import Clocks
from spark_jobs.group_rows import GROUP, Place, places_table, relation_of_keys, rows_of_groups
from spark_jobs.stages.stage import Batch, Run, added_files

_STATE = ("seam", "runs", "stated", "ownerless")
"""What of a checkpoint has no column of its own."""
CHECKPOINTS, REOPENINGS = "silver.checkpoint", "silver.reopening"
_EVENTS, _MARKS = "silver.group_event", "silver.commit_mark"
_CLOCK_CHANGE_MS = 2 * 3_600_000
"""A node whose clock was put back or forward: local times are that much in doubt."""


@dataclass(slots=True)
class SettledPoints:
    """The checkpoints of the groups of a batch."""

    points: dict[Place, dict[str, Any]] = field(default_factory=dict)
    """The checkpoint that each group's fold goes on from; a group that is not here is folded from its beginning."""
    closed: set[Place] = field(default_factory=set)
    """Groups that cannot be folded at all: their evidence is gone, and so is the state that stood for it."""
    reopenings: list[dict[str, Any]] = field(default_factory=list)


def begin_tables(warehouse: Warehouse, stage: str, inputs: Sequence[str], outputs: Sequence[str]) -> None:
    """Makes the tables in a warehouse that an older release wrote: they begin empty, at the versions that it consumed.
    A group gets its first checkpoint when it is folded next."""
    applications = [f"{stage}:{name}" for name in inputs]
    mine = (REOPENINGS, CHECKPOINTS)
    done = [warehouse.transaction_versions(name, applications) for name in outputs if name not in mine]
    consumed = {app: version for app, version in done[0].items() if version is not None}
    # The very first batch finds them empty: a crash in the middle of it must not look like an older release's work.
    is_new = not any(version is not None for each in done for version in each.values())
    if not is_new and (len(consumed) < len(applications) or any(other != consumed for other in done[1:])):
        return
    for name in mine:
        if not warehouse.exists(name):
            warehouse.append(name, arrow_schema(name).empty_table(), consumed or {f"{stage}:begun": 1})


def take_away_unreadable(warehouse: Warehouse) -> bool:
    """Whether silver.checkpoint could not be read, and is gone now: the stage's last batch makes it again. Where
    retention has deleted what some of it stands for it stays, and WarehouseError says what to do."""
    try:
        for row in warehouse.read(CHECKPOINTS, ["state"]).to_pylist():
            _state_of(row["state"])
        return False
    except (PermissionError, WarehouseError):
        return False
    except (DeltaError, OSError, pa.ArrowException, ValueError, LookupError, TypeError) as error:
        if is_of_newer_format(error):
            return False
        if warehouse.recall("floors").get("groups"):
            raise WarehouseError(
                f"{CHECKPOINTS} cannot be read, and retention has deleted evidence that it stands for: restore the "
                "folder silver/checkpoint from a backup; or delete it, then groups with deleted evidence stay as they "
                "are, and all others are worked out again."
            ) from None
        warehouse.remove(CHECKPOINTS)
        return True


def settled_points(context: Run, batch: Batch, dirty: set[Place], changed: set[Place], clocks: Clocks) -> SettledPoints:
    """`changed`: groups of which older evidence, too, says something else now."""
    found = SettledPoints()
    floors = {(cluster_id, group_id) for cluster_id, group_id in context.warehouse.recall("floors").get("groups", [])}
    known: dict[Place, list[dict[str, Any]]] = {}
    for row in rows_of_groups(context.warehouse, CHECKPOINTS, None, places_table(dirty)).to_pylist():
        if is_usable(row):
            known.setdefault((row["cluster_id"], row["group_id"]), []).append(row)
    found.closed = {place for place in floors & dirty if place not in known}
    for cluster_id, group_id in sorted(found.closed) if batch.is_news else ():
        found.reopenings.append(_reopening(batch, cluster_id, group_id, None, None, None, is_too_old=True))
    if not known:
        return found
    earliest = _earliest_news(context, batch, set(known), clocks)
    for place, points in sorted(known.items()):
        points.sort(key=lambda point: point["read_until_ms"])
        news_ms = None if place in changed else earliest.get(place)
        usable = [p for p in points if news_ms is not None and p["read_until_ms"] < news_ms]
        chosen = usable[-1] if usable else None
        floor = next((p for p in reversed(points) if p["is_floor"]), None)
        is_too_old = floor is not None and (chosen is None or chosen["read_until_ms"] < floor["read_until_ms"])
        if is_too_old:
            chosen = floor
        if chosen is not None:
            found.points[place] = chosen
        if batch.is_news and (is_too_old or chosen is not points[-1]):
            settled_at_ms, from_ms = points[-1]["settled_at_ms"], None if chosen is None else chosen["read_from_ms"]
            found.reopenings.append(_reopening(batch, *place, settled_at_ms, news_ms, from_ms, is_too_old=is_too_old))
    return found


def _reopening(
    batch: Batch,
    cluster_id: str,
    group_id: str,
    settled_at_ms: int | None,
    evidence_at_ms: int | None,
    from_ms: int | None,
    *,
    is_too_old: bool,
) -> dict[str, Any]:
    return {
        "cluster_id": cluster_id, "group_id": group_id, "batch_id": batch.batch_id, "settled_at_ms": settled_at_ms,
        "evidence_at_ms": evidence_at_ms, "from_ms": from_ms, "is_too_old": is_too_old,
    }  # fmt: skip


def _earliest_news(context: Run, batch: Batch, places: set[Place], clocks: Clocks) -> dict[Place, int]:
    """The earliest instant of anything new about each group; a group that is not here has news of an unknown age."""
    if batch.since[_EVENTS] < 0 or batch.since[_MARKS] < 0:
        return {}
    groups = places_table(places)
    news: dict[Place, list[int]] = {}
    files = added_files(context, _EVENTS, batch)
    if files:
        with cursor() as db:
            source = relation_of_keys(db, files, groups, _schema_of(context, ("source_kind", "node", "at_ms")))
            rows = db.execute(
                "SELECT cluster_id, group_id, CASE source_kind WHEN 'log' THEN node END node, min(at_ms) "
                f"FROM {source} GROUP BY ALL"
            ).fetchall()
        for cluster_id, group_id, node, at_ms in rows:
            clock = clocks.get(cluster_id, {}).get(node)
            if clock is not None:
                is_steady = clock.zone is None and len(clock.offsets) == 1
                at_ms = clock.to_utc_ms(at_ms) - (0 if is_steady else _CLOCK_CHANGE_MS)
            news.setdefault((cluster_id, group_id), []).append(at_ms)
    unknown = _note_marks(context, batch, groups, news)
    return {place: min(found) for place, found in news.items() if place not in unknown}


def _schema_of(context: Run, columns: Sequence[str]) -> pa.Schema:
    whole = context.warehouse.schema(_EVENTS)
    return pa.schema([whole.field(name) for name in (*GROUP.names, *columns)])


def _note_marks(context: Run, batch: Batch, groups: pa.Table, news: dict[Place, list[int]]) -> set[Place]:
    """Add the instants of changed marks. The groups of marks that are gone, so that nobody knows when they were."""
    key = list(tables.SILVER_COMMIT_MARK.key)
    since, until = batch.since[_MARKS], batch.until[_MARKS]
    changed = context.warehouse.changed_keys(_MARKS, key, since, until)
    bound = from_first_changed(changed)
    marks = rows_of_groups(context.warehouse, _MARKS, [*key, "first_at_ms"], groups, version=until, bound=bound)
    with cursor() as db:
        db.register("changed", changed)
        db.register("wanted", groups)
        db.register("mark", marks)
        rows = db.execute(
            "SELECT cluster_id, group_id, min(first_at_ms), count(*) > count(first_at_ms) "
            "FROM (FROM changed SEMI JOIN wanted USING (cluster_id, group_id)) "
            f"LEFT JOIN mark USING ({', '.join(key)}) GROUP BY ALL"
        ).fetchall()
    for cluster_id, group_id, at_ms, _ in rows:
        if at_ms is not None:
            news.setdefault((cluster_id, group_id), []).append(at_ms)
    return {(cluster_id, group_id) for cluster_id, group_id, _, is_gone in rows if is_gone}


# ---- lines that name no group


def digests_of_lines(homes: Belonging) -> dict[str, dict[str, str]]:
    """Digests of the lines that belong to each group although they do not name it."""
    found: dict[str, dict[str, list[str]]] = {}
    for cluster_id, lines in homes.lines.items():
        for ref, groups in lines.items():
            for group in groups:
                found.setdefault(cluster_id, {}).setdefault(group, []).append(ref)
    return {
        cluster_id: {
            group: hashlib.sha256("\n".join(sorted(refs)).encode()).hexdigest() for group, refs in by_group.items()
        }
        for cluster_id, by_group in found.items()
    }


def placed_otherwise(now: Mapping[str, Mapping[str, str]], before: Mapping[str, Mapping[str, str]]) -> set[Place]:
    return {
        (cluster_id, group)
        for cluster_id in {*now, *before}
        for group in {*now.get(cluster_id, {}), *before.get(cluster_id, {})}
        if now.get(cluster_id, {}).get(group) != before.get(cluster_id, {}).get(group)
    }


# ---- checkpoints as rows


def checkpoint_row(cluster_id: str, group_id: str, checkpoint: Checkpoint) -> dict[str, Any]:
    return {
        "cluster_id": cluster_id,
        "group_id": group_id,
        "fold_version": FOLD_VERSION,
        "read_from_ms": checkpoint.read_from_ms,
        "read_until_ms": checkpoint.read_until_ms,
        "settled_at_ms": checkpoint.shown_until_ms,
        "row_count": checkpoint.row_count,
        "latest": [record.ref for record in checkpoint.latest],
        "state": json.dumps({name: getattr(checkpoint, name) for name in _STATE}),
        "is_floor": False,
    }


def checkpoint_of(
    row: Mapping[str, Any], pieces: Iterator[tuple[int, Piece]]
) -> tuple[Checkpoint, Iterator[tuple[int, Piece]]]:
    """The checkpoint that a row of silver.checkpoint is, and the pieces from its `read_from_ms` on; those before are
    its latest records."""
    latest: list[GroupRecord] = []
    for instant, piece in pieces:
        if instant >= row["read_from_ms"]:
            pieces = chain([(instant, piece)], pieces)
            break
        assert isinstance(piece, GroupRecord), piece
        latest.append(piece)
    return checkpoint_with(row, latest), pieces


def checkpoint_with(row: Mapping[str, Any], latest: Sequence[GroupRecord]) -> Checkpoint:
    """The same, with its latest records."""
    return Checkpoint(
        read_from_ms=row["read_from_ms"],
        read_until_ms=row["read_until_ms"],
        shown_until_ms=row["settled_at_ms"],
        row_count=row["row_count"],
        latest=tuple(latest),
        **_state_of(row["state"]),
    )


def is_usable(row: Mapping[str, Any]) -> bool:
    """Whether a fold of this release can go on from a row of silver.checkpoint. What a floor stands for is deleted."""
    return bool(row["fold_version"] == FOLD_VERSION or row["is_floor"])


def _state_of(text: str) -> dict[str, Any]:
    """Raises ValueError, LookupError or TypeError where it is damaged."""
    state = json.loads(text)
    seam = None
    if state["seam"] is not None:
        identity, at_ms = state["seam"]
        if identity is not None:
            *numbers, evidence = identity
            identity = (*numbers, tuple(evidence))
        seam = Seam(identity, at_ms)
    # Floors of releases before decision 0126 have neither of the last two.
    stated = ((client_id, libraries and tuple(libraries)) for client_id, libraries in state.get("stated", ()))
    return {
        "seam": seam,
        "runs": tuple(map(NumberRun._make, state["runs"])),
        "stated": tuple(stated),
        "ownerless": tuple((topic, int(partition)) for topic, partition in state.get("ownerless", ())),
    }
