"""What a real object store does to a warehouse: throttling, lost answers, other hosts, refusals."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rebalance_audit.warehouse import lease as lease_module
from rebalance_audit.warehouse import object_store as client
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.storage import files_at, store_fault
from rebalance_audit.warehouse.warehouse import Warehouse, WarehouseError
from tests import object_store as faults
from tests.object_store import ObjectStore

FINDING = "silver.finding"


def a_finding(subject: str) -> dict[str, Any]:
    return {
        "cluster_id": "c", "finding_id": f"f-{subject}", "rule_id": "RB001", "severity": "info",
        "subject_type": "group", "subject": subject, "status": "open", "first_seen_at_ms": 1, "last_seen_at_ms": 2,
        "title": "t", "evidence": ["record:a-0@1"],
    }  # fmt: skip


def findings(*subjects: str) -> pa.Table:
    return rows_to_table(FINDING, [a_finding(s) for s in subjects])


def keys(*subjects: str) -> pa.Table:
    return pa.table({"cluster_id": ["c"] * len(subjects), "subject": list(subjects)})


def subjects(location: str) -> list[str]:
    return sorted(Warehouse.open(location).read(FINDING, ["subject"]).column("subject").to_pylist())


def sentence(error: BaseException) -> str:
    said = store_fault(error)
    assert said is not None, repr(error)
    assert "test-secret-value" not in said
    return said


# ---- answers that are late or lost


def test_throttled_requests_are_repeated(object_store: ObjectStore, store_url: str) -> None:
    warehouse = Warehouse.open(store_url, create=True)
    object_store.counted()
    object_store.fault = faults.throttled(4)
    warehouse.append(FINDING, findings("a"))
    assert object_store.traffic.refused == 4
    assert subjects(store_url) == ["a"]


def test_throttling_without_end_is_one_sentence(
    object_store: ObjectStore, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse = Warehouse.open(store_url, create=True)
    object_store.fault = faults.throttled(10_000)
    with pytest.raises(Exception) as caught:  # noqa: PT011 - whichever library meets it first
        warehouse.append(FINDING, findings("a"))
    assert "asks for fewer requests" in sentence(caught.value)
    object_store.fault = None
    assert subjects(store_url) == []


def test_a_commit_whose_answer_was_lost_is_there_once(object_store: ObjectStore, store_url: str) -> None:
    warehouse = Warehouse.open(store_url, create=True)
    warehouse.append(FINDING, findings("a"))
    object_store.fault = faults.lost_acknowledgement("_delta_log/00000000000000000002.json")
    warehouse.append(FINDING, findings("b"))
    object_store.fault = None
    warehouse.append(FINDING, findings("c"))
    assert subjects(store_url) == ["a", "b", "c"]


def test_a_lease_whose_answer_was_lost_is_held(object_store: ObjectStore, store_url: str) -> None:
    warehouse = Warehouse.open(store_url, create=True)
    object_store.fault = faults.lost_acknowledgement("lease.json")
    with warehouse.lease():
        assert object_store.traffic.refused
        warehouse.append(FINDING, findings("a"))
    with warehouse.lease():
        pass


# ---- several writers


def test_all_that_processes_add_at_once_is_kept(store_url: str) -> None:
    Warehouse.open(store_url, create=True).append(FINDING, findings("first"))

    def add(name: str) -> None:
        mine = Warehouse.open(store_url)
        for at in range(4):
            mine.append(FINDING, findings(f"{name}{at}"))

    threads = [threading.Thread(target=add, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert subjects(store_url) == sorted(["first", *(f"{name}{at}" for name in "abc" for at in range(4))])


def test_what_was_worked_out_from_an_older_version_is_not_committed(store_url: str) -> None:
    """Two hosts that both believe to be the writer: the one that comes second has nothing in the tables."""
    mine, other = Warehouse.open(store_url, create=True), Warehouse.open(store_url)
    with mine.lease():
        mine.append(FINDING, findings("a", "b"))
        other.replace(FINDING, findings("a2"), keys("a"))  # without the lease: as after a pause of ten minutes
        with pytest.raises(WarehouseError, match="changed by another process"):
            mine.replace(FINDING, findings("a3"), keys("a"))
    assert subjects(store_url) == ["a2", "b"]


def lease_of_another_host(location: str) -> None:
    held = {"pid": 1, "host": "another-host", "renewed_at_ms": 1, "what": "run", "token": "x"}
    files_at(location).write("lease.json", json.dumps(held).encode())


def test_the_lease_of_another_host_is_honoured_by_the_stores_clock(store_url: str) -> None:
    """Its own clock may be wrong by years: here it says 1970."""
    warehouse = Warehouse.open(store_url, create=True)
    lease_of_another_host(store_url)
    with pytest.raises(WarehouseError, match="another-host"), warehouse.lease():
        pass


def test_the_lease_of_a_host_that_died_is_taken_over(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    warehouse = Warehouse.open(store_url, create=True)
    lease_of_another_host(store_url)
    monkeypatch.setattr(lease_module, "LEASE_STALE_MS", 500)
    time.sleep(2.1)  # the store's clock goes by seconds
    with warehouse.lease():
        warehouse.append(FINDING, findings("a"))
    with warehouse.lease():
        pass
    assert subjects(store_url) == ["a"]


def test_of_two_that_take_a_lease_over_one_has_it(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Warehouse.open(store_url, create=True)
    lease_of_another_host(store_url)
    monkeypatch.setattr(lease_module, "LEASE_STALE_MS", -1)
    stored = files_at(store_url).read_tagged("lease.json")
    assert stored is not None
    taken = [files_at(store_url).write_if("lease.json", name, stored.tag) for name in (b"one", b"two")]
    assert [tag is not None for tag in taken] == [True, False]


def test_a_writer_that_lost_its_lease_commits_nothing(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    warehouse = Warehouse.open(store_url, create=True)
    monkeypatch.setattr(lease_module, "_SURE_FOR_S", -1)
    with warehouse.lease():
        warehouse.append(FINDING, findings("a"))
        lease_of_another_host(store_url)
        with pytest.raises(WarehouseError, match="another one writes now"):
            warehouse.append(FINDING, findings("b"))
        with pytest.raises(WarehouseError, match="another one writes now"):
            warehouse.publish({FINDING: 1})
    assert subjects(store_url) == ["a"]
    assert b"another-host" in (files_at(store_url).read("lease.json") or b"")


# ---- a store that refuses


@pytest.mark.parametrize(
    ("answer", "said"),
    [(faults.READ_ONLY, "refuses this"), (faults.FULL, "is full")],
    ids=["read-only", "full"],
)
@pytest.mark.parametrize("after", [0, 1, 2])
def test_a_store_that_takes_nothing_more(
    object_store: ObjectStore, store_url: str, answer: tuple[str, str], said: str, after: int
) -> None:
    warehouse = Warehouse.open(store_url, create=True)
    warehouse.append(FINDING, findings("a"))
    object_store.fault = faults.refuses_writes(*answer, after=after)
    with pytest.raises(Exception) as caught:  # noqa: PT011 - whichever library meets it first
        warehouse.replace(FINDING, findings("a2", "b"), keys("a", "b"))
    assert said in sentence(caught.value)
    object_store.fault = None
    assert subjects(store_url) == ["a"]


@pytest.mark.parametrize("after", [0, 3, 6])
def test_credentials_that_expire_in_the_middle(object_store: ObjectStore, store_url: str, after: int) -> None:
    warehouse = Warehouse.open(store_url, create=True)
    warehouse.append(FINDING, findings("a"))
    object_store.fault = faults.expired(after)
    with pytest.raises(Exception) as caught:  # noqa: PT011 - whichever library meets it first
        warehouse.replace(FINDING, findings("b"), keys("a"))
    assert "have expired" in sentence(caught.value)
    object_store.fault = None
    assert subjects(store_url) == ["a"]


def test_a_bucket_that_is_not_there(object_store: ObjectStore) -> None:
    with pytest.raises(Exception) as caught:  # noqa: PT011
        Warehouse.open("s3://no-such-bucket/w", create=True)
    assert "there is no bucket no-such-bucket" in sentence(caught.value)


def test_a_store_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://user:test-secret-value@127.0.0.1:9")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test-secret-value")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setattr(client, "MAX_RETRIES", 1)
    with pytest.raises(Exception) as caught:  # noqa: PT011
        Warehouse.open("s3://some-bucket-of-its-own/w")
    assert "cannot be reached" in sentence(caught.value)


@pytest.mark.parametrize("after", [0, 5, 8])
def test_a_store_that_does_not_answer_in_time(
    object_store: ObjectStore,
    store_url: str,
    impatient: Callable[[], AbstractContextManager[None]],
    after: int,
) -> None:
    Warehouse.open(store_url, create=True).append(FINDING, findings("a"))
    object_store.fault = faults.slow(1.5, after)
    with impatient():
        with pytest.raises(Exception) as caught:  # noqa: PT011 - whichever library meets it first
            Warehouse.open(store_url).replace(FINDING, findings("a2", "b"), keys("a", "b"))
        assert "does not answer in time" in sentence(caught.value)
    object_store.fault = None
    assert subjects(store_url) in (["a"], ["a2", "b"])  # all or nothing


@pytest.mark.parametrize(
    ("tries", "said"),
    [("60.2s, after 1 retries", "does not answer in time"), ("30.1s", "does not answer in time"),
     ("6.8s, after 6 retries", "cannot be reached"), ("38.1s, after 6 retries", "cannot be reached")],
)  # fmt: skip
def test_what_deltalake_says_of_a_slow_store_is_told_from_one_that_is_away(
    store_url: str, tries: str, said: str
) -> None:
    """deltalake 1.6.6, to a port that nobody listens to and to a server that is silent: the same but for the time."""
    Warehouse.open(store_url, create=True)
    error = OSError(
        f"Generic S3 error: Error performing PUT http://127.0.0.1:1/b/w/a.parquet in {tries}, max_retries: 6, "
        "retry_timeout: 60s  - HTTP error: error sending request"
    )
    assert said in sentence(error)


@pytest.mark.parametrize("url", ["ftp://host/w", "s3://", "http://host/w"])
def test_a_url_of_no_object_store_is_refused(url: str) -> None:
    with pytest.raises(WarehouseError, match="no warehouse's URL"):
        Warehouse.open(url)


# ---- what is read


def test_a_groups_rows_are_read_without_the_table(object_store: ObjectStore, store_url: str) -> None:
    """Filter and columns go down to the store: a block here, a block there."""
    warehouse = Warehouse.open(store_url, create=True)
    random = np.random.default_rng(1)
    per_file = 20_000
    for number in range(3):
        rows = [a_finding(f"group-{number}-{at // 100:05d}") for at in range(per_file)]
        for at, row in enumerate(rows):
            row["finding_id"] = f"{number}-{at}"
            row["title"] = random.bytes(150).hex()
            row["status"] = "resolved"  # open ones have small files of their own
        warehouse.append(FINDING, rows_to_table(FINDING, rows))
    size = sum(client.bucket(file)[0].head(client.bucket(file)[1])["size"] for file in warehouse.files(FINDING))
    client._file_system.cache_clear()
    client._arrow_file_system.cache_clear()
    reader = Warehouse.open(store_url)
    object_store.counted()
    found = reader.query("SELECT subject FROM silver.finding WHERE subject = ?", ["group-1-00007"])
    assert found.num_rows == 100
    read = object_store.traffic.bytes_out
    assert size > 8_000_000
    assert read < size / 3, f"{read:,} of {size:,}"


def test_what_was_read_is_not_read_again(object_store: ObjectStore, store_url: str) -> None:
    warehouse = Warehouse.open(store_url, create=True)
    warehouse.append(FINDING, findings("a", "b"))
    warehouse.read(FINDING)
    object_store.counted()
    assert warehouse.read(FINDING).num_rows == 2
    assert object_store.traffic.requests <= 1  # is there a newer version?
