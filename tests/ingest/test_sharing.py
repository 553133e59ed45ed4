"""Several collectors of one cluster: each partition has one reader, and each record is landed, whoever dies."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from ingest import broker
from ingest.collect_settings import CollectSettings
from ingest.collector import collect
from ingest.errors import Misconfigured, Retryable
from ingest.landing import Landing
from ingest.sharing import Share
from rebalance_audit.warehouse.storage import files_at, located
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs import pipeline
from tests import object_store as faults
from tests.object_store import Fault, ObjectStore

PLACES = [f"__consumer_offsets-{n}" for n in range(7)]
OFFSETS = "__consumer_offsets"
PARTITIONS = 4
"""Of a topic that the mock cluster makes by itself."""


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def share(place: Path | str, name: str, clock: Clock | None = None, first: dict[str, int] | None = None) -> Share:
    return Share(files_at(str(place)), "shared-c", name, PLACES, first or {}, dead_after_s=20, clock=clock or Clock())


def settle(*shares: Share) -> None:
    for _ in range(3):
        for each in shares:
            each.exchange({})


def test_partitions_are_spread_evenly_and_each_has_one_reader(tmp_path: Path) -> None:
    a, b, c = (share(tmp_path, name) for name in "abc")
    assert set(a.exchange({}).taken) == set(PLACES)
    settle(a, b)
    assert (len(a.own), len(b.own)) == (4, 3)
    settle(a, b, c)
    assert sorted(map(len, (a.own, b.own, c.own))) == [2, 2, 3]
    assert Counter(place for each in (a, b, c) for place in each.own) == Counter(PLACES)


def test_the_next_owner_begins_where_the_last_one_landed(tmp_path: Path) -> None:
    a, b = share(tmp_path, "a", first={PLACES[0]: 5}), share(tmp_path, "b")
    assert a.exchange({}).taken[PLACES[0]] == 5
    b.exchange({})
    given_up = a.exchange({place: 100 + n for n, place in enumerate(PLACES)}).gone
    assert b.exchange({}).taken == {place: 100 + PLACES.index(place) for place in given_up}
    assert b.own == given_up


def test_who_gives_no_sign_of_life_loses_its_partitions_and_writes_no_position_any_more(tmp_path: Path) -> None:
    clock = Clock()
    a, b = share(tmp_path, "a"), share(tmp_path, "b", clock)
    settle(a, b)
    clock.now = 19
    assert not b.exchange({}).taken
    clock.now = 40
    assert b.exchange(dict.fromkeys(PLACES, 9)).taken
    assert b.own == set(PLACES)
    b.exchange(dict.fromkeys(PLACES, 10))
    # It was not dead, only away: its share comes back, from where the other ended.
    back = a.exchange(dict.fromkeys(PLACES, 3))
    assert (len(back.gone), len(a.own)) == (4, 0)
    settle(b, a)
    assert set(positions(tmp_path).values()) == {10}
    assert Counter(place for each in (a, b) for place in each.own) == Counter(PLACES)


def positions(warehouse: Path) -> dict[str, int]:
    found: dict[str, int] = json.loads((warehouse / "positions" / "shared-c.json").read_text())["partitions"]
    return found


def test_who_comes_back_under_its_name_waits_for_nobody_and_shuts_the_other_out(tmp_path: Path) -> None:
    before = share(tmp_path, "a")
    before.exchange({})
    before.exchange(dict.fromkeys(PLACES, 7))
    after = share(tmp_path, "a")
    assert after.exchange({}).taken == dict.fromkeys(PLACES, 7)
    with pytest.raises(Misconfigured, match="Another collector calls itself a"):
        before.exchange(dict.fromkeys(PLACES, 8))
    assert set(positions(tmp_path).values()) == {7}


def test_who_leaves_is_followed_at_once(tmp_path: Path) -> None:
    a, b = share(tmp_path, "a"), share(tmp_path, "b")
    settle(a, b)
    a.leave(dict.fromkeys(a.own, 11))
    assert set(b.exchange({}).taken.values()) == {11}
    assert b.own == set(PLACES)


def test_a_damaged_document_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "positions").mkdir()
    (tmp_path / "positions" / "shared-c.json").write_text("{")
    with pytest.raises(Misconfigured, match=r"shared-c\.json is not readable"):
        share(tmp_path, "a").exchange({})


@pytest.mark.parametrize("seed", range(12))
def test_in_any_order_of_deaths_sleeps_and_returns_nothing_is_passed_over(tmp_path: Path, seed: int) -> None:
    """Collectors read some records of their partitions between two exchanges, and die between reading and saying so."""
    rng, clock = random.Random(seed), Clock()
    landed: dict[str, set[int]] = {place: set() for place in PLACES}
    ends = dict.fromkeys(PLACES, 60)
    running: dict[str, tuple[Share, dict[str, int]]] = {}
    for step in range(400):
        clock.now += rng.choice((0, 1, 5, 30 if rng.random() < 0.1 else 0))
        name = rng.choice("abcd")
        if name not in running:
            running[name] = share(tmp_path, name, clock), {}
        elif rng.random() < (0.08 if step < 300 else 0):
            del running[name]  # kill -9
            continue
        each, reading = running[name]
        for place, position in reading.items():
            end = min(ends[place], position + rng.randrange(4))
            landed[place] |= set(range(position, end))
            reading[place] = end
        if rng.random() < 0.1 and step < 300:
            del running[name]  # between landing and position
            continue
        change = each.exchange(reading)
        for place in change.gone:
            del reading[place]
        reading |= {place: position or 0 for place, position in change.taken.items()}
        assert reading.keys() == each.own
    assert landed == {place: set(range(60)) for place in PLACES}
    assert set(positions(tmp_path).values()) == {60}


def test_on_an_object_store_too(store_url: str) -> None:
    Warehouse.open(store_url, create=True)
    a, b = share(store_url, "a"), share(store_url, "b")
    settle(a, b)
    assert Counter((*a.own, *b.own)) == Counter(PLACES)


COLLECT = """
import sys
from ingest.collect_settings import CollectSettings
from ingest.collector import collect
from ingest.landing import Landing
settings = CollectSettings(client_config={"bootstrap.servers": sys.argv[1]}, connect_topics={}, flush_ms=100,
                           share_as=sys.argv[3], dead_after_s=1.5, until_end=sys.argv[4] == "end")
collect(settings, Landing(sys.argv[2]))
"""


def started(address: str, warehouse: Path, name: str, until: str = "") -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", COLLECT, address, str(warehouse), name, until])


def test_collectors_that_are_killed_lose_and_double_nothing(
    mock_broker: Producer, address: str, tmp_path: Path
) -> None:
    made = 0

    def produce(count: int) -> None:
        nonlocal made
        for number in range(made, made + count):
            mock_broker.produce(OFFSETS, key=b"k%d" % number, value=b"v", partition=number % PARTITIONS)
        assert mock_broker.flush(10) == 0
        made += count

    def owners() -> set[str]:
        found = list((tmp_path / "positions").glob("shared-*.json"))
        return set(json.loads(found[0].read_text())["owners"].values()) if found else set()

    produce(100)
    Warehouse.open(tmp_path, create=True)
    running = {name: started(address, tmp_path, name) for name in ("a", "b", "c")}
    try:
        assert eventually(lambda: owners() == {"a", "b", "c"}), (owners(), [p.poll() for p in running.values()])
        for victim, newcomer in (("a", "d"), ("c", "a"), ("b", "b"), ("d", "e")):
            produce(200)
            time.sleep(0.15)
            running[victim].send_signal(signal.SIGKILL)
            running.pop(victim).wait()
            produce(200)
            running[newcomer] = started(address, tmp_path, newcomer)
            assert eventually(lambda: owners() == running.keys()), (owners(), [p.poll() for p in running.values()])
        produce(100)
        for process in running.values():
            process.send_signal(signal.SIGKILL)
            process.wait()
        assert started(address, tmp_path, "f", "end").wait(600) == 0
    finally:
        for process in running.values():
            process.kill()
            process.wait()
    warehouse = Warehouse.open(tmp_path)
    pipeline.run(warehouse, ["bronze"], engine="local", with_quality=False)
    rows = warehouse.query('SELECT partition, "offset", copy, key FROM bronze.record').to_pylist()
    assert sorted(row["key"] for row in rows) == sorted(b"k%d" % number for number in range(made))
    assert Counter((row["partition"], row["offset"]) for row in rows).most_common(1)[0][1] == 1
    read_ids = {name for file in warehouse.landed("record") for name in pq.read_table(file)["landing"].to_pylist()}
    assert len({name.rpartition("-")[0] for name in read_ids}) >= 4, "the work was not shared"


def collected(address: str, warehouse: Path, share_as: str | None, said: list[str]) -> list[bytes]:
    """The keys of all that is there, landed by one collector that flushes all the time."""
    settings = CollectSettings(
        client_config={"bootstrap.servers": address}, connect_topics={}, flush_ms=50, share_as=share_as, until_end=True
    )
    collect(settings, Landing(warehouse), report=said.append)
    files = (warehouse / "landing" / "record").iterdir()
    return sorted(key for file in files for key in pq.read_table(file)["key"].to_pylist())


def test_who_takes_partitions_of_a_slow_broker_shows_itself_alive_meanwhile(
    mock_broker: Producer, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the others take them as a dead one's, are as slow about it, and lose them in turn: for ever."""
    happened: list[str] = []

    class Slow(Consumer):
        def get_watermark_offsets(self, *arguments: Any, **more: Any) -> Any:
            time.sleep(0.3)
            happened.append("opened")
            return super().get_watermark_offsets(*arguments, **more)

    exchange = Share.exchange

    def shown(share: Share, landed: dict[str, int]) -> Any:
        happened.append("alive")
        return exchange(share, landed)

    monkeypatch.setattr(broker, "Consumer", Slow)
    monkeypatch.setattr(Share, "exchange", shown)
    for partition in range(PARTITIONS):
        mock_broker.produce(OFFSETS, key=b"%d" % partition, value=b"v", partition=partition)
    assert mock_broker.flush(10) == 0
    assert collected(address, tmp_path, "a", []) == [b"0", b"1", b"2", b"3"]
    assert happened.count("opened") == PARTITIONS
    assert max(map(len, "".join("o" if each == "opened" else " " for each in happened).split())) <= 2


@pytest.mark.parametrize("share_as", [None, "a"])
def test_a_partition_whose_leader_is_away_for_a_moment_is_read_when_it_is_back(
    mock_broker: Producer, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share_as: str | None
) -> None:
    asked: Counter[int] = Counter()

    class Moving(Consumer):
        def get_watermark_offsets(self, place: TopicPartition, *arguments: Any, **more: Any) -> Any:
            asked[place.partition] += 1
            if place.partition == 1 and asked[1] <= 1:
                raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
            return super().get_watermark_offsets(place, *arguments, **more)

    monkeypatch.setattr(broker, "Consumer", Moving)
    for partition in range(PARTITIONS):
        mock_broker.produce(OFFSETS, key=b"%d" % partition, value=b"v", partition=partition)
    assert mock_broker.flush(10) == 0
    said: list[str] = []
    assert collected(address, tmp_path, share_as, said) == [b"0", b"1", b"2", b"3"]
    assert [line for line in said if not line.startswith("Reads ")] == [
        f"{OFFSETS}-1 cannot be read for now: Broker: Leader not available; it is tried again.",
        "All partitions can be read again.",
    ]
    assert asked[1] == 2


def test_two_clusters_in_one_warehouse_have_their_own_positions(tmp_path: Path) -> None:
    for cluster in ("c", "other"):
        landing = Landing(tmp_path)
        landing.share(cluster, "a", PLACES, {}, 20).exchange({})
    each = landing.share("other", "a", PLACES, {}, 20)
    each.exchange({})
    each.exchange(dict.fromkeys(PLACES, 3))
    assert positions(tmp_path) == {}


def eventually(holds: Callable[[], bool], within_s: float = 120) -> bool:
    give_up_at = time.monotonic() + within_s
    while time.monotonic() < give_up_at:
        if holds():
            return True
        time.sleep(0.05)
    return holds()


@pytest.mark.parametrize("share_as", [None, "a"])
@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (faults.expired, "have expired"),
        (lambda after: faults.refuses_writes(*faults.READ_ONLY, after=after), "refuses"),
    ],
    ids=["expired", "read-only"],
)
def test_a_store_that_refuses_in_the_middle_is_a_sentence_and_nothing_is_lost(
    mock_broker: Producer,
    address: str,
    object_store: ObjectStore,
    store_url: str,
    asks_twice: None,
    fault: Callable[[int], Fault],
    says: str,
    share_as: str | None,
) -> None:
    Warehouse.open(store_url, create=True)
    for number in range(40):
        mock_broker.produce(OFFSETS, key=b"%d" % number, value=b"v", partition=number % PARTITIONS)
    assert mock_broker.flush(10) == 0
    settings = CollectSettings(
        client_config={"bootstrap.servers": address},
        connect_topics={},
        until_end=True,
        share_as=share_as,
        dead_after_s=0,
    )
    refusals = []
    for after in (0, 2, 3, 5, 100):
        object_store.fault = fault(after)
        refusals.append(refusal(settings, store_url))
    object_store.fault = None
    assert says in str(refusals[0])
    assert says in str(refusals[1])
    assert refusals[-1] is None
    landed = Warehouse.open(store_url).landed("record")
    read = [pq.read_table(located(file)[1], filesystem=located(file)[0])["key"].to_pylist() for file in landed]
    assert {key for keys in read for key in keys} == {b"%d" % number for number in range(40)}


def refusal(settings: CollectSettings, warehouse: str) -> str | None:
    try:
        collect(settings, Landing(warehouse))
    except Retryable as error:
        return str(error)
    return None
