"""The metadata log in bronze, and what brokers' and controllers' logs add to it, by cluster."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate, groupby
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rebalance_audit.domain.detect import CopyConflict
from rebalance_audit.domain.gather.clocks import NodeClock
from rebalance_audit.domain.metadata import (
    METADATA_TOPIC,
    TOPIC_FRAME,
    SourceMetadata,
    is_metadata_topic,
    metadata_of_bronze,
    named_topic,
)
from rebalance_audit.domain.model import SourceLine, record_ref
from rebalance_audit.domain.reassign.lines import LINE_SIGNS, LogLines, PartitionLine, settled
from rebalance_audit.warehouse.queries import cursor
from rebalance_audit.warehouse.row_groups import held_in, row_groups_of
from rebalance_audit.warehouse.storage import relation
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs.group_rows import literal
from spark_jobs.kept_folds import folded

OF_METADATA = f"starts_with(topic, '{METADATA_TOPIC}')"
NO_OP = f"topic = '{METADATA_TOPIC}' AND NOT coalesce(is_control, false) AND coalesce(hex(value), '') = '01140000'"
"""A NoOpRecord of version 0, which has no fields."""
OF_CONTROLLERS = "(" + " OR ".join(f"contains(text, '{sign}')" for sign in LINE_SIGNS) + ")"
TORN_HEADS = r"""(contains(text, '[GroupCoordinator ') OR contains(text, '[GroupMetadataManager ')) AND (
    NOT regexp_matches(text, '\)\s*$')
    OR (contains(text, 'Preparing to rebalance group ') AND NOT contains(text, ' with old generation '))
    OR (contains(text, 'Stabilized group ') AND NOT contains(text, ' generation ')))"""
"""Behind these a client's text may have made the lines of brokers and controllers."""
OF_METADATA_READING = f"source = 'record:{METADATA_TOPIC}-0'"
_COLUMNS = ["cluster_id", "topic", "offset", "timestamp_ms", "key", "value", "node", "leader_epoch", "is_control"]
_SELECTED = ", ".join(f'"{name}"' for name in _COLUMNS)
_TICK_MS = 4_000
_TOPIC_KIND = TOPIC_FRAME.hex().upper()
_CHOSEN = f"""
CREATE TEMP TABLE log AS
WITH whole AS (
    SELECT topic, min(node) node FROM (
        SELECT topic, node FROM arrived WHERE topic <> '{METADATA_TOPIC}' GROUP BY ALL
        HAVING count(DISTINCT "offset") = max("offset") + 1 AND arg_max(hex(key[3:4]), "offset") = '0004')
    GROUP BY topic
), best AS (
    SELECT * FROM arrived
    WHERE topic = '{METADATA_TOPIC}' OR (topic, node) IN (SELECT (topic, node) FROM whole)
    QUALIFY row_number() OVER (
        PARTITION BY topic, "offset" ORDER BY coalesce(leader_epoch, 0) DESC, timestamp_ms, value, node) = 1
), living AS (
    SELECT * FROM best QUALIFY coalesce(leader_epoch, 0) >=
        max(coalesce(leader_epoch, 0)) OVER (PARTITION BY topic ORDER BY "offset")
)
SELECT * EXCLUDE (is_control), coalesce(is_control, false) is_control,
    CASE WHEN topic <> '{METADATA_TOPIC}' THEN topic[-31:-12]::BIGINT END snapshot_end,
    coalesce(hex(value[1:2]), '') kind,
    CASE WHEN kind IN ('0103', '0105') AND NOT coalesce(is_control, false) THEN hex(value[4:23]) END place
FROM living
"""
"""Where copies differ at one offset, that of the latest epoch holds; what an earlier one wrote behind it was
truncated. Of copies that agree the least node's is cited. A checkpoint counts when one node's is there up to its footer
(control type 4). `place`: partition and topic id, of records of one partition."""
_HANDED_OVER = f"""
SELECT cluster_id, topic, "offset", timestamp_ms, key,
    CASE WHEN place IS NULL OR place IN (FROM wanted) THEN value ELSE '\\x01\\x0F\\x00'::BLOB END AS value,
    node, leader_epoch, is_control
FROM log WHERE (place IS NULL AND kind <> '0114') OR place IN (FROM wanted)
    OR (snapshot_end IS NULL AND "offset" IN (
        SELECT unnest([min("offset"), max("offset")]) FROM log WHERE snapshot_end IS NULL
        GROUP BY timestamp_ms // {_TICK_MS}
        UNION SELECT min("offset") FROM log WHERE kind = '0114'))
ORDER BY coalesce(snapshot_end, "offset"), snapshot_end IS NULL, topic, "offset"
"""
"""Records of a wanted partition or of no partition. Of the other records enough are added, without content (as
ProducerIds), that no time without a record becomes longer than it was."""


class BronzeOfClusters:
    """The metadata records and controllers' lines of some clusters in bronze. A question for each cluster takes longer
    than to read the few rows that most of them have, so all are read at the first question."""

    def __init__(self, warehouse: Warehouse, clusters: Sequence[str], until: Mapping[str, int]) -> None:
        """`until`: the version of each table."""
        self._warehouse, self._clusters, self._until = warehouse, clusters, until

    def lines(self, cluster_id: str) -> pa.Table:
        """Lines of controllers and brokers about partitions, and lines that may hide a client's text behind them."""
        return _of(self._lines, cluster_id)

    def records(self, cluster_id: str) -> pa.Table:
        """Records of topics whose names begin like the metadata log's."""
        return _of(self._records, cluster_id)

    def readings(self, cluster_id: str) -> pa.Table:
        """Readings of the metadata log: how far it was read."""
        return _of(self._readings, cluster_id)

    @cached_property
    def _lines(self) -> pa.Table:
        columns = ["cluster_id", "node", "file_name", "file_id", "byte", "text"]
        return self._read("bronze.log_line", columns, f"({OF_CONTROLLERS} OR {TORN_HEADS})")

    @cached_property
    def _records(self) -> pa.Table:
        return self._read("bronze.record", _COLUMNS, OF_METADATA)

    @cached_property
    def _readings(self) -> pa.Table:
        columns = ["cluster_id", "read_id", "to_position", "problem_code", "problem_position"]
        return self._read("bronze.source", columns, OF_METADATA_READING)

    def _read(self, table: str, columns: Sequence[str], where: str) -> pa.Table:
        found = row_groups_of(self._warehouse.files(table, self._until[table]), "cluster_id", self._clusters)
        files = list(dict.fromkeys(group.file for group in found))
        first, last = literal(min(self._clusters)), literal(max(self._clusters))
        listed = ", ".join(map(literal, self._clusters))
        # DuckDB compares with bounds while it reads, and asks all else, a list too, of the rows that are left.
        of_clusters = f"cluster_id >= {first} AND cluster_id <= {last} AND cluster_id IN ({listed})"
        return self._warehouse.read_files(table, files, columns, f"{where} AND {of_clusters}")


def _of(rows: pa.Table, cluster_id: str) -> pa.Table:
    return rows.filter(pc.equal(rows["cluster_id"], cluster_id))


_ROWS_AT_ONCE = 200_000


def portions_of(warehouse: Warehouse, clusters: Iterable[str], until: Mapping[str, int]) -> list[list[str]]:
    """These clusters in their order, those together that have about so many rows in bronze together. What a row group
    holds is divided among its clusters: each portion reads a row group that it shares with others again."""
    wanted = sorted(clusters)
    rows: Counter[str] = Counter()
    for table in ("bronze.record", "bronze.log_line"):
        for held in (held for file in warehouse.files(table, until[table]) for held in held_in(file, "cluster_id")):
            inside = held.among(wanted)
            for cluster_id in inside:
                rows[cluster_id] += held.row_count // len(inside)
    ends = accumulate(rows[cluster_id] for cluster_id in wanted)
    portions = zip((end // _ROWS_AT_ONCE for end in ends), wanted, strict=True)
    return [[cluster_id for _, cluster_id in of_portion] for _, of_portion in groupby(portions, key=itemgetter(0))]


class ClusterLog:
    """One cluster's metadata log as bronze has it: what is new, and the records of some of its partitions."""

    def __init__(self, cluster_id: str, arrived: pa.Table) -> None:
        self.cluster_id = cluster_id
        self._db = cursor()
        topics = [topic for topic in pc.unique(arrived["topic"]).to_pylist() if is_metadata_topic(topic)]
        # A user's topic may begin like it.
        self._db.register("arrived", arrived.filter(pc.is_in(arrived["topic"], pa.array(topics, pa.string()))))
        self._db.execute(_CHOSEN)
        self.stretches: list[tuple[int, int]] = self._rows(
            """SELECT min("offset"), max("offset") + 1 FROM (
                SELECT "offset", "offset" - row_number() OVER (ORDER BY "offset") island
                FROM log WHERE snapshot_end IS NULL) GROUP BY island ORDER BY 1"""
        )
        self._names = dict(self._topics())

    def __enter__(self) -> ClusterLog:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def _rows(self, sql: str, params: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        return self._db.execute(sql, list(params)).fetchall()

    def _topics(self) -> Iterator[tuple[str, str]]:
        for row in self._rows(f"SELECT {_SELECTED} FROM log WHERE kind = '{_TOPIC_KIND}'"):
            if (named := named_topic(metadata_of_bronze(**dict(zip(_COLUMNS, row, strict=True))))) is not None:
                yield named

    def name_of(self, place: str) -> tuple[str, int]:
        topic_id = urlsafe_b64encode(bytes.fromhex(place[8:]))[:22].decode()
        return self._names.get(topic_id, topic_id), int(place[:8], 16)

    def namesakes(self, places: set[str]) -> set[str]:
        """Add the same partitions of topics that had or have the same name: rows have names."""
        by_name: dict[str, list[str]] = {}
        for topic_id, name in self._names.items():
            by_name.setdefault(name, []).append(topic_id)
        shared = {place_of(i, 0)[8:]: ids for ids in by_name.values() if len(ids) > 1 for i in ids}
        return places | {
            place_of(topic_id, int(place[:8], 16)) for place in places for topic_id in shared.get(place[8:], ())
        }

    @property
    def is_empty(self) -> bool:
        return not self._rows("SELECT 1 FROM log LIMIT 1")

    def places(self, *, only_changed: bool = False) -> set[str]:
        """Places of all partitions; or of those that ever changed, or stand in a checkpoint."""
        where = "AND (kind = '0105' OR snapshot_end IS NOT NULL)" if only_changed else ""
        return {place for (place,) in self._rows(f"SELECT DISTINCT place FROM log WHERE place IS NOT NULL {where}")}

    def new_places(self, new: pa.Table) -> set[str] | None:
        """The partitions that rows with these topics and offsets are about. None: the rows do not simply continue the
        log, so any partition may have changed."""
        if new.num_rows == 0:
            return set()
        self._db.register("new", new)
        ((least, rewritten, has_snapshot),) = self._rows(
            f"""SELECT min("offset") FILTER (topic = '{METADATA_TOPIC}'),
                (SELECT max("offset") FROM (SELECT topic, "offset" FROM arrived EXCEPT SELECT topic, "offset" FROM new)
                 WHERE topic = '{METADATA_TOPIC}'),
                count(*) FILTER (topic <> '{METADATA_TOPIC}') > 0 FROM new"""
        )
        if has_snapshot or rewritten is None or least <= rewritten:
            return None
        # Records that an ending transaction makes effective came earlier.
        ((start,),) = self._rows(
            """SELECT coalesce(min(
                (SELECT max(b."offset") FROM log b WHERE b.kind = '0117' AND b."offset" < e."offset")), ?)
                FROM log e WHERE e.kind IN ('0118', '0119') AND e."offset" >= ?""",
            [least, least],
        )
        since = f'FROM log WHERE snapshot_end IS NULL AND "offset" >= {min(start, least)}'
        found = {place for (place,) in self._rows(f"SELECT DISTINCT place {since} AND place IS NOT NULL")}
        removed = self._rows(
            f"""SELECT DISTINCT place FROM log WHERE place IS NOT NULL
                AND place[9:] IN (SELECT hex(value[4:19]) {since} AND kind = '0109')"""
        )
        return found | {place for (place,) in removed}

    def chunks(self, places: Iterable[str], most_records: int) -> Iterator[list[str]]:
        """The places in portions of so many records; one place is never cut."""
        self._want(places)
        portion: list[str] = []
        size = 0
        for place, count in self._rows(
            "SELECT place, count(*) FROM log WHERE place IN (FROM wanted) GROUP BY place ORDER BY place"
        ):
            if portion and size + count > most_records:
                yield portion
                portion, size = [], 0
            portion.append(place)
            size += count
        yield portion

    def sources(self, places: Iterable[str]) -> Iterator[SourceMetadata]:
        """In the order of the log: for MetadataReader(stretches=…)."""
        self._want(places)
        found = self._db.execute(_HANDED_OVER)
        while rows := found.fetchmany(10_000):
            for row in rows:
                yield metadata_of_bronze(**dict(zip(_COLUMNS, row, strict=True)))

    def _want(self, places: Iterable[str]) -> None:
        self._db.register("wanted", pa.table({"place": pa.array(sorted(places), pa.string())}))

    def conflict(self) -> CopyConflict | None:
        """Offsets at which two copies of one epoch differ: they cannot be of one log."""
        ((count, first, last, first_at_ms, last_at_ms),) = self._rows(
            """SELECT count(*), min("offset"), max("offset"), min(at_ms), max(at_ms) FROM (
                SELECT "offset", min(timestamp_ms) at_ms FROM arrived
                GROUP BY topic, "offset", leader_epoch HAVING count(DISTINCT coalesce(hex(value), '')) > 1)"""
        )
        if not count:
            return None
        return CopyConflict(
            cluster_id=self.cluster_id, topic=METADATA_TOPIC, partition=0, count=count,
            first_ref=record_ref(METADATA_TOPIC, 0, first), last_ref=record_ref(METADATA_TOPIC, 0, last),
            first_at_ms=first_at_ms, last_at_ms=last_at_ms,
        )  # fmt: skip


def doubtful_offset(of_cluster: pa.Table) -> int | None:
    """The offset from which on only a minority of the nodes' copies holds the log; None if no reading says so. A later
    reading without doubt that reaches further ends it: nothing was truncated."""
    readings = of_cluster.to_pylist()
    doubts = {
        row["read_id"].partition("#")[0]: row["problem_position"]
        for row in readings
        if row["problem_code"] == "above_majority"
    }
    sure = [row["to_position"] for row in readings if row["to_position"] and row["read_id"] not in doubts]
    return max([*doubts.values(), *sure]) if doubts else None


def log_offset(ref: str) -> int:
    """The ref's offset in the metadata log; -1 for other evidence."""
    place = ref.rpartition("@")[2] if ref.startswith("metadata:") else ""
    return int(place) if place.isdigit() else -1


def next_log_offset(ref: str) -> int:
    """The first offset of the metadata log after what the ref stands for; 0 for other evidence."""
    place = ref.rpartition("@")[2] if ref.startswith("metadata:") else ""
    return int(place[:20]) if ":" in place else log_offset(ref) + 1


def place_of(topic_id: str, partition: int) -> str:
    """The name of a partition in ClusterLog."""
    return f"{partition:08X}" + urlsafe_b64decode(topic_id + "==").hex().upper()


def logged_topic_names(warehouse: Warehouse) -> list[tuple[str, str, str]]:
    """(cluster id, topic id, topic), of topics that were deleted too."""
    return [
        tuple(name)
        for name in folded(warehouse, "logged-names", "bronze.record", None, _with_names, value_version=1) or ()
    ]


def _with_names(known: list[list[str]] | None, files: Sequence[str]) -> list[list[str]]:
    found = {tuple(name) for name in known or ()}
    count = len(found)
    with cursor() as db:
        rows = db.execute(
            f"SELECT {_SELECTED} FROM {relation(files)} "
            f"WHERE {OF_METADATA} AND hex(value[1:{len(TOPIC_FRAME)}]) = '{_TOPIC_KIND}'"
        ).fetchall()
    for row in rows:
        source = metadata_of_bronze(**dict(zip(_COLUMNS, row, strict=True)))
        if is_metadata_topic(source.topic) and (named := named_topic(source)) is not None:
            found.add((source.cluster_id, *named))
    return known if known is not None and len(found) == count else sorted(map(list, found))


def controller_lines(of_cluster: pa.Table, clocks: Mapping[str, NodeClock]) -> list[PartitionLine]:
    """Lines that brokers and controllers logged about partitions, by time."""
    in_files = of_cluster.sort_by([("node", "ascending"), ("file_id", "ascending"), ("byte", "ascending")])
    sources = (SourceLine(**row) for batch in in_files.to_batches(10_000) for row in batch.to_pylist())
    return settled(LogLines().read(sources).lines, clocks)
