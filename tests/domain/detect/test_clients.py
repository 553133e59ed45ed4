"""Rules about client libraries, and advice in their words: no setting that a library lacks is ever named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rebalance_audit.domain.client_families import ALL, HABITS, ClientFamily, Families
from rebalance_audit.domain.detect import client_advice, detect_group
from rebalance_audit.domain.kinds import GroupType
from rebalance_audit.domain.model import Finding, Member
from tests.domain.detect.group_story import GroupStory, a_connect_cluster, a_group

BROKEN = "short_buffer at byte 18 of the subscription, field ownedPartitions"
KAFKA_GO = {"client_libraries": ("kafka-go",), "undecoded": BROKEN}
JAVA = {"client_libraries": ("java",)}


def found(story: GroupStory, rule_id: str) -> list[Finding]:
    findings = detect_group(story.rebalances, story.tasks, seen_until_ms=story.seen_until_ms)
    return [f for f in findings if f.rule_id == rule_id]


def test_leaders_that_fell_are_one_incident_with_their_names() -> None:
    story = a_group().member("g1", **KAFKA_GO).joins("j1", "j2", at_s=0).joins("g1", at_s=60)
    story.leaves("j1", at_s=65).leaves("j2", at_s=70)
    leaders = ["j1", "j1", "j2", None]
    for at, (rebalance, leader) in enumerate(zip(story.rebalances, leaders, strict=True)):
        ids = {m.client_id: m.member_id for m in rebalance.members}
        story.rebalances[at] = replace(rebalance, leader_member_id=ids.get(leader))
    (finding,) = found(story, "RB017")
    assert finding.title.startswith("1 member of ")
    assert "kafka-go" in finding.title
    assert "2 leaders of other libraries went meanwhile: j1" in finding.title


def all_advice(of: Families) -> str:
    return " ".join(
        [
            client_advice.expiry(of, (), came_back=False),
            client_advice.expiry(of, (), came_back=True),
            client_advice.dropped(of),
            client_advice.restarts(of),
            client_advice.restart_storm(of, "stops"),
            *([client_advice.poll_timeout(of)] if any(HABITS[f].has_poll_interval for f in of) else []),
        ]
    )


@pytest.mark.parametrize("family", list(ClientFamily))
def test_advice_names_no_setting_by_another_librarys_name(family: ClientFamily) -> None:
    own = {name for name in HABITS[family].settings.values() if name is not None}
    others = {n for habits in HABITS.values() for n in habits.settings.values() if n is not None} - own
    words = set(all_advice(frozenset({family})).replace(",", " ").replace("(", " ").replace(")", " ").split())
    named = {word.rstrip(".:;") for word in words}
    assert not named & others


def test_where_several_libraries_are_left_a_setting_that_one_lacks_is_not_named() -> None:
    either = frozenset({ClientFamily.KAFKAJS, ClientFamily.KAFKA_PYTHON})
    assert client_advice.setting("group.instance.id", either) is None
    assert "group.instance.id" not in all_advice(either)


def test_members_without_a_session_of_their_own_are_not_sent_to_set_one() -> None:
    """A Java consumer with group.protocol=consumer does not start with session.timeout.ms; only the brokers have one.
    A share group's members have no instance ids."""
    story = a_group(group_type="consumer").member("c2", session_timeout_ms=None)
    (gone,) = found(story.joins("c1", "c2", at_s=0).vanishes("c2", at_s=60), "RB007")
    assert "A shorter group.consumer.session.timeout.ms of the brokers shortens the wait." in (gone.advice or "")
    assert " session.timeout.ms" not in (gone.advice or "")
    assert "group.instance.id" in (gone.advice or "")
    shared = client_advice.expiry(ALL, (), GroupType.SHARE, came_back=False)
    assert "group.share.session.timeout.ms" in shared
    assert "group.instance.id" not in shared
    assert "group.consumer.session.timeout.ms" in client_advice.static_slot(ALL, GroupType.CONSUMER)
    assert "group.instance.id" not in client_advice.restarts(ALL, GroupType.SHARE)
    assert "cooperative" not in client_advice.deploy(ALL, GroupType.CONSUMER)


def test_workers_of_connect_are_told_of_no_setting_of_consumers() -> None:
    """They take no group.instance.id, have no max.poll.interval.ms and no poll loop (DistributedConfig)."""
    story = a_connect_cluster().joins("w1", "w2", "w3", at_s=0)
    story.again(range(8), lambda s, turn: s.deploys("w2", from_s=600 + 100 * turn, each_s=20))
    (restarted,) = found(story, "RB005")
    (dropped,) = found(a_connect_cluster().joins("w1", "w2", at_s=0).is_dropped("w2", at_s=60), "RB008")
    advice = f"{restarted.advice} {dropped.advice}"
    assert "scheduled.rebalance.max.delay.ms" in advice
    assert "rebalance.timeout.ms of the workers" in advice
    for not_of_workers in ("group.instance.id", "max.poll.interval.ms", "poll loop", "whatif"):
        assert not_of_workers not in advice


def test_one_that_is_back_under_the_id_of_its_process_lived_on() -> None:
    story = a_group(group_type="consumer").member("c2", session_timeout_ms=None)
    story.joins("c1", "c2", at_s=0).vanishes("c2", at_s=60).joins("c2", at_s=66, same_process=True)
    (gone,) = found(story, "RB007")
    assert gone.advice == (
        "It came back under its own member id, so its process lived on: it was frozen, or had lost its network, or, "
        "with librdkafka, its application had not polled for max.poll.interval.ms, after which no heartbeat is sent. "
        "Look at host /10.0.0.9 (c2), and at what takes long between two polls."
    )
    java = client_advice.expired_alive(frozenset({ClientFamily.JAVA}), ())
    assert java.endswith("it was frozen, or had lost its network.")


def test_a_classic_member_of_a_converted_group_has_a_session_of_its_own() -> None:
    story = a_group(group_type="consumer").member("c2", session_timeout_ms=10_000)
    (gone,) = found(story.joins("c1", "c2", at_s=0).vanishes("c2", at_s=60), "RB007")
    assert "A shorter session.timeout.ms shortens the wait." in (gone.advice or "")


def test_where_nothing_is_known_of_the_library_javas_names_stand() -> None:
    assert client_advice.setting("session.timeout.ms", ALL) == "session.timeout.ms"
    assert client_advice.setting("session.timeout.ms", frozenset({ClientFamily.JAVA, ClientFamily.FRANZ_GO})) == (
        "session.timeout.ms (kgo.SessionTimeout)"
    )
    either = frozenset({ClientFamily.JAVA, ClientFamily.SARAMA, ClientFamily.FRANZ_GO})
    assert client_advice.setting("group.instance.id", either) == (
        "group.instance.id (kgo.InstanceID or Consumer.Group.InstanceId)"
    )


def test_one_that_comes_before_a_session_has_ended_is_another_process() -> None:
    """A kafkajs member whose handler took too long learns that it is out before it joins again; one that was killed
    and started again makes the others wait for the session of the dead."""
    story = a_group().member("c2", client_libraries=("kafkajs",)).joins("c1", "c2", at_s=0)
    story.joins("c2", at_s=60, left=("c2",), also=("member_session_expired",))
    (killed,) = found(story, "RB007")
    assert "it came back" not in (killed.advice or "")
    assert "Else: look at host /10.0.0.9 (c2) for a kill" in (killed.advice or "")


def test_a_kafkajs_member_that_came_back_had_a_long_handler_not_a_lost_host() -> None:
    story = a_group().member("c2", client_libraries=("kafkajs",)).joins("c1", "c2", at_s=0).vanishes("c2", at_s=60)
    (away,) = found(story, "RB007")
    assert "host" in (away.advice or "")
    (back,) = found(story.joins("c2", at_s=66), "RB007")
    assert back.advice == (
        "kafkajs sends heartbeats only between messages, and it came back: its handler took longer than the session, "
        "or its process was frozen. "
        "Call heartbeat() inside the handler, or raise sessionTimeout."
    )


def test_a_java_member_that_vanished_is_looked_for_at_its_host() -> None:
    story = a_group().member("c2", **JAVA).joins("c1", "c2", at_s=0).vanishes("c2", at_s=60)
    (finding,) = found(story, "RB007")
    assert finding.advice == (
        "Look at host /10.0.0.9 (c2) for a kill, an out-of-memory end, a frozen process or a lost network. If it "
        "restarts by itself, a group.instance.id spares the others, but its partitions wait for it: `rebalance-audit "
        "whatif` weighs both. A shorter session.timeout.ms shortens the wait."
    )


def test_advice_says_where_each_of_them_ran() -> None:
    """A loopback address says nothing, and a worker has its host in its name."""
    one = Member(member_id="c1-1", client_id="c1", client_host="/10.0.0.9")
    assert client_advice.where([one, one]) == "host /10.0.0.9 (c1)"
    static = replace(one, member_id="c2-1", group_instance_id="pod-2")
    assert client_advice.where([one, static]) == "host /10.0.0.9 (c1 and pod-2)"
    elsewhere = replace(one, client_id="c3", client_host="/10.0.0.10")
    nowhere = [replace(one, client_id="c4", client_host="/127.0.0.1"), replace(one, client_id="c5", client_host=None)]
    assert client_advice.where([one, elsewhere, *nowhere]) == (
        "host /10.0.0.9 (c1), host /10.0.0.10 (c3) and the host of c4 and c5"
    )
    worker = Member(member_id="w", worker_url="http://connect-1:8083/", client_host="/10.0.0.9")
    assert client_advice.where([worker]) == "the host of worker connect-1:8083"
    assert client_advice.where([]) == "its host"


def test_a_deploy_is_advised_by_what_its_library_has() -> None:
    assert client_advice.deploy(ALL) == (
        "Nothing is wrong. For fewer rebalances a group.instance.id per member, a cooperative assignor or "
        "group.protocol=consumer is usually advised, which is not less downtime: `rebalance-audit whatif` weighs both."
    )
    assert client_advice.deploy(frozenset({ClientFamily.AIOKAFKA})) == (
        "Nothing is wrong. For fewer rebalances a group_instance_id per member is usually advised, which is not less "
        "downtime: `rebalance-audit whatif` weighs both."
    )
    assert client_advice.deploy(frozenset({ClientFamily.KAFKAJS})) == "Nothing is wrong."


def test_what_a_member_that_came_back_gave_up_later_is_no_harm_of_its_absence() -> None:
    """A frozen KIP-848 member joins again under its old member id, and a second later loses the same partitions to one
    that comes: 13 s were shown as 0.5."""
    story = a_group(group_type="consumer", assignor="range", mode="server").joins("c1", "c2", at_s=0)
    story.vanishes("c2", at_s=60, gone_pause_ms=13_000).joins("c2", at_s=66, same_process=True, pause_ms=700)
    (gone,) = found(story.leaves("c2", at_s=90, gone_pause_ms=500), "RB007")
    assert "its 3 partitions stood still for 13 s" in gone.title
