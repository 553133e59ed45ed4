"""silver.judged_era: where the judging of a long history goes on (decision 0107)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rebalance_audit.domain.detect import Limits, eras
from rebalance_audit.domain.detect.eras import JudgedEra, era_of
from rebalance_audit.domain.incidents.storm_before import StormBefore
from rebalance_audit.domain.model import Finding, Rebalance, from_row, to_row
from rebalance_audit.domain.publish.group_sums import GroupSums
from rebalance_audit.warehouse.kept_columns import chosen_rows
from rebalance_audit.warehouse.row_groups import Least, greatest
from spark_jobs.group_rows import GROUP, PLACE, Place, places_table, rows_of_groups
from spark_jobs.stages.stage import Batch, Run

REBALANCES, ERAS = "silver.measured_rebalance", "silver.judged_era"
_KEPT = (*GROUP.names, "era", "judged_by", "carried", "storm")
"""What judging needs of eras before: not the thousands of ids that each has."""
AT_ONCE = 4
"""So many eras of a group are in memory at once: where all of a long history is judged, 16,384 rebalances."""


class EraStart(NamedTuple):
    """Where the judging of one group begins."""

    era: int
    first_place: int
    """Of the rebalances that there are from this era on: retention may have deleted some."""
    carried: Sequence[Finding]
    """From the era before."""
    storm: StormBefore | None
    """The storm that went on as that one ended, without its rebalances' ids."""
    is_early: bool
    """It begins before the news, since nothing usable is kept of the eras there."""
    first_news: int
    """The place from which on the group has not been judged."""
    last_place: int

    @property
    def until_place(self) -> int | None:
        """The place from which on eras are judged after those that are judged together from here on; None if all are
        judged together."""
        after = era_of(self.first_place) + AT_ONCE
        return after * eras.ERA_REBALANCES if after <= era_of(self.last_place) else None


def starts(
    context: Run, batch: Batch, groups: Collection[Place], left: Mapping[Place, int], *, is_all: bool = False
) -> dict[Place, EraStart]:
    """For those of these groups that are judged in eras. `left`: by group a place from which on it has not been judged
    yet; `is_all`: everything is to be judged."""
    if not groups or not _long_files(context, batch):
        return {}
    known: dict[Place, dict[int, dict[str, Any]]] = {}
    for row in rows_of_groups(context.warehouse, ERAS, _KEPT, places_table(groups)).to_pylist():
        place = row["cluster_id"], row["group_id"]
        if row["judged_by"] == judged_by(context.limits(*place)):
            known.setdefault(place, {})[row["era"]] = row
    changed = None if is_all else _earliest_changes(context, batch, known)
    floors = dict.fromkeys(groups, eras.ERA_REBALANCES)
    if changed is not None:
        for place, usable in known.items():  # what is before the last of these was looked at when it was judged
            unseen = min(of.get(place, max(usable) * eras.ERA_REBALANCES) for of in (changed, left))
            floors[place] = max(unseen, floors[place])
    last = _last_places(context, batch, floors)
    if changed is not None and (others := last.keys() - known.keys()):
        changed |= _earliest_changes(context, batch, others) or {}
    chosen: dict[Place, tuple[int, bool]] = {}
    news: dict[Place, int] = {}
    for place, last_place in last.items():
        first_news = 0 if changed is None else min(of.get(place, last_place) for of in (changed, left))
        news[place] = first_news
        # What follows the last rebalance of an era shows how the era ended.
        wanted = era_of(min(max(first_news - 1, 0), last_place))
        era = max((e for e in range(1, wanted + 1) if e - 1 in known.get(place, {})), default=0)
        chosen[place] = era, era < wanted
    first = _first_places(context, batch, {place: era * eras.ERA_REBALANCES for place, (era, _) in chosen.items()})
    found: dict[Place, EraStart] = {}
    for place, (era, is_early) in chosen.items():
        kept = _kept(known[place][era - 1]) if era else {"carried": [], "storm": None}
        found[place] = EraStart(
            era=era, first_place=first[place], is_early=is_early, first_news=news[place], last_place=last[place], **kept
        )
    return found


def next_starts(context: Run, ended: Sequence[str], starting: Mapping[Place, EraStart]) -> dict[Place, EraStart]:
    """Where the judging of these groups goes on after the eras that were judged together. `ended`: files with the rows
    of these."""
    following = {place: until for place, start in starting.items() if (until := start.until_place) is not None}
    last: dict[Place, dict[str, Any]] = {}
    for row in context.warehouse.read_files(ERAS, ended, _KEPT, "true").to_pylist() if following else ():
        place = row["cluster_id"], row["group_id"]
        last[place] = max(row, last.get(place, row), key=itemgetter("era"))
    return {
        place: starting[place]._replace(first_place=until, **(_kept(last[place]) if place in last else {}))
        for place, until in following.items()
    }


def _kept(row: Mapping[str, Any]) -> dict[str, Any]:
    """What an EraStart has of the era before: fields by their names."""
    storm = row["storm"]
    return {
        "carried": [from_row(Finding, each) for each in json.loads(row["carried"])],
        "storm": None if storm is None else StormBefore.of_text(storm, []),
    }


def judged_by(limits: Limits) -> str:
    of_limits = hashlib.sha256(repr(limits).encode()).hexdigest()[:16]
    return f"{eras.ERA_VERSION} {eras.ERA_REBALANCES} {of_limits}"


def era_row(
    place: Place, limits: Limits, judged: JudgedEra, rebalances: Sequence[Rebalance], storm: StormBefore | None
) -> dict[str, Any]:
    """Columns of silver.judged_era. `rebalances`: those of the era; `storm`: the one that went on as it ended."""
    carried = json.dumps([to_row(finding) for finding in judged.carried], ensure_ascii=False)
    cluster_id, group_id = place
    return {
        "cluster_id": cluster_id, "group_id": group_id, "era": judged.number, "judged_by": judged_by(limits),
        "carried": carried, "sums": GroupSums.of(rebalances).text, "storm": None if storm is None else storm.text,
        "storm_rebalance_ids": None if storm is None else storm.rebalance_ids,
    }  # fmt: skip


def with_eras(keys: pa.Table, found: Mapping[Place, EraStart]) -> pa.Table:
    """The keys with the era from which on rows go; null: all of the group's."""
    places = zip(*(keys[name].to_pylist() for name in GROUP.names), strict=True)
    values = [found[place].era or None if place in found else None for place in places]
    return keys.append_column("era", pa.array(values, pa.int32()))


def _long_files(context: Run, batch: Batch) -> list[str]:
    """The files that may hold rebalances beyond the first era of a group."""
    files = context.warehouse.files(REBALANCES, batch.until[REBALANCES])
    return [file for file in files if (most := greatest(file, (PLACE,))) is None or era_of(most) > 0]


def _last_places(context: Run, batch: Batch, floors: Mapping[Place, int]) -> dict[Place, int]:
    """The last place of each group that has more than one era. Connect groups are judged whole. `floors`: from where on
    a group's rows are looked at; of all beyond its first era, if none is there."""
    found: dict[Place, int] = {}
    of_connect: set[Place] = set()
    schema = _schema(context, (*GROUP.names, PLACE, "protocol_type"))
    for chosen in chosen_rows(_long_files(context, batch), schema, *_from_floors(floors)):
        for cluster_id, group_id, place, protocol_type in _tuples(chosen.rows):
            found[cluster_id, group_id] = max(place, found.get((cluster_id, group_id), place))
            if protocol_type == "connect":
                of_connect.add((cluster_id, group_id))
    shorter = {p: eras.ERA_REBALANCES for p in floors.keys() - found.keys() if floors[p] > eras.ERA_REBALANCES}
    found |= _last_places(context, batch, shorter) if shorter else {}
    return {place: last for place, last in found.items() if place in floors and place not in of_connect}


def _from_floors(floors: Mapping[Place, int]) -> tuple[dict[str, Collection[str]], Least]:
    """For `chosen_rows`: rows of these groups, each from its least place on."""
    least: dict[str, int] = {}
    for (_, group_id), floor in floors.items():
        least[group_id] = min(floor, least.get(group_id, floor))
    return {"group_id": least}, Least(PLACE, "group_id", least)


def _first_places(context: Run, batch: Batch, floors: Mapping[Place, int]) -> dict[Place, int]:
    """The first place of each group that is not below its floor."""
    files = context.warehouse.files(REBALANCES, batch.until[REBALANCES])
    found: dict[Place, int] = {}
    schema = _schema(context, (*GROUP.names, PLACE))
    for chosen in chosen_rows(files, schema, *_from_floors(floors)):
        for cluster_id, group_id, at in _tuples(chosen.rows):
            place = cluster_id, group_id
            if place in floors and at >= floors[place]:
                found[place] = min(at, found.get(place, at))
    return found


def _earliest_changes(context: Run, batch: Batch, places: Collection[Place]) -> dict[Place, int] | None:
    """The first place in each group at which something changed; None where that is not known row by row. What comes
    before another rebalance changes the place of that one, too."""
    key = [*GROUP.names, "rebalance_id"]
    changes = context.warehouse.row_changes(REBALANCES, key, batch.since[REBALANCES], batch.until[REBALANCES])
    if changes is None:
        return None
    of_these = pc.is_in(changes.keys["group_id"], pa.array(sorted({group_id for _, group_id in places}), pa.string()))
    ids = pc.unique(changes.keys.filter(of_these)["rebalance_id"])
    found: dict[Place, int] = {}
    schema = _schema(context, (*GROUP.names, PLACE, "rebalance_id"))
    for chosen in chosen_rows(changes.files, schema, {"group_id": {group_id for _, group_id in places}}):
        rows = chosen.rows.filter(pc.is_in(chosen.rows["rebalance_id"], ids))
        for cluster_id, group_id, place, _ in _tuples(rows):
            found[cluster_id, group_id] = min(place, found.get((cluster_id, group_id), place))
    return found


def _schema(context: Run, columns: Iterable[str]) -> pa.Schema:
    of_table = context.warehouse.schema(REBALANCES)
    return pa.schema([of_table.field(column) for column in columns])


def _tuples(rows: pa.Table) -> Iterable[tuple[Any, ...]]:
    return zip(*(rows[name].to_pylist() for name in rows.schema.names), strict=True)
