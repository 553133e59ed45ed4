"""What the whole test run shares: one Spark session, made on first use, and the golden captures."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Starting it takes seconds, so tests without Spark never do. A machine without Java skips these tests."""
    from spark_jobs.session import NoJavaError, find_java, open_session

    try:
        find_java()
    except NoJavaError as missing:
        pytest.skip(str(missing))
    logging.getLogger("py4j").setLevel(logging.WARNING)  # it says goodbye at exit, into streams pytest has closed
    session = open_session()
    yield session
    session.stop()


@pytest.fixture(scope="session")
def golden() -> Path:
    """The captures, as `<kafka version>/<scenario>`."""
    return GOLDEN
