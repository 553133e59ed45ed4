"""From where members went, and which topics grew, as the rebalances of a file show it: that ties groups together."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from rebalance_audit.domain.causes import MEMBER_FAILED
from rebalance_audit.warehouse.arrow_tables import arrow_schema, narrow_schema, no_rows
from rebalance_audit.warehouse.footers import columns_of, row_count_in
from rebalance_audit.warehouse.queries import cursor
from rebalance_audit.warehouse.rows_in_files import columns_in
from rebalance_audit.warehouse.storage import relation
from spark_jobs.group_rows import INSTANTS
from spark_jobs.incidents.rows import AT, REBALANCES

LONGEST_SESSION_MS: Final = 1_800_000
"""group.max.session.timeout.ms by default: so long after a member went its rebalance may begin."""
DEPARTURES: Final = pa.schema(
    [
        ("cluster_id", pa.string()),
        ("group_id", pa.string()),
        ("from_ms", pa.int64()),
        ("to_ms", pa.int64()),
        ("place", pa.string()),
    ]
)
"""A row for each place and rebalance. `place` is a host, a worker or a name of a member that went, or a topic that
grew; null where the row of the rebalance does not show it, and the group's history may."""
_WENT = ("left", "replaced")
_NAMES = ("client_host", "worker_url", "group_instance_id", "client_id", "member_id")
_FILES_AT_MOST, _FILES_AT_ONCE = 4_096, 64
_ROWS_AT_MOST = 250_000
"""Of all files together, unless more are asked for at once. In a storm members go in each rebalance: an hour of 200 a
second would be 1,100,000 rows, 70 MB."""
_FEW_ROWS = 300
"""The rows of such a file are looked at one by one: most are in memory, and DuckDB takes 25 ms to bind its question."""
_BEGUN = ("started_at_ms", "started_lower_ms", *INSTANTS)
_known: OrderedDict[str, pa.Table] = OrderedDict()
"""By file. A file never changes, and each cycle asks about the last hours."""


def departures(files: Sequence[str]) -> pa.Table:
    """DEPARTURES of all rebalances of these files, in the order of the files."""
    new = [file for file in files if file not in _known]
    many = [file for file in new if row_count_in(file) > _FEW_ROWS]
    for at in range(0, len(many), _FILES_AT_ONCE):
        asked = many[at : at + _FILES_AT_ONCE]
        found = of_many_rows(asked)
        for file in asked:
            _known[file] = found.filter(pc.equal(found["filename"], file)).drop_columns("filename")
    for file in new:
        if file not in _known:
            _known[file] = of_few_rows(file)
    for file in files:
        _known.move_to_end(file)
    found = pa.concat_tables([no_rows(DEPARTURES), *(_known[file] for file in files)])
    _let_old_go(len({*files}))
    return found


def _let_old_go(asked: int) -> None:
    """So many files, those that were asked for last, stay however many rows they have."""
    row_count = sum(rows.num_rows for rows in _known.values())
    while len(_known) > _FILES_AT_MOST or (len(_known) > asked and row_count > _ROWS_AT_MOST):
        _, gone = _known.popitem(last=False)
        row_count -= gone.num_rows


def of_few_rows(file: str) -> pa.Table:
    """DEPARTURES of the rebalances of a file."""
    rows = columns_in(file, _stored())
    went, blamed = _who_went(rows), _who_failed(rows)
    grown = rows["grown_topics"].to_pylist()
    at: list[int] = []
    places: list[str | None] = []
    for row in sorted({*went, *blamed, *(row for row, topics in enumerate(grown) if topics)}):
        gone, failed = went.get(row, []), blamed.get(row, [])
        is_shown = all(member["client_host"] is not None for member in gone) and {*failed} <= {
            member["member_id"] for member in gone
        }
        named = [*(member[name] for member in gone for name in _NAMES), *failed, *(grown[row] or ())]
        shown: list[str | None] = [*dict.fromkeys(name for name in named if name is not None)] if is_shown else [None]
        at += [row] * len(shown)
        places += shown
    taken = pa.array(at, pa.int64())
    columns = [rows[name].take(taken) for name in ("cluster_id", "group_id")]
    columns += [pc.coalesce(*(rows[name] for name in of)).take(taken) for of in (_BEGUN, INSTANTS)]
    return pa.Table.from_arrays([*columns, pa.array(places, pa.string())], schema=DEPARTURES)


def of_many_rows(files: Sequence[str]) -> pa.Table:
    """The same of several files, with `filename`, worked out by DuckDB."""
    went = f"list_filter(members, lambda m: m.change IN {_WENT})"
    causes = ", ".join(f"'{cause}'" for cause in sorted(MEMBER_FAILED))
    failed = f"flatten([t.members FOR t IN triggers IF t.trigger IN ({causes})])"
    names = f"flatten([[{', '.join(f'm.{name}' for name in _NAMES)}] FOR m IN {went}]) || {failed}"
    is_not_shown = (
        f"len(list_filter({went}, lambda m: m.client_host IS NULL)) > 0 "
        f"OR NOT list_has_all([m.member_id FOR m IN {went}], {failed})"
    )
    with_topics = [file for file in files if "grown_topics" in columns_of(file)]  # files of older releases have none
    without = [file for file in files if file not in with_topics]
    parts: list[pa.Table] = []
    with cursor() as db:
        for alike, topics in ((with_topics, "coalesce(grown_topics, [])"), (without, "[]")):
            if alike:
                parts.append(db.execute(
                    f"SELECT filename, cluster_id, group_id, coalesce(started_at_ms, started_lower_ms, {AT}) from_ms, "
                    f"{AT} to_ms, unnest(CASE WHEN {is_not_shown} THEN [NULL] ELSE list_filter(list_distinct({names} "
                    f"|| {topics}), lambda n: n IS NOT NULL) END)::VARCHAR place FROM {relation(alike, with_name=True)}"
                ).to_arrow_table())  # fmt: skip
    return pa.concat_tables(parts)


def _stored() -> pa.Schema:
    """What is read of a rebalance."""
    schema = arrow_schema(REBALANCES)
    names = dict.fromkeys(("cluster_id", "group_id", *_BEGUN, "members", "triggers", "grown_topics"))
    return narrow_schema(pa.schema([schema.field(name) for name in names]), {"members": ("change", *_NAMES)})


def _who_went(rows: pa.Table) -> Mapping[int, list[dict[str, Any]]]:
    """The members that left, by row."""
    members = rows["members"].combine_chunks()
    is_gone = pc.is_in(pc.struct_field(members.flatten(), "change"), pa.array(_WENT))
    return _by_row(members, is_gone)


def _who_failed(rows: pa.Table) -> Mapping[int, list[str]]:
    """The ids of members whose failure is a trigger, by row."""
    triggers = rows["triggers"].combine_chunks()
    is_failure = pc.is_in(pc.struct_field(triggers.flatten(), "trigger"), pa.array(sorted(MEMBER_FAILED)))
    by_row = _by_row(triggers, is_failure)
    return {row: [name for cause in causes for name in cause["members"] or ()] for row, causes in by_row.items()}


def _by_row(lists: pa.ListArray, is_meant: pa.BooleanArray) -> Mapping[int, list[dict[str, Any]]]:
    """Those items of the lists that are meant, by the number of the list."""
    found: dict[int, list[dict[str, Any]]] = defaultdict(list)
    meant = lists.flatten().filter(is_meant).to_pylist()
    for row, item in zip(pc.list_parent_indices(lists).filter(is_meant).to_pylist(), meant, strict=True):
        found[row].append(item)
    return found
