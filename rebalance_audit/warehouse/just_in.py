"""Rows that `watch` worked out and that the tables do not hold yet: as a note carries them, and as SQL lays them over
the tables of a publication. A row that is just in stands in place of the row with its key, whole; the tables themselves
do not change.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from rebalance_audit.warehouse.arrow_tables import arrow_schema

NOTES = "present-"
"""How the names of the notes begin that carry them (`live/present.py`)."""
KEYS = {
    "gold.rebalance": "rebalance_id",
    "gold.rebalance_member": "rebalance_id",
    "gold.movement": "rebalance_id",
    "gold.standstill": "rebalance_id",
    "gold.incident": "incident_id",
    "gold.finding": "finding_id",
    "gold.group": "group_id",
}
"""What may be just in, and by what, beside its cluster, it stands in place of stored rows."""
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")
_DB = "just_in"
"""The database of a catalog that holds the rows, and in the schema `gone` the keys whose stored rows they replace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JustInRows:
    """Rows of several tables, of the same moment."""

    rows: Mapping[str, pa.Table] = field(default_factory=dict)
    gone: Mapping[str, Sequence[tuple[str, str]]] = field(default_factory=dict)
    """By `rebalance_id` or `incident_id`: cluster and id of stored rows in whose place nothing is."""
    left_out: int = 0
    """Groups and incidents with news for which there was no room."""

    def __bool__(self) -> bool:
        return bool(self.rows or self.left_out or any(self.gone.values()))

    def ids(self, table: str) -> set[tuple[str, str]]:
        """Cluster and id of each row of a table."""
        rows = self.rows.get(table)
        return set() if rows is None else {*_pairs(rows, KEYS[table])}


NOTHING = JustInRows()


def together(of_clusters: Iterable[JustInRows]) -> JustInRows:
    found = list(of_clusters)
    if len(found) < 2:
        return found[0] if found else NOTHING
    tables = {name for some in found for name in some.rows}
    keys = {key for some in found for key in some.gone}
    return JustInRows(
        rows={t: pa.concat_tables([some.rows[t] for some in found if t in some.rows]) for t in sorted(tables)},
        gone={key: [pair for some in found for pair in some.gone.get(key, ())] for key in sorted(keys)},
        left_out=sum(some.left_out for some in found),
    )


def changed(before: JustInRows, after: JustInRows) -> set[str]:
    """The tables whose rows may differ if one of these lies over them and not the other. A row that is just in stands
    in place of all rows with its key, of whatever table."""
    keys = {key for name, key in KEYS.items() if before.rows.get(name) != after.rows.get(name)}
    keys |= {key for key in KEYS.values() if [*before.gone.get(key, ())] != [*after.gone.get(key, ())]}
    return {name for name, key in KEYS.items() if key in keys}


# ---- in a note


def to_note(just_in: JustInRows) -> dict[str, Any]:
    return {
        "rows": {name: _to_text(rows) for name, rows in just_in.rows.items() if rows.num_rows},
        "gone": {key: list(pairs) for key, pairs in just_in.gone.items() if pairs},
        "left_out": just_in.left_out,
    }


def from_note(note: Mapping[str, Any]) -> JustInRows:
    """The rows that a note keeps. Raises ValueError, KeyError or TypeError if this release did not write the note."""
    return JustInRows(
        rows={name: _from_text(name, text) for name, text in note["rows"].items() if name in KEYS},
        gone={key: [(str(cluster), str(id_)) for cluster, id_ in pairs] for key, pairs in note["gone"].items()},
        left_out=int(note["left_out"]),
    )


def _to_text(rows: pa.Table) -> str:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=_COMPRESSED) as writer:
        writer.write_table(rows)
    return base64.b64encode(sink.getvalue()).decode("ascii")


def _from_text(name: str, text: str) -> pa.Table:
    with pa.ipc.open_stream(base64.b64decode(text)) as reader:  # an ArrowInvalid is a ValueError
        rows = reader.read_all()
    if not rows.schema.equals(arrow_schema(name)):
        raise ValueError(f"{name}: columns of another release")
    return rows


# ---- over the tables


def put(db: Any, just_in: JustInRows) -> None:
    """Replaces what lies in the database `just_in` of this connection, all at once for who asks meanwhile."""
    db.execute(f"ATTACH IF NOT EXISTS ':memory:' AS {_DB}")
    db.execute("BEGIN")
    for schema in ("gold", "gone"):
        db.execute(f"CREATE SCHEMA IF NOT EXISTS {_DB}.{schema}")
    replaced: dict[str, set[tuple[str, str]]] = {key: set(just_in.gone.get(key, ())) for key in KEYS.values()}
    for name, key in KEYS.items():
        rows = just_in.rows.get(name, arrow_schema(name).empty_table())
        db.register("rows_just_in", rows)
        db.execute(f"CREATE OR REPLACE TABLE {_DB}.{name} AS SELECT * FROM rows_just_in")
        replaced[key] |= {*_pairs(rows, key)}
    for key, pairs in replaced.items():
        columns = list(zip(*pairs, strict=True)) or [(), ()]
        keys = pa.table({"cluster_id": pa.array(columns[0], pa.string()), key: pa.array(columns[1], pa.string())})
        db.register("rows_just_in", keys)
        db.execute(f"CREATE OR REPLACE TABLE {_DB}.gone.{key} AS SELECT * FROM rows_just_in")
    db.unregister("rows_just_in")
    db.execute("COMMIT")


def laid_over(name: str, source: str) -> str:
    """SQL for the rows of a table: those of `source`, and those that are just in in place of theirs. Of a table without
    such rows `source` itself."""
    if name not in KEYS:
        return source
    return f"({_without_replaced(source, KEYS[name])} UNION ALL BY NAME SELECT * FROM {of(name)})"


def of(name: str) -> str:
    """SQL for the rows of a table that are just in."""
    return f"{_DB}.{name}"


def kept_over(name: str, kept: str, made: str) -> str:
    """As `laid_over`, of rows made from those of a table: `kept` of the stored ones, `made` of those that are just
    in."""
    return f"{_without_replaced(f'({kept})', KEYS[name])} UNION ALL BY NAME {made}"


def _without_replaced(source: str, key: str) -> str:
    return f"SELECT t.* FROM {source} t ANTI JOIN {_DB}.gone.{key} USING (cluster_id, {key})"


def _pairs(rows: pa.Table, key: str) -> Iterable[tuple[str, str]]:
    return zip(rows["cluster_id"].to_pylist(), rows[key].to_pylist(), strict=True)
