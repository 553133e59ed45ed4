from __future__ import annotations

import pytest

from rebalance_audit.domain.client_families import ClientFamily
from rebalance_audit.domain.replay.libraries import library_of, properties, refusing
from rebalance_audit.domain.replay.meanings import meanings_of, prices_of
from rebalance_audit.domain.replay.requests import NAMES, RequestError, requested
from rebalance_audit.domain.replay.settings import GroupSettings
from tests.domain.replay.stories import a_life

CLASSIC = GroupSettings()


def test_times_may_be_written_with_their_unit() -> None:
    _, settings = requested(["session.timeout.ms=45s", "max.poll.interval.ms=10m"], CLASSIC, ["a"])
    assert (settings.session_timeout_ms, settings.max_poll_interval_ms) == (45_000, 600_000)


def test_one_time_in_two_units_is_no_contradiction() -> None:
    _, settings = requested(["heartbeat.interval.ms=1s", "heartbeat.interval.ms=1000"], CLASSIC, ["a"])
    assert settings.heartbeat_ms == 1_000


def test_an_assignor_may_be_written_as_its_class() -> None:
    name = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
    _, settings = requested([f"partition.assignment.strategy={name}"], CLASSIC, ["a"])
    assert settings.is_cooperative


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        (["session.timeout.ms"], "write NAME=VALUE"),
        (["session.timeout.ms=soon"], "such as 45s"),
        (["session.timeout.ms=5s"], "below 6000 ms"),
        (["session.timeout.ms=2h"], "above 1800000 ms"),
        (["session.timeout.ms=10s", "heartbeat.interval.ms=10s"], "must be below"),
        (["session.timeout.ms=10s", "session.timeout.ms=20s"], "at once"),
        (["group.protocol=consumer", "session.timeout.ms=45s"], "clients refuse it"),
        (["group.remote.assignor=uniform"], "without group.protocol=consumer"),
        (["group.protocol=consumer", "group.consumer.heartbeat.interval.ms=45s"], "must be below"),
        (["group.protocol=consumer", "group.initial.rebalance.delay.ms=3s"], "no effect with group.protocol=consumer"),
        (["deploy.order=all-at-once", "deploy.gap=5s"], "no effect with deploy.order=all-at-once"),
        (["partition.assignment.strategy=best"], "one of range"),
        (["group.instance.id=z"], "no member z"),
        (["fetch.min.bytes=1"], "outside the model"),
        (["session.timeout=45s"], "there is no such setting; did you mean session.timeout.ms?"),
        (["group.instance.ids=auto"], "there is no such setting; did you mean group.instance.id?"),
        (["max.poll.records=0"], "how many records"),
    ],
)
def test_what_cannot_be_is_said_in_one_sentence(pairs: list[str], words: str) -> None:
    with pytest.raises(RequestError, match=words) as refused:
        requested(pairs, CLASSIC, ["a", "b"])
    assert str(refused.value).count(". ") == 0


def test_a_heartbeat_above_the_session_that_members_have_is_refused() -> None:
    with pytest.raises(RequestError, match="must be below"):
        requested(["heartbeat.interval.ms=20s"], CLASSIC, [], session_ms=10_000)


def test_eager_workers_have_no_delay() -> None:
    asked = ["scheduled.rebalance.max.delay.ms=5s"]
    with pytest.raises(RequestError, match="no effect with connect"):
        requested(asked, GroupSettings(assignor="eager"), [])
    with pytest.raises(RequestError, match="no effect with connect"):
        requested([*asked, "connect.protocol=eager"], GroupSettings(assignor="sessioned"), [])
    _, settings = requested([*asked, "connect.protocol=sessioned"], GroupSettings(assignor="eager"), [])
    assert settings.connect_delay_ms == 5_000


def test_a_library_that_betrays_itself_is_held_to_what_it_has() -> None:
    life = a_life("kafkajs", 0)
    assert library_of(life) == "kafkajs"
    assert "kafkajs" in (refusing([life], {"group.instance.id": "auto"}) or "")
    assert refusing([a_life("orders", 0)], {"group.instance.id": "auto"}) is None


def test_properties_are_for_pasting_and_name_who_lacks_them() -> None:
    found = properties({"partition.assignment.strategy": "sticky", "session.timeout.ms": "45s"}, ["a"])
    assert found["java"] == [
        "partition.assignment.strategy=org.apache.kafka.clients.consumer.StickyAssignor",
        "session.timeout.ms=45000",
    ]
    assert found["librdkafka"][0].startswith("# librdkafka has no")
    assert properties({"group.initial.rebalance.delay.ms": "3s"}, [])["broker"] == [
        "group.initial.rebalance.delay.ms=3000"
    ]


@pytest.mark.parametrize(
    ("name", "value", "bound"),
    [
        # What GroupCoordinatorConfig of 4.3.0 says to the first line alone: it must be greater than or equal to
        # group.consumer.min..., or less than or equal to group.consumer.max....
        ("group.consumer.heartbeat.interval.ms", "1s", "group.consumer.min.heartbeat.interval.ms=1000"),
        ("group.consumer.heartbeat.interval.ms", "20s", "group.consumer.max.heartbeat.interval.ms=20000"),
        ("group.consumer.session.timeout.ms", "10s", "group.consumer.min.session.timeout.ms=10000"),
        ("group.consumer.session.timeout.ms", "90s", "group.consumer.max.session.timeout.ms=90000"),
        ("group.consumer.session.timeout.ms", "50s", None),
    ],
)
def test_brokers_start_with_what_is_pasted(name: str, value: str, bound: str | None) -> None:
    first, *bounds, alone = properties({name: value}, [])["broker"]
    assert first.startswith(f"{name}=")
    assert bounds == ([bound] if bound else [])
    assert alone.startswith("# ")
    assert alone.endswith(f"consumer.{first.removeprefix('group.consumer.')}")


def test_who_is_known_gets_its_own_lines_alone() -> None:
    asked = {"heartbeat.interval.ms": "1s", "partition.assignment.strategy": "cooperative-sticky"}
    assert properties(asked, [], frozenset({ClientFamily.LIBRDKAFKA})) == {
        "librdkafka": ["heartbeat.interval.ms=1000", "partition.assignment.strategy=cooperative-sticky"]
    }
    found = properties(asked, [], frozenset({ClientFamily.FRANZ_GO, ClientFamily.KAFKA_GO}))
    assert found["franz-go"] == [
        "kgo.HeartbeatInterval: 1000 ms",
        "# partition.assignment.strategy=cooperative-sticky, under the name that franz-go has for it",
    ]
    assert found["kafka-go"][1] == "# kafka-go has no partition.assignment.strategy=cooperative-sticky"
    assert set(properties(asked, [])) == {"java", "librdkafka", "not possible"}


def test_every_setting_says_what_it_does_in_one_sentence() -> None:
    for name in NAMES:
        (said,) = meanings_of({name: "1"})
        assert said.startswith(f"{name}: ")
        assert not said.endswith(".")


def test_staying_at_close_is_an_option_of_close_in_later_clients() -> None:
    # KIP-1092: from 4.1 on, under either protocol.
    line, in_code = properties({"internal.leave.group.on.close": "false"}, [])["java"]
    assert line == "internal.leave.group.on.close=false"
    assert "REMAIN_IN_GROUP" in in_code


@pytest.mark.parametrize(
    ("value", "was", "price"),
    [
        ("6000", "10000", "a member that only pauses is taken for dead sooner"),
        ("45s", "10000", "a dead member is noticed later"),
        (
            "45s",
            None,
            "if it becomes longer, a dead member is noticed later; if shorter, a member that only pauses is taken for "
            "dead sooner",
        ),
    ],
)
def test_a_price_is_that_of_the_change(value: str, was: str | None, price: str) -> None:
    in_force = {} if was is None else {"session.timeout.ms": was}
    assert prices_of({"session.timeout.ms": value}, in_force) == [f"session.timeout.ms: {price}"]
    (of_all,) = prices_of({"group.consumer.session.timeout.ms": value}, {})
    assert of_all.endswith("; it holds for all groups of the brokers")
