"""What the whole test run shares: one Spark session, made on first use, and the golden captures."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.object_store import ObjectStore

GOLDEN = Path(__file__).parent / "golden"

# pytest-xdist gives its workers the width of its own terminal, and a main module without a file, which PySpark takes
# for a run of its own doctests.
os.environ.pop("COLUMNS", None)
if not hasattr(sys.modules["__main__"], "__file__"):
    sys.modules["__main__"].__file__ = pytest.__file__

# How long an example takes says more about the machine than about the code.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

EXECUTED = "executions of a fuzz target"
"""The property of a test that fuzzed."""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """A run that fuzzed nothing must not look like one that found nothing."""
    reports = terminalreporter.getreports("passed") + terminalreporter.getreports("failed")
    counts = [count for report in reports for name, count in report.user_properties if name == EXECUTED]
    if counts:
        terminalreporter.write_line(f"fuzz: {sum(counts):,} executions of {len(counts)} targets")


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


@pytest.fixture(scope="session")
def _running_store() -> Iterator[ObjectStore]:
    from tests.object_store import ObjectStore

    with ObjectStore() as store:
        yield store


@pytest.fixture
def object_store(_running_store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    """An S3 server, well; this process knows it by its environment."""
    for name, value in _running_store.environment().items():
        monkeypatch.setenv(name, value)
    _running_store.fault = None
    yield _running_store
    _running_store.fault = None


def _forget_clients() -> None:
    """Those of this process are made again, with the limits of then."""
    from rebalance_audit.warehouse import object_store as client
    from rebalance_audit.warehouse import queries

    queries.close(queries._shared())
    queries._shared.cache_clear()
    for db in queries._databases:  # those that another test left open
        for scheme in queries._schemes:
            db.unregister_filesystem(scheme)
    queries._schemes.clear()
    for made in (client._bucket, client._file_system, client._arrow_file_system):
        made.cache_clear()


@pytest.fixture
def asks_twice(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This process asks a store once more at most. For each answer it waits as long as always: on a loaded machine a
    store that is well takes seconds, and a refusal must not look like silence."""
    from rebalance_audit.warehouse import object_store as client

    monkeypatch.setattr(client, "MAX_RETRIES", 1)
    _forget_clients()
    yield
    _forget_clients()


@pytest.fixture
def impatient(asks_twice: None, monkeypatch: pytest.MonkeyPatch) -> Callable[[], AbstractContextManager[None]]:
    """`with impatient():` this process, and what it opens then, waits for an answer no longer than a second."""
    from rebalance_audit.warehouse import object_store as client

    @contextmanager
    def briefly() -> Iterator[None]:
        with monkeypatch.context() as patched:
            patched.setattr(client, "ANSWER_WITHIN_S", 1)
            _forget_clients()
            yield
        _forget_clients()

    return briefly


@pytest.fixture
def store_url(object_store: ObjectStore) -> str:
    """Where no other test has anything."""
    import uuid

    from tests.object_store import BUCKET

    return f"s3://{BUCKET}/{uuid.uuid4().hex[:12]}"
