"""`stream`: evidence into a warehouse by Spark's own Kafka source. `run` goes on from there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from rebalance_audit.commands import options
from rebalance_audit.commands.collect import until_stopped
from rebalance_audit.commands.options import UsageError
from rebalance_audit.commands.output import note

OFFSETS_TOPIC = "__consumer_offsets"


def stream(
    warehouse: options.Warehouse,
    bootstrap: options.Bootstrap = None,
    command_config: options.CommandConfig = None,
    topics: Annotated[
        list[str] | None,
        typer.Option("-t", "--topic", metavar="TOPIC[=status|config]", help="A topic of Connect's, too. Repeatable."),
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            "--checkpoint",
            metavar="DIR",
            help="Where Spark remembers how far it read; in W, if that is a folder.",
        ),
    ] = None,
    until_end: Annotated[
        bool, typer.Option("--until-end", help="Stop at the end that is there now, instead of following.")
    ] = False,
    every: Annotated[str, typer.Option("--every", metavar="TIME", help="Between two batches.")] = "5s",
    most_records: Annotated[
        int, typer.Option("--most-records", metavar="N", min=1, help="In one batch at most.")
    ] = 2_000_000,
    jars: Annotated[
        Path | None,
        typer.Option("--jars", metavar="DIR", help="The jars of spark-sql-kafka; Maven fetches them if not given."),
    ] = None,
    quiet: options.Quiet = False,
    config: options.Config = None,
) -> None:
    """Follow a cluster's topics with Spark's own Kafka source. For those who run nothing but Spark; it only reads."""
    from ingest.client_config import parse_properties
    from rebalance_audit.warehouse.storage import files_at
    from rebalance_audit.warehouse.warehouse import Warehouse
    from spark_jobs.session import open_session
    from spark_jobs.streaming import StreamSettings
    from spark_jobs.streaming import stream as stream_into

    properties = parse_properties(command_config.read_text("utf-8")) if command_config else {}
    bootstrap = bootstrap or properties.get("bootstrap.servers")
    if not bootstrap:
        raise UsageError("No broker is given; name one with -b HOST:PORT.")
    location = Warehouse.open(warehouse, create=True).location
    if checkpoint is None:
        if not files_at(location).is_local:
            raise UsageError("Say with --checkpoint where Spark is to remember how far it read: a folder, or a URL "
                             "that this Spark has a file system for.")  # fmt: skip
        checkpoint = f"{location}/positions/stream"
    settings = StreamSettings(
        bootstrap=bootstrap, topics={OFFSETS_TOPIC: "group", **(options.connect_topics(topics) or {})},
        checkpoint=checkpoint, properties=properties, until_end=until_end,
        every_s=options.duration_ms(every) / 1000, most_records=most_records,
    )  # fmt: skip
    session = open_session(more=_with_source(jars))
    with until_stopped() as stopped:
        count = stream_into(session, location, settings, stop=stopped.is_set)
    note(f"Landed {count:,} records.", quiet=quiet)


def _with_source(jars: Path | None) -> dict[str, str]:
    """Spark's settings with the source's jars; none where spark-submit has started Spark with all it needs."""
    if jars is not None:
        found = sorted(jars.glob("*.jar"))
        if not found:
            raise UsageError(f"--jars {jars}: there is no jar in it; give the folder with spark-sql-kafka's.")
    elif "PYSPARK_GATEWAY_PORT" in os.environ:
        return {}
    else:
        from infra.spark import kafka_source

        found = kafka_source()
    return {
        "spark.jars": ",".join(str(jar.resolve()) for jar in found),
        # Options of the source may hold passwords, and Spark shows a plan's options.
        "spark.sql.redaction.options.regex": "(?i)url|jaas|password|secret|token|key",
    }
