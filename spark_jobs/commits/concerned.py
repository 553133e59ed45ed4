"""The groups whose marks the news may change, where the news of each begins, and the group records that matter to it.

A group's marks before its last record before the news stay as they are, and so do all its records before that one: of
a group with a long history neither is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from rebalance_audit.domain.decode import OFFSETS_TOPIC
from rebalance_audit.warehouse.arrow_tables import distinct
from rebalance_audit.warehouse.queries import cursor
from rebalance_audit.warehouse.row_groups import Least, row_count_of, row_groups_of
from rebalance_audit.warehouse.storage import relation
from spark_jobs.commits.group_records import records_of_groups
from spark_jobs.commits.keys import groups_of, groups_of_commits
from spark_jobs.group_rows import GROUP, LISTED_AT_MOST, least_by_group
from spark_jobs.stages.stage import Run

PLACE = ("cluster_id", "topic", "partition", "group_id")
"""A group, and the partition of the offsets topic that its records are in."""
CONCERNED = pa.schema(
    [
        ("cluster_id", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("group_id", pa.string()),
        ("first_new", pa.int64()),
    ]
)
Concerned: TypeAlias = pa.Table | None
"""Rows of CONCERNED, one for each PLACE with news, with the offset at which that begins; None: any group."""
_KEYS_AT_MOST = 100_000
_FEW_ROWS = 20_000
"""Of row groups with so few rows all records are read."""
_BACK = 10_000
"""So many offsets before the news, the last record before it is looked for first."""
_NO_RECORD = -1
NO_OFFSET = (1 << 63) - 1
"""Beyond every offset."""
DUCK_COMMITS = (
    f"topic = '{OFFSETS_TOPIC}' AND copy = 0 AND NOT coalesce(is_control, false) "
    "AND coalesce(key[1:2] IN ('\\x00\\x00'::BLOB, '\\x00\\x01'::BLOB), false)"
)


def concerned_groups(files: Sequence[str], event_files: Sequence[str]) -> Concerned:
    """Groups with commits or records in the news. If little is new they are few, and only their marks are made. None if
    there are too many keys.
    """
    if not files:
        return CONCERNED.empty_table()
    with cursor() as db:
        keys = db.execute(
            f'SELECT cluster_id, topic, partition, key, min("offset") first_new FROM {relation(files)} '
            f"WHERE {DUCK_COMMITS} GROUP BY ALL LIMIT {_KEYS_AT_MOST + 1}"
        ).to_arrow_table()
    if keys.num_rows > _KEYS_AT_MOST:
        return None
    of_keys = keys.append_column("group_id", groups_of(keys["key"].combine_chunks()))
    return _with_records([of_keys], event_files)


def concerned_by(commits: Sequence[pa.RecordBatch], event_files: Sequence[str]) -> pa.Table:
    """The same of these commits, which are of `record_files.COLUMNS`."""
    parts = []
    for batch in commits:
        of_group = groups_of_commits(batch).cast(pa.string())
        columns = {name: batch[name] for name in ("cluster_id", "topic", "partition")}
        parts.append(pa.table({**columns, "group_id": of_group, "first_new": batch["offset"]}))
    return _with_records(parts, event_files)


def _with_records(parts: Sequence[pa.Table], event_files: Sequence[str]) -> pa.Table:
    found = [part.select(CONCERNED.names).cast(CONCERNED) for part in parts]
    if event_files:
        with cursor() as db:
            of_events = db.execute(
                f'SELECT {", ".join(PLACE)}, min("offset") first_new FROM {relation(event_files)} '
                "WHERE source_kind = 'record' GROUP BY ALL"
            ).to_arrow_table()
        found.append(of_events.select(CONCERNED.names).cast(CONCERNED))
    whole = pa.concat_tables([CONCERNED.empty_table(), *found])
    least = whole.group_by(list(PLACE)).aggregate([("first_new", "min")])
    least = least.rename_columns([*PLACE, "first_new"]).select(CONCERNED.names)
    return least.filter(pc.is_valid(least["group_id"]))  # null: not decoded, so it is in silver.undecoded


def groups_in(concerned: pa.Table) -> pa.Table:
    return distinct(concerned, GROUP.names)


def records_of(context: Run, groups: pa.Table, bound: Least | None = None) -> pa.Table:
    """Places of the known records of these groups. The events of a batch are committed already, so theirs are among
    them."""
    known = records_of_groups(context.warehouse, [*PLACE, "offset"], groups, bound=bound)
    return known.sort_by([(column, "ascending") for column in (*PLACE, "offset")])


def records_behind(context: Run, concerned: pa.Table) -> pa.Table:
    """The same, from the last one before the news of each group on at least."""
    groups, files = groups_in(concerned), context.warehouse.files("silver.group_event")
    listed = set(groups["group_id"].to_pylist())
    if len(listed) > LISTED_AT_MOST or row_count_of(row_groups_of(files, "group_id", listed)) <= _FEW_ROWS:
        return records_of(context, groups)
    found = records_of(context, groups, least_by_group(concerned, "first_new", "offset", less=_BACK))
    last = last_records(concerned, found)
    lacking = [at for at, place in enumerate(_places(concerned)) if last[place] == _NO_RECORD]
    if not lacking:
        return found
    again = groups_in(concerned.take(lacking))
    is_lacking = set(zip(*again.to_pydict().values(), strict=True))
    kept = [
        place not in is_lacking
        for place in zip(found["cluster_id"].to_pylist(), found["group_id"].to_pylist(), strict=True)
    ]
    return pa.concat_tables([found.filter(pa.array(kept, pa.bool_())), records_of(context, again)])


OfPlace = tuple[str, str, int, str]
"""The values of PLACE."""


def last_records(concerned: pa.Table, records: pa.Table) -> dict[OfPlace, int]:
    """The last record of each group before its news; -1 if there is none."""
    first_new = dict(zip(_places(concerned), concerned["first_new"].to_pylist(), strict=True))
    found = dict.fromkeys(first_new, _NO_RECORD)
    for place, offset in zip(_places(records), records["offset"].to_pylist(), strict=True):
        if (known := found.get(place)) is not None and known < offset < first_new[place]:
            found[place] = offset
    return found


def _places(rows: pa.Table) -> Iterable[OfPlace]:
    return zip(*(rows[name].to_pylist() for name in PLACE), strict=True)


def least_of(last: Mapping[OfPlace, int]) -> Least:
    """The bound on the known marks of each group that the news may change, if no group is folded again. `last`: as
    `last_records` gives it.

    All that is new of a group has the least new offset or a later one. What ends before the last group record before
    that is in an earlier stretch than any new commit, and no new group record cuts it.
    """
    floors: dict[str, int] = {}
    for (*_, group_id), offset in last.items():
        floors[group_id] = min(offset + 1, floors.get(group_id, NO_OFFSET))
    return Least("last_offset", "group_id", floors)
