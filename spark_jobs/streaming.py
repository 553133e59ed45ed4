"""Lands records of Kafka by Spark's own source, for those who run nothing but Spark.

Rows in:  records of the offsets topic and of Connect's, as Structured Streaming reads them.
Rows out: landing files, as the collector writes them, without the leader's epoch, which this source does not give.
Law:      a batch is landed before its checkpoint says so. A crash between the two lands the same offsets again, under
          the same names or others, and the bronze stage takes each record once: no record is lost or doubled.

It assigns partitions, as the collector does: no group is joined, nothing is committed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming import StreamingQuery

from rebalance_audit.domain import tables
from rebalance_audit.domain.connect_topics import redact_config
from rebalance_audit.warehouse.arrow_tables import arrow_schema
from rebalance_audit.warehouse.landing_files import write_landing_file
from rebalance_audit.warehouse.storage import Files, files_at

GROUP_PREFIX = "rebalance-audit-stream"
"""The prefix of the group ids that the source's consumers carry: none of them joins or commits."""
FLUSH_ROWS, FLUSH_BYTES = 400_000, 32 << 20
"""The most rows and bytes of one landing file, as the collector's."""
_ANSWER_WITHIN_MS = 10_000
_NOT_FOR_SPARK = frozenset({
    "bootstrap.servers", "group.id", "auto.offset.reset", "key.deserializer", "value.deserializer", "key.serializer",
    "value.serializer", "enable.auto.commit", "interceptor.classes", "isolation.level",
})  # fmt: skip
"""Client properties that Spark's source or this job sets."""
_READ = pa.schema([
    ("topic", pa.string()), ("partition", pa.int32()), ("count", pa.int64()), ("from_at_ms", pa.int64()),
    ("to_at_ms", pa.int64()),
])  # fmt: skip
_READ_AS_SEEN = "read_uncommitted"
"""Aborted commits are evidence, too."""
Positions = Mapping[str, Mapping[str, int]]
"""Topic to partition to the next offset, as Spark writes them into its checkpoint."""


class StreamError(Exception):
    """The stream cannot go on: one sentence with the fault, the place and the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSettings:
    bootstrap: str
    topics: Mapping[str, str]
    """Name to `group`, `status` or `config`. Of all but `group` secrets are removed."""
    checkpoint: str
    """A folder or a URL that Spark has a file system for; each cluster gets a folder in it."""
    properties: Mapping[str, str]
    """Properties of Kafka's Java clients."""
    until_end: bool = False
    every_s: float = 5.0
    most_records: int = 2_000_000
    """In one batch, so that the first one over a long history is not one file of everything."""


def stream(
    session: SparkSession,
    location: str,
    settings: StreamSettings,
    *,
    stop: Callable[[], bool] = lambda: False,
) -> int:
    """Land until `stop()`, or until the end that was there at the beginning; how many records. Raises StreamError."""
    try:
        cluster_id, partitions = _described(session, settings)
        lander = _Lander(session, location, cluster_id, settings)
        query = _start(session, settings, lander, partitions)
    except PySparkException as error:
        raise _refused(error, settings) from error
    try:
        while not query.awaitTermination(1):
            if stop():
                query.stop()
    except PySparkException as error:
        raise _refused(error, settings) from error
    finally:
        if query.isActive:
            query.stop()
    return lander.record_count


def _start(
    session: SparkSession, settings: StreamSettings, lander: _Lander, partitions: Mapping[str, list[int]]
) -> StreamingQuery:
    # Asked for offsets through the admin client, the source leaves out internal topics without a word; through a
    # consumer it does not, and one that is assigned its partitions joins no group.
    session.conf.set("spark.sql.streaming.kafka.useDeprecatedOffsetFetching", "true")
    reader = (
        session.readStream.format("kafka")
        .options(**_client_options(settings))
        .option("kafka.isolation.level", _READ_AS_SEEN)
        .option("assign", json.dumps(partitions))
        .option("groupIdPrefix", GROUP_PREFIX)
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .option("maxOffsetsPerTrigger", settings.most_records)
        .option("failOnDataLoss", "true")
    )
    records = reader.load().selectExpr(
        "topic", "partition", "offset", "unix_millis(timestamp) AS timestamp_ms", "key", "value", "headers"
    )
    trigger = {"availableNow": True} if settings.until_end else {"processingTime": f"{settings.every_s:g} seconds"}
    writer = records.writeStream.option("checkpointLocation", lander.checkpoint).foreachBatch(lander.land)
    return writer.trigger(**trigger).start()


class _Lander:
    """Lands one batch after the other; runs in the driver, its tasks wherever Spark runs them."""

    def __init__(self, session: SparkSession, location: str, cluster_id: str, settings: StreamSettings) -> None:
        self.session, self.location, self.cluster_id, self.settings = session, location, cluster_id, settings
        self.checkpoint = f"{settings.checkpoint.rstrip('/')}/{quote(cluster_id, safe='')}"
        self.record_count = 0

    def land(self, batch: DataFrame, number: int) -> None:
        query_id = json.loads(self._lines("metadata")[-1])["id"]
        landing = f"stream-{query_id}-{number:010d}"
        task = _landing_task(self.location, self.cluster_id, landing, dict(self.settings.topics))
        tasks = self.session.sparkContext.defaultParallelism
        read = batch.coalesce(max(1, tasks)).mapInArrow(task, from_arrow_schema(_READ)).toArrow()
        # Sources last: a ledger entry must never stand for evidence that is not there yet.
        pages = _pages(self.cluster_id, landing, self._before(number), self._offsets(f"offsets/{number}"), read)
        write_landing_file(files_at(self.location), "source", landing, pages)
        self.record_count += int(pc.sum(read["count"]).as_py() or 0)

    def _before(self, number: int) -> Positions:
        """Where a batch begins: at the end of the one before, or where the stream began; there at offset 0 for a
        partition that came later."""
        begun = self._offsets("sources/0/0")
        if number == 0:
            return begun
        last = self._offsets(f"offsets/{number - 1}")
        return {topic: {**begun.get(topic, {}), **of_topic} for topic, of_topic in last.items()}

    def _offsets(self, name: str) -> Positions:
        """The last line of a checkpoint's file holds the source's offsets."""
        found: Positions = json.loads(self._lines(name)[-1])
        return found

    def _lines(self, name: str) -> list[str]:
        rows = self.session.read.text(f"{self.checkpoint}/{name}", wholetext=True).collect()
        return str(rows[0][0]).strip().splitlines()


def _landing_task(
    location: str, cluster_id: str, landing: str, topics: Mapping[str, str]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def land(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        files = files_at(location)
        waiting: list[pa.Table] = []
        rows = size = 0
        for batch in batches:
            if not batch.num_rows:
                continue
            waiting.append(_without_secrets(pa.Table.from_batches([batch]), topics))
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if rows >= FLUSH_ROWS or size >= FLUSH_BYTES:
                yield _landed(files, cluster_id, landing, pa.concat_tables(waiting))
                waiting, rows, size = [], 0, 0
        if waiting:
            yield _landed(files, cluster_id, landing, pa.concat_tables(waiting))

    return land


def _without_secrets(records: pa.Table, topics: Mapping[str, str]) -> pa.Table:
    """Everything of Connect's topics but a status may be configuration, whatever the topic is called."""
    if all(topics[name] == "group" for name in pc.unique(records["topic"]).to_pylist()):
        return records
    columns = zip(records["topic"].to_pylist(), records["key"].to_pylist(), records["value"].to_pylist(), strict=True)
    values = [
        value if topics[topic] == "group" or (key or b"").startswith(b"status-") else redact_config(key or b"", value)
        for topic, key, value in columns
    ]
    at = records.schema.get_field_index("value")
    return records.set_column(at, "value", pa.array(values, pa.binary()))


def _landed(files: Files, cluster_id: str, landing: str, records: pa.Table) -> pa.RecordBatch:
    """One landing file, named after its first record: a repeated batch lands under the same name. What was read."""
    records = records.sort_by([("topic", "ascending"), ("partition", "ascending"), ("offset", "ascending")])
    first = records.slice(0, 1).to_pylist()[0]
    name = f"{landing}-{quote(first['topic'], safe='')}-{first['partition']}-{first['offset']}"
    constant = {"cluster_id": cluster_id, "copy": 0, "source": "live", "landing": name}
    schema, count = arrow_schema(tables.BRONZE_RECORD), records.num_rows
    arrays = [
        records[field.name].cast(field.type) if field.name in records.schema.names
        else pa.repeat(pa.scalar(constant[field.name], field.type), count) if field.name in constant
        else pa.nulls(count, field.type)
        for field in schema
    ]  # fmt: skip
    write_landing_file(files, "record", name, pa.Table.from_arrays(arrays, schema=schema))
    read = records.group_by(["topic", "partition"]).aggregate(
        [("offset", "count"), ("timestamp_ms", "min"), ("timestamp_ms", "max")]
    )
    columns = [read[name] for name in ("topic", "partition", "offset_count", "timestamp_ms_min", "timestamp_ms_max")]
    return pa.Table.from_arrays(columns, names=_READ.names).cast(_READ).combine_chunks().to_batches()[0]


def _pages(cluster_id: str, landing: str, before: Positions, after: Positions, read: pa.Table) -> pa.Table:
    """Rows of bronze.source: what a batch read of each partition, and that it looked where there was nothing."""
    seen: dict[tuple[str, int], dict[str, Any]] = {}
    for row in read.to_pylist():
        known = seen.setdefault((row["topic"], row["partition"]), row)
        if known is not row:
            known["count"] += row["count"]
            known["from_at_ms"] = min(known["from_at_ms"], row["from_at_ms"])
            known["to_at_ms"] = max(known["to_at_ms"], row["to_at_ms"])
    rows = []
    for topic, partitions in sorted(after.items()):
        for partition, to_position in sorted(partitions.items()):
            found = seen.get((topic, int(partition)), {})
            rows.append({
                "cluster_id": cluster_id, "source": f"record:{topic}-{partition}", "kind": "record", "read_id": landing,
                "landing": landing, "from_position": before.get(topic, {}).get(partition, 0),
                "to_position": to_position, "item_count": found.get("count", 0), "let_go_count": 0,
                "from_at_ms": found.get("from_at_ms"), "to_at_ms": found.get("to_at_ms"),
            })  # fmt: skip
    return pa.Table.from_pylist(rows, schema=arrow_schema(tables.BRONZE_SOURCE))


def _client_options(settings: StreamSettings) -> dict[str, str]:
    given = {name: value for name, value in settings.properties.items() if name not in _NOT_FOR_SPARK}
    return {f"kafka.{name}": value for name, value in ({"bootstrap.servers": settings.bootstrap} | given).items()}


def _described(session: SparkSession, settings: StreamSettings) -> tuple[str, dict[str, list[int]]]:
    """The cluster's id and the topics' partitions, as brokers say them to the Java client that the source brings."""
    jvm: Any = session.sparkContext._jvm
    properties = jvm.java.util.Properties()
    for name, value in _client_options(settings).items():
        properties.setProperty(name.removeprefix("kafka."), value)
    for name in ("default.api.timeout.ms", "request.timeout.ms"):
        properties.setProperty(name, str(_ANSWER_WITHIN_MS))
    from py4j.protocol import Py4JError

    try:
        admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(properties)
    except (Py4JError, TypeError) as error:
        raise StreamError(
            f"Spark has no Kafka source here, or refuses the client properties ({_first_line(error)}); give its jars "
            "with --jars DIR or spark-submit --packages, and check --command-config."
        ) from error
    try:
        cluster_id = str(admin.describeCluster().clusterId().get())
        topics = jvm.java.util.ArrayList()
        for name in settings.topics:
            topics.add(name)
        found = admin.describeTopics(topics).allTopicNames().get()
        return cluster_id, {
            name: sorted(partition.partition() for partition in found[name].partitions()) for name in settings.topics
        }
    except Py4JError as error:
        if (refused := _refusal(str(error), settings)) is not None:
            raise refused from error
        raise StreamError(
            f"No broker answers at {settings.bootstrap} within {_ANSWER_WITHIN_MS // 1000} s; check the address, the "
            "network and the security settings."
        ) from error
    finally:
        admin.close()


def _refused(error: PySparkException, settings: StreamSettings) -> StreamError:
    said = str(error)
    if (refused := _refusal(said, settings)) is not None:
        return refused
    if "DATA_LOSS" in said or "data loss" in said.lower() or "failOnDataLoss" in said:
        return StreamError(
            f"Records on {settings.bootstrap} were deleted before they were read; give another --checkpoint: all that "
            "is there is read again, what is known collapses, and the ledger shows what is missing."
        )
    return StreamError(f"Spark's Kafka source ended: {_first_line(error)}; what is landed is kept, run it again.")


def _refusal(said: str, settings: StreamSettings) -> StreamError | None:
    """For what Kafka's own exceptions say."""
    if "UnknownTopicOrPartition" in said:
        names = ", ".join(settings.topics)
        return StreamError(f"One of {names} is not on {settings.bootstrap}, or hidden from this user; check -t.")
    if "Authorization" in said or "Authentication" in said:
        return StreamError(
            f"{settings.bootstrap} refuses this user; check --command-config, and allow DESCRIBE and READ on its "
            f"topics, and READ on groups that begin with {GROUP_PREFIX}."
        )
    return None


def _first_line(error: object) -> str:
    return str(error).strip().partition("\n")[0][:300].rstrip(".")
