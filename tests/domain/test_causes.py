"""Each cause, what it is by Kafka's protocols, and that nothing spells a cause in its own way."""

from __future__ import annotations

import ast
import csv
import io
import json
import pickle
import re
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from rebalance_audit.domain import causes, tables
from rebalance_audit.domain.causes import Cause, Protocol, cause_of
from rebalance_audit.domain.kinds import EvidenceTier
from rebalance_audit.domain.model import Rebalance, Trigger, from_row, to_row

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "infra" / "prometheus" / "rules.yml"

# value, family, and the sets that it is in: one case per cause.
CASES: dict[str, tuple[str, set[str]]] = {
    "member_joined": ("arrival", {"ARRIVALS", "DEPLOYS", "SPARED_BY_STATIC"}),
    "member_left": ("departure", {"DEPARTURES", "LEFT_IN_ORDER", "DEPLOYS", "SPARED_BY_STATIC"}),
    "member_session_expired": ("failure", {"DEPARTURES", "DEPLOYS", "SLOW_BY_DESIGN", "SPARED_BY_STATIC"}),
    "member_poll_timeout": ("failure", {"DEPARTURES", "PUT_OUT", "FAULTS", "SLOW_BY_DESIGN"}),
    "member_dropped_at_rebalance_timeout": ("failure", {"DEPARTURES", "PUT_OUT", "FAULTS", "SLOW_BY_DESIGN"}),
    "member_sync_timeout": ("failure", {"DEPARTURES", "PUT_OUT", "FAULTS"}),
    "subscription_changed": ("configuration", {"REJOINS", "REJOINS_WITHOUT_REASON"}),
    "topic_metadata_changed": ("configuration", {"REJOINS"}),
    "leader_rejoined": ("configuration", {"REJOINS", "REJOINS_WITHOUT_REASON"}),
    "client_requested": ("configuration", {"REJOINS"}),
    "static_member_replaced": ("arrival", {"DEPLOYS"}),
    "static_member_expired": ("failure", {"DEPARTURES", "DEPLOYS", "SLOW_BY_DESIGN"}),
    "group_emptied": ("departure", {"DEPLOYS", "HARMLESS"}),
    "coordinator_failover": ("failure", set()),
    "group_converted": ("configuration", set()),
    "member_removed_by_admin": ("departure", {"DEPARTURES", "LEFT_IN_ORDER", "DEPLOYS"}),
    "cooperative_follow_up": ("protocol", {"EXPECTED", "FOLLOW_UPS", "HARMLESS"}),
    "streams_probing": ("protocol", {"EXPECTED", "HARMLESS"}),
    "streams_follow_up": ("protocol", {"EXPECTED", "FOLLOW_UPS", "HARMLESS"}),
    "streams_topology_changed": ("configuration", set()),
    "share_state_initialized": ("protocol", {"EXPECTED", "HARMLESS"}),
    "coordinator_upgraded": ("protocol", {"EXPECTED", "HARMLESS"}),
    "connect_worker_joined": ("arrival", {"ARRIVALS", "DEPLOYS", "SPARED_BY_STATIC"}),
    "connect_worker_left": ("departure", {"DEPARTURES", "LEFT_IN_ORDER", "DEPLOYS", "SPARED_BY_STATIC"}),
    "connect_config_changed": ("configuration", set()),
    "connect_delay_expired": ("protocol", {"EXPECTED", "FOLLOW_UPS", "HARMLESS", "SLOW_BY_DESIGN", "CONNECT_ROUNDS"}),
    "connect_revocation_follow_up": ("protocol", {"EXPECTED", "FOLLOW_UPS", "HARMLESS", "CONNECT_ROUNDS"}),
    "connect_assignment_failed": ("failure", {"FAULTS"}),
    "assignor_changed": ("configuration", set()),
    "append_failed": ("failure", {"FAULTS"}),
    "join_phase_failed": ("failure", {"FAULTS"}),
    "unknown": ("unknown", {"REJOINS", "REJOINS_WITHOUT_REASON"}),
}
SETS = (
    "ARRIVALS", "DEPARTURES", "LEFT_IN_ORDER", "PUT_OUT", "DEPLOYS", "FAULTS", "EXPECTED", "FOLLOW_UPS", "HARMLESS",
    "SLOW_BY_DESIGN", "SPARED_BY_STATIC", "REJOINS", "REJOINS_WITHOUT_REASON", "CONNECT_ROUNDS",
)  # fmt: skip


def test_every_cause_has_a_case_and_tables_take_every_cause() -> None:
    assert [cause.value for cause in Cause] == list(CASES) == list(tables.TRIGGERS)


@pytest.mark.parametrize("value", CASES)
def test_a_cause_is_of_its_family_and_in_its_sets(value: str) -> None:
    family, sets = CASES[value]
    assert cause_of(value).facts.family.value == family
    assert {name for name in SETS if value in getattr(causes, name)} == sets


@pytest.mark.parametrize("cause", Cause)
def test_a_cause_has_a_phrase_that_can_end_a_sentence(cause: Cause) -> None:
    phrase = cause.facts.phrase
    assert phrase == phrase.strip()
    assert phrase[-1] not in ".:;,"
    assert "_" not in phrase
    assert not cause.facts.is_round or phrase.startswith(("the ", "a "))


def test_each_phrase_stands_once() -> None:
    phrases = [cause.facts.phrase for cause in Cause]
    assert len(set(phrases)) == len(phrases)


@pytest.mark.parametrize("cause", [cause for cause in Cause if cause.startswith("connect_")])
def test_connects_own_causes_occur_in_connect_alone(cause: Cause) -> None:
    assert cause.facts.protocols == {Protocol.CONNECT}


def test_what_this_version_does_not_know_is_unknown() -> None:
    assert cause_of("member_left") is Cause.MEMBER_LEFT
    assert cause_of("a_cause_of_next_year") is Cause.UNKNOWN


def test_a_cause_is_stored_as_its_plain_value_everywhere() -> None:
    row = {"trigger": Cause.MEMBER_LEFT, "all": [Cause.MEMBER_LEFT]}
    assert json.loads(json.dumps(row)) == {"trigger": "member_left", "all": ["member_left"]}
    text = io.StringIO()
    csv.writer(text).writerow(row.values())
    assert text.getvalue().startswith("member_left,")
    stored = pa.Table.from_pylist([row]).to_pylist()[0]
    assert type(stored["trigger"]) is type(stored["all"][0]) is str
    assert stored == row
    assert duckdb.execute("select ? || '', typeof(?)", [Cause.MEMBER_LEFT] * 2).fetchone() == ("member_left", "VARCHAR")
    assert pickle.loads(pickle.dumps(Cause.MEMBER_LEFT)) is Cause.MEMBER_LEFT


def test_a_rebalance_read_from_a_table_has_causes_again() -> None:
    rebalance = Rebalance(
        cluster_id="c",
        rebalance_id="r",
        group_id="g",
        trigger=Cause.MEMBER_LEFT,
        triggers=(Trigger(trigger=Cause.MEMBER_LEFT, tier=EvidenceTier.LOGGED),),
    )
    stored = pa.Table.from_pylist([to_row(rebalance)]).to_pylist()[0]
    assert type(stored["trigger"]) is str
    read = from_row(Rebalance, stored)
    assert read.trigger is read.triggers[0].trigger is Cause.MEMBER_LEFT


def test_prometheus_rules_leave_out_what_is_harmless() -> None:
    left_out = re.findall(r'trigger!~"([^"]*)"', RULES.read_text(encoding="utf-8"))
    assert left_out
    for pattern in left_out:
        named = pattern.split("|")
        assert len(set(named)) == len(named)
        assert set(named) == causes.HARMLESS


def _modules() -> list[Path]:
    folders = ("rebalance_audit", "ingest", "spark_jobs", "app", "dags", "infra", "bench")
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


def _spelt(module: ast.Module) -> list[ast.Constant]:
    """Texts of this module's code that spell a cause. A log line's kind may bear the name of the cause it shows."""
    found: list[ast.Constant] = []
    for node in ast.iter_child_nodes(module):
        if isinstance(node, ast.ClassDef) and node.name == "LogKind":
            continue
        for inner in ast.walk(node):
            if isinstance(inner, ast.Constant) and inner.value in CASES and inner.value != "unknown":
                found.append(inner)
            if isinstance(inner, ast.keyword) and inner.arg == "trigger" and isinstance(inner.value, ast.Constant):
                found.append(inner.value)
            if isinstance(inner, ast.Compare) and getattr(inner.left, "attr", None) == "trigger":
                found += [c for c in inner.comparators if isinstance(c, ast.Constant)]
    return found


@pytest.mark.parametrize("path", _modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_spells_a_cause(path: Path) -> None:
    if path == ROOT / "rebalance_audit" / "domain" / "causes.py":
        return
    spelt = _spelt(ast.parse(path.read_text(encoding="utf-8")))
    assert not spelt, [f"{path.name}:{c.lineno} spells {c.value!r}: use domain.causes.Cause" for c in spelt]
