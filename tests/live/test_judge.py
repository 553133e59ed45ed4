"""What is landed is judged in the order of landing; a message goes out once, and again only when it is news."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from ingest.batches import ROW_COLUMNS
from ingest.metadata import metadata_runs
from ingest.readings import LogText, RecordRun
from rebalance_audit.domain.decode import OFFSETS_TOPIC
from rebalance_audit.domain.incidents import Incident
from rebalance_audit.domain.model import SourceLine, SourceRecord
from rebalance_audit.domain.publish.leader_moves import LeaderMove
from rebalance_audit.domain.records.commit_keys import is_commit_key
from rebalance_audit.live import judge
from rebalance_audit.live.heard import Heard
from rebalance_audit.live.judge import FORGET_S, OPEN_EVERY_S, Judge
from rebalance_audit.live.memory import ClusterMemory
from rebalance_audit.live.recent_commits import RECENT_S
from tests.captures import GOLDEN
from tests.domain.detect.group_story import GroupStory
from tests.domain.reassign.stories import MetadataStory
from tests.live.arrivals import arrivals
from tests.live.no_past import NoPast

KILL = GOLDEN / "4.3.0" / "eager_join_leave_kill"


@dataclass(frozen=True, kw_only=True)
class LandedPieces:
    cluster_id: str = "c"
    runs: Sequence[Any] = ()
    lines: Sequence[Any] = ()
    until_ms: int | None = None


@dataclass
class Bench:
    """A judge whose clock stands still unless it is moved, and what it sent."""

    sent: list[Incident] = field(default_factory=list)
    is_down: bool = False
    now: float = 1_000.0

    def __post_init__(self) -> None:
        self.memory = ClusterMemory("c", NoPast())
        self.judge = Judge(lambda: self.memory, self._send, clock=lambda: self.now)

    def _send(self, incidents: Sequence[Incident]) -> bool:
        if not self.is_down:
            self.sent += incidents
        return not self.is_down

    def lands(self, landing: LandedPieces) -> None:
        self.now += 0.3
        self.judge.take(self.memory, [Heard.of(landing)])
        self.judge.judge(self.memory)

    def warnings(self) -> list[str]:
        return [i.incident_id for i in self.sent if i.severity == "warning" and i.status == "open"]


def landing(records: Sequence[SourceRecord], lines: Sequence[SourceLine]) -> LandedPieces:
    runs = []
    for topic, partition in sorted({(r.topic, r.partition) for r in records}):
        of_partition = [r for r in records if (r.topic, r.partition) == (topic, partition)]
        rows = [
            (r.offset, r.timestamp_ms, r.key, r.value, *[None] * (len(ROW_COLUMNS) - 4)) for r in of_partition
        ]  # fmt: skip
        runs.append(RecordRun(topic=topic, partition=partition, source="live", node=None, rows=rows))  # type: ignore[arg-type]
    texts = [LogText(node=x.node, file_name=x.file_name, file_id=x.file_id, byte=x.byte, text=x.text) for x in lines]
    return LandedPieces(runs=runs, lines=texts, until_ms=max((r.timestamp_ms for r in records), default=None))


def test_one_vanished_member_is_one_message() -> None:
    bench = Bench()
    for records, lines in arrivals(KILL):
        bench.lands(landing(records, lines))
    assert len(set(bench.warnings())) == 1
    assert len(bench.warnings()) == len({(i.incident_id, i.status, len(i.culprits)) for i in bench.sent
                                         if i.severity == "warning" and i.status == "open"})  # fmt: skip


class FailedLater(NoPast):
    """The tables learn later that a broker failed as the group's member expired."""

    def __init__(self) -> None:
        self.moves: list[LeaderMove] = []

    def leader_moves(self, since_ms: int) -> Sequence[LeaderMove]:
        return [move for move in self.moves if move.at_ms >= since_ms]


def test_a_broker_is_blamed_once_the_tables_know_that_it_failed() -> None:
    tables, bench = FailedLater(), Bench()
    bench.memory = bench.judge._memory = ClusterMemory("c", tables)
    bench.judge.begin()
    for records, lines in arrivals(KILL):
        bench.lands(landing(records, lines))
    (before,) = [i for i in bench.memory.incidents() if i.kind == "member_fault"]
    expired = next(r for r in bench.memory.groups["orders-app"].rebalances if r.trigger == "member_session_expired")
    tables.moves = [
        LeaderMove(
            cluster_id="c", group_id="orders-app", relation="coordinator_moved", topic=OFFSETS_TOPIC, partition=0,
            at_ms=expired.started_at_ms or 0, previous_leader=3, elected=1, cause="broker_failure",
            rebalance_id=expired.rebalance_id, after_ms=0,
        )
    ]  # fmt: skip
    bench.judge.published(bench.now)
    bench.judge._step()
    (after,) = [i for i in bench.memory.incidents() if i.incident_id == before.incident_id]
    assert (after.kind, after.culprits) == ("coordinator", ("broker 3",))


@pytest.mark.parametrize(("early_ms", "kinds"), [(2_000, ["coordinator"]), (-2_000, ["member_fault", "coordinator"])])
def test_a_broker_is_blamed_as_soon_as_the_metadata_log_says_that_it_failed(early_ms: int, kinds: list[str]) -> None:
    """It was taken for failed a second before the member's session expired, and the log is landed before that, or
    after it. The tables know nothing yet, and the member does not come back."""
    first = Bench()
    for records, lines in arrivals(KILL):
        first.lands(landing(records, lines))
    rebalances = first.memory.groups["orders-app"].rebalances
    expired_ms = next(r.started_at_ms or 0 for r in rebalances if r.trigger == "member_session_expired")
    log = MetadataStory().at(expired_ms - 60_000).topic(OFFSETS_TOPIC, (3, 1))
    log.at(expired_ms - 1_000).fenced(3).change(isr=[1], leader=1)
    bench, is_heard = Bench(), False
    for records, lines in arrivals(KILL):
        at_ms = max((r.timestamp_ms for r in records), default=0)
        if not is_heard and at_ms >= expired_ms - early_ms:
            bench.judge.take(bench.memory, [Heard.of_metadata("c", metadata_runs(log.sources))])
            bench.judge.judge(bench.memory)
            is_heard = True
        bench.lands(landing(records, lines))
    sent = [i for i in bench.sent if i.severity == "warning"]
    assert list(dict.fromkeys(i.kind for i in sent)) == kinds
    assert sent[-1].culprits == ("broker 3",)
    assert "1 of them is not back" in sent[-1].title
    assert len({i.incident_id for i in sent}) == 1


def test_what_a_target_did_not_take_is_said_again() -> None:
    bench = Bench(is_down=True)
    pieces = list(arrivals(KILL))
    for records, lines in pieces:
        bench.lands(landing(records, lines))
    assert bench.sent == []
    bench.is_down = False
    bench.judge._want("orders-app", bench.now)
    bench.judge.judge(bench.memory)
    assert len(bench.warnings()) == 1


def test_nothing_is_judged_before_the_tables_hold_what_was_there() -> None:
    sent: list[Incident] = []
    done = threading.Event()

    def send(incidents: Sequence[Incident]) -> bool:
        sent.extend(incidents)
        return True

    judge = Judge(lambda: ClusterMemory("c", NoPast()), send, on_news=done.set)
    judge.start()
    for records, lines in arrivals(KILL):
        judge.hear(landing(records, lines))
    assert not done.wait(0.2)
    assert judge.folds == 0
    judge.begin()
    assert done.wait(10)
    judge.stop()
    judge.join(10)
    assert judge.failure is None
    assert any(i.severity == "warning" for i in sent)


def test_a_failure_is_kept_for_the_main_thread() -> None:
    def refuse() -> ClusterMemory:
        raise OSError("no space left")

    judge = Judge(refuse, lambda incidents: True)
    judge.hear(LandedPieces())
    judge.begin()
    judge.run()
    assert isinstance(judge.failure, OSError)


def test_the_commits_before_a_groups_first_record_are_found_again() -> None:
    """Nobody knew the group when they came: its owner's last commit shows how long it worked."""
    records = [r for of_piece, _ in arrivals(KILL) for r in of_piece if r.topic == OFFSETS_TOPIC]
    first_commit = next(n for n, r in enumerate(records) if is_commit_key(r.key))
    after = next(n for n, r in enumerate(records) if n > first_commit and not is_commit_key(r.key))
    commits = [r for r in records[:after] if is_commit_key(r.key)]
    for wait_s, is_found in ((1.0, True), (RECENT_S + 1, False)):
        bench = Bench()
        bench.lands(landing(commits, ()))
        assert bench.memory.groups == {}
        bench.now += wait_s
        bench.lands(landing([records[after]], ()))
        assert bool(bench.memory.groups["orders-app"].marks) is is_found


def test_a_group_that_rebalances_is_looked_at_while_others_bring_news() -> None:
    """Time alone may be news about it; but not more often than every second."""
    bench = Bench()
    for records, lines in arrivals(KILL):
        bench.lands(landing(records, lines))
        if any(group.has_open for group in bench.memory.groups.values()):
            break
    folds = bench.judge.folds
    bench.lands(LandedPieces(until_ms=bench.memory.seen_until_ms + 100))
    assert bench.judge.folds == folds
    bench.now += OPEN_EVERY_S
    bench.lands(LandedPieces(until_ms=bench.memory.seen_until_ms + 1_100))
    assert bench.judge.folds == folds + 1


def test_what_was_said_since_the_stages_began_is_left_alone() -> None:
    bench = Bench()
    for records, lines in arrivals(KILL):
        bench.lands(landing(records, lines))
    assert set(bench.warnings()) <= bench.judge.reported_since(0.0)
    assert bench.judge.reported_since(bench.now + 1) == set()


def test_memory_follows_the_groups_that_are_busy() -> None:
    bench = Bench()
    for records, lines in arrivals(KILL):
        bench.lands(landing(records, lines))
    bench.memory.bring(["busy"])
    bench.now += FORGET_S + 1
    bench.judge._touched_at["busy"] = bench.now
    bench.lands(LandedPieces())
    assert bench.memory.groups.keys() == {"busy"}
    assert any(i.severity == "warning" for i in bench.memory.incidents())
    bench.judge._touched_at["busy"] = bench.now - FORGET_S - 1
    bench.lands(LandedPieces())
    assert bench.memory.groups == {}
    assert bench.memory.incidents() == []  # there are no tables here that would hold them


def test_of_many_groups_those_leave_that_were_quiet_longest_once_they_are_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(judge, "MOST_GROUPS", 2)
    bench = Bench()
    for at, name in enumerate(["first", "second", "third", "waiting", "fourth"]):
        bench.memory.bring([name])
        bench.judge._touched_at[name] = bench.now + at
    bench.memory.waiting.add("waiting")
    bench.lands(LandedPieces())
    assert len(bench.memory.groups) == 5  # nobody knows what the tables hold
    bench.judge.stored(bench.now)  # only the first came before that
    bench.lands(LandedPieces())
    assert len(bench.memory.groups) == 4
    bench.judge.stored(bench.now + 100)
    bench.lands(LandedPieces())
    assert bench.memory.groups.keys() == {"waiting", "fourth"}
    assert bench.judge._touched_at.keys() == {"waiting", "fourth"}


def test_groups_with_long_histories_leave_earlier(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge, "MOST_REBALANCES", 5)
    story = GroupStory("g").joins("c1", "c2", at_s=0).deploys("c1", "c2", from_s=100, each_s=60)
    bench = Bench()
    for at, name in enumerate(["long", "other", "new"]):
        bench.memory.bring([name])
        bench.memory.groups[name].rebalances = story.rebalances if name != "new" else ()
        bench.judge._touched_at[name] = bench.now + at
    assert bench.memory.rebalance_count == 2 * len(story.rebalances) > 5 >= len(story.rebalances)
    bench.judge.stored(bench.now + 100)
    bench.lands(LandedPieces())
    assert bench.memory.groups.keys() == {"other", "new"}


@pytest.mark.parametrize("name", [b"g", "groß".encode(), b"a" * 200])
def test_commits_of_a_group_are_known_by_its_whole_name(name: bytes) -> None:
    """`g` begins `group`, too."""
    bench = Bench()
    group_id = name.decode()

    def key(group: bytes) -> bytes:
        return b"\x00\x01" + len(group).to_bytes(2, "big") + group + b"\x00\x01t\x00\x00\x00\x00"

    value = (3).to_bytes(2, "big") + (5).to_bytes(8, "big") + (-1).to_bytes(4, "big", signed=True) + b"\x00\x00"
    value += (1_000).to_bytes(8, "big")
    records = [
        SourceRecord(
            cluster_id="c", topic=OFFSETS_TOPIC, partition=0, offset=n, timestamp_ms=n, key=key(g), value=value
        )
        for n, g in enumerate([name, name + b"roup"])
    ]
    bench.lands(landing(records, ()))
    bench.memory.bring([group_id])
    found = list(bench.judge._commits_of(bench.memory, group_id))
    assert [r.offset for r in found] == [0]
