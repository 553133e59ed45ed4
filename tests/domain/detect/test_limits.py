from __future__ import annotations

import ast
import inspect
from dataclasses import fields, replace
from itertools import pairwise
from typing import Any

import pytest

from rebalance_audit.domain.detect import Limits, LimitsError, detect_group, limits_for
from rebalance_audit.domain.detect import limits as module
from tests.domain.detect.group_story import a_connect_cluster, a_group


def test_later_overrides_win_and_only_matching_ones_count() -> None:
    overrides: list[dict[str, Any]] = [
        {"storm_short_count": 20},
        {"group": "etl-*", "storm_short_count": 50},
        {"cluster": "test", "group": "*", "quiet_ms": 1},
    ]
    assert limits_for(overrides, "prod", "orders").storm_short_count == 20
    assert limits_for(overrides, "prod", "etl-night").storm_short_count == 50
    assert limits_for(overrides, "prod", "etl-night").quiet_ms == Limits().quiet_ms
    assert limits_for(overrides, "test", "orders").quiet_ms == 1


def test_no_overrides_leave_the_limits_as_they_are() -> None:
    assert limits_for([], "prod", "orders") == Limits()


def test_group_patterns_show_upper_from_lower_case() -> None:
    assert limits_for([{"group": "Orders", "quiet_ms": 1}], "prod", "orders") == Limits()


def test_all_faults_are_shown_at_once() -> None:
    with pytest.raises(LimitsError) as caught:
        limits_for(
            [{"storm_short_cuont": 3, "quiet_ms": "long"}, {"group": 7, "quiet_ms": -1, "settled_ms": True}], "c", "g"
        )
    assert str(caught.value) == (
        "limits entry 1: there is no limit 'storm_short_cuont'; limits entry 1: quiet_ms must be a number, not 'long'; "
        "limits entry 2: group must be a pattern, not 7; limits entry 2: quiet_ms must not be negative, it is -1; "
        "limits entry 2: settled_ms must be a number, not True"
    )


def test_faults_are_shown_for_entries_that_match_another_group() -> None:
    with pytest.raises(LimitsError, match="no limit 'nope'"):
        limits_for([{"group": "other", "nope": 1}], "prod", "orders")


def test_every_limit_has_its_reason_under_it() -> None:
    body = ast.parse(inspect.getsource(module)).body
    cls = next(node for node in body if isinstance(node, ast.ClassDef) and node.name == "Limits").body
    reasoned = {
        node.target.id
        for node, after in pairwise(cls)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
        and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
    }  # fmt: skip
    assert {f.name for f in fields(Limits)} == reasoned


def test_a_connector_has_limits_of_its_own() -> None:
    overrides: list[dict[str, Any]] = [
        {"group": "connect-*", "config_rewrites": 20},
        {"group": "connect-*", "connector": "mirror-*", "config_rewrites": 30, "zombie_min_ms": 1},
        {"connector": "mirror-a", "config_rewrites": 40},
    ]
    of_group = limits_for(overrides, "prod", "connect-a")
    assert of_group.config_rewrites == of_group.of("sink").config_rewrites == 20
    assert (of_group.of("mirror-b").config_rewrites, of_group.of("mirror-b").zombie_min_ms) == (30, 1)
    assert of_group.of("mirror-a").config_rewrites == 40
    assert limits_for(overrides, "prod", "orders").of("mirror-b") == replace(
        Limits(), of_connectors=(("mirror-a", (("config_rewrites", 40),)),)
    )


def test_a_later_entry_for_all_connectors_wins() -> None:
    overrides: list[dict[str, Any]] = [{"connector": "mirror-*", "config_rewrites": 30}, {"config_rewrites": 7}]
    assert limits_for(overrides, "prod", "connect-a").of("mirror-a").config_rewrites == 7


def test_a_limit_of_groups_has_no_connector() -> None:
    with pytest.raises(LimitsError, match="limits entry 1: storm_short_count is no limit of single connectors, only"):
        limits_for([{"connector": "sink", "storm_short_count": 3}], "prod", "connect-a")


def test_a_connector_with_a_wider_limit_is_silent_where_another_is_not() -> None:
    story = a_connect_cluster().joins("w1", "w2", at_s=0)
    for turn in range(14):
        story.meets_again(at_s=60 + 5 * turn, because="connect_config_changed", changed_connectors=("mirror", "sink"))
    limits = limits_for([{"connector": "mirror", "config_rewrites": 30}], "cluster-a", "connect")
    found = [f for f in detect_group(story.rebalances, (), limits) if f.rule_id == "CN008"]
    assert [f.connectors for f in found] == [("sink",)]


def test_a_group_with_a_wider_limit_is_silent_where_another_is_not() -> None:
    story = a_group().joins("c1", "c2", at_s=0)
    for i in range(8):
        story.meets_again(at_s=60 + 30 * i, because="topic_metadata_changed")
    assert [f.rule_id for f in detect_group(story.rebalances)] == ["RB001"]
    wide = limits_for([{"group": "orders", "storm_short_count": 20}], "cluster-a", "orders")
    assert detect_group(story.rebalances, (), wide) == []
