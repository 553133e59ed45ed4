"""Jars for Spark that PySpark does not carry, through Maven."""

from __future__ import annotations

from pathlib import Path

from infra.lab.jars import BUILD, fetched

POM = Path(__file__).with_name("kafka-source.xml")


def kafka_source() -> list[Path]:
    """The jars of Spark's own Kafka source; fetched the first time. Raises LabError."""
    folder = fetched(POM, BUILD / "spark-kafka", "Spark's Kafka source (or give its jars with --jars)")
    return sorted(folder.glob("*.jar"))
