"""What one team's change of a connector costs the others: by hand from the protocol's rules."""

from __future__ import annotations

from rebalance_audit.domain.explain.connect_changes import connector_changes
from tests.domain.reconstruct.connect.stories import FRESH, ConnectStory, a_connect_group, has


def a_cluster_of_two_teams(protocol: str) -> ConnectStory:
    """alpha and beta run; then beta's team changes its tasks (config offsets 4 and on)."""
    return (
        a_connect_group()
        .configured("alpha", 2)
        .configured("beta", 1)
        .generation(
            1,
            {"w1": FRESH.gets("alpha alpha-0"), "w2": FRESH.gets("alpha-1 beta beta-0")},
            at_ms=1_000,
            protocol=protocol,
            config_offset=4,
        )
        .config("commit-beta", {"tasks": 0}, at_ms=20_000)
    )


def test_under_the_incremental_protocol_the_others_run_on() -> None:
    script = a_cluster_of_two_teams("sessioned")
    script.generation(
        2, {"w1": has("alpha alpha-0"), "w2": has("alpha-1 beta beta-0").loses("beta-0")}, at_ms=20_050, config_offset=5
    )
    (change,) = connector_changes(script.rebalances())
    assert (change.connectors, change.generation_id, change.others) == (("beta",), 2, ())
    assert (change.others_count, change.others_seconds, change.others_longest_ms) == (0, 0, None)


def test_a_connector_that_moves_to_make_the_loads_even_again_is_the_changes_doing() -> None:
    script = a_cluster_of_two_teams("sessioned")
    script.status("alpha-0", "RUNNING", "w1", 1, at_ms=1_042)
    script.generation(
        2,
        {"w1": has("alpha alpha-0").loses("alpha-0"), "w2": has("alpha-1 beta beta-0").loses("beta-0")},
        at_ms=20_050,
        config_offset=5,
    )
    script.status("alpha-0", "UNASSIGNED", "w1", 1, at_ms=20_109)
    script.rejoined(2, "w1", at_ms=20_200, leader=True)
    script.generation(3, {"w1": has("alpha"), "w2": has("alpha-1 beta").gets("alpha-0")}, at_ms=20_210, config_offset=5)
    script.status("alpha-0", "RUNNING", "w2", 3, at_ms=20_302)
    (change,) = connector_changes(script.rebalances())
    assert [(t.connector, t.resources, t.longest_ms) for t in change.others] == [("alpha", ("alpha-0",), 200)]
    assert (change.others_count, change.others_seconds, change.is_mixed) == (1, 0.2, False)
    assert len(change.rebalance_ids) == 2


def test_under_the_eager_protocol_everything_of_everybody_stops() -> None:
    script = a_cluster_of_two_teams("default")
    script.generation(
        2,
        {"w1": FRESH.gets("alpha alpha-1"), "w2": FRESH.gets("alpha-0 beta")},
        at_ms=20_050,
        protocol="default",
        config_offset=5,
    )
    (change,) = connector_changes(script.rebalances())
    assert [t.resources for t in change.others] == [("alpha", "alpha-0", "alpha-1")]
    assert [t.resources for t in change.own] == [("beta",)]


def test_a_worker_that_came_at_the_same_time_shares_the_blame() -> None:
    script = a_cluster_of_two_teams("default")
    script.rejoined(1, "w1", at_ms=20_010)
    script.generation(
        2,
        {"w1": FRESH.gets("alpha"), "w2": FRESH.gets("alpha-0 beta"), "w3": FRESH.gets("alpha-1")},
        at_ms=20_050,
        protocol="default",
        config_offset=5,
    )
    assert [c.is_mixed for c in connector_changes(script.rebalances())] == [True]


def test_a_rebalance_that_no_connector_caused_is_nobodys_change() -> None:
    script = a_cluster_of_two_teams("sessioned").left(1, "w2", at_ms=30_000)
    script.generation(2, {"w1": has("alpha alpha-0").gets("alpha-1 beta beta-0")}, at_ms=30_010, config_offset=4)
    assert not connector_changes(script.rebalances())
