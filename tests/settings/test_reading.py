"""The settings file: what is understood, and every fault with its line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rebalance_audit import cli
from rebalance_audit.commands.config import schema_text
from rebalance_audit.domain.detect.limits import DEFAULT
from rebalance_audit.settings.choices import for_pipeline, option_defaults
from rebalance_audit.settings.model import Secret, Settings
from rebalance_audit.settings.reading import SettingsError, parse_settings, read_settings, revealed
from rebalance_audit.warehouse.warehouse import Warehouse

DOCS = Path(__file__).parents[2] / "docs"
WHOLE = """\
warehouse: /var/lib/rebalance-audit
clusters:
  - name: shop
    cluster_id: Xj2bDWDpQ6mZ
    bootstrap_servers: kafka-1:9093,kafka-2:9093
    client:
      security.protocol: SASL_SSL
      sasl.password: {env: SHOP_PASSWORD}
    logs: [/var/log/kafka]
teams:
  - {name: orders, groups: ["orders-*"]}
  - {name: payments, groups: ["pay-*"]}
alerts:
  - {name: on-call, url: "http://alertmanager:9093/api/v2/alerts"}
limits:
  - {group: "batch-*", storm_short_count: 50}
  - {cluster: shop, group: "batch-night", storm_short_count: 80}
"""


def faults(text: str) -> list[str]:
    with pytest.raises(SettingsError) as raised:
        parse_settings(text, "s.yaml")
    return list(raised.value.faults)


def test_a_whole_file_is_understood() -> None:
    settings = parse_settings(WHOLE, "s.yaml")
    (cluster,) = settings.clusters
    assert cluster.client["sasl.password"] == Secret(env="SHOP_PASSWORD")


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "{}"])
def test_an_empty_file_means_the_defaults(text: str) -> None:
    assert parse_settings(text, "s.yaml") == Settings()


CASES: list[tuple[str, list[str]]] = [
    ("clusters: [{name: a}, {name: a}]", ["s.yaml:1: there are 2 clusters named 'a'; each must be there once."]),
    (
        "clusters:\n  - {name: a, cluster_id: X}\n  - {name: b, cluster_id: X}\n",
        ["s.yaml:3: there are 2 clusters with the id 'X'; each must be there once."],
    ),
    ("colour: red\nteams:\n  - {name: a, groups: [b], colour: 2}\n", [
        "s.yaml:1: colour: there is no such setting; there are warehouse, clusters, teams, alerts, stopped_after, "
        "runbook, traces, annotations, evidence_log, app, retention, limits.",
        "s.yaml:3: teams[1].colour: there is no such setting; there are name, clusters, groups, connectors, "
        "connect_clusters, members, alerts.",
    ]),
    ("app: {login: {claims: x}, auditor: [a]}\nwarehouses: x\n", [
        "s.yaml:1: app.auditor: there is no such setting; did you mean auditors?",
        "s.yaml:1: app.login.claims: there is no such setting; did you mean claim?",
        *(f"s.yaml:1: app.login.{name}: it is missing." for name in
          ("client_id", "client_secret", "cookie_secret", "metadata_url")),
        "s.yaml:2: warehouses: there is no such setting; did you mean warehouse?",
    ]),
    ("warehouse: 3\n", ["s.yaml:1: warehouse: it must be text, not 3; put it in quotes."]),
    ("clusters: shop\nteams:\n  - orders\n", [
        "s.yaml:1: clusters: it must be a list, such as [a, b], not 'shop'.",
        "s.yaml:3: teams[1]: it must be a mapping, such as {name: value}, not 'orders'.",
    ]),
    ("retention: {gold: never}\nstopped_after: 5\n", [
        "s.yaml:1: retention.gold: it must be hours or days, such as 36h or 400d, not 'never'.",
        "s.yaml:2: stopped_after: it must be text, not 5; put it in quotes.",
    ]),
    ("stopped_after: soon\nclusters: [{name: a, connect_topics: {t: offsets}}]\n", [
        "s.yaml:1: stopped_after: it must be seconds, minutes or hours, such as 90s, 5m or 1h, not 'soon'.",
        "s.yaml:2: clusters[1].connect_topics.t: it must be 'status' or 'config', not 'offsets'.",
    ]),
    ("app: {public_url: 'https://me:hunter2@audit/'}\n", [
        "s.yaml:1: app.public_url: it must be an http(s) address without user, query and last slash, such as "
        "https://audit.example.org, not 'https://…@audit/'."
    ]),
    (
        "teams:\n  - {name: a, groups: ['orders-*']}\n  - {name: b, groups: ['orders-eu-*']}\n",
        [
            "s.yaml:3: team 'b' never gets groups 'orders-eu-*', since team 'a' stands before it and has 'orders-*'; "
            "put 'b' first, or make their patterns distinct."
        ],
    ),
    (
        "clusters:\n  - {name: a, cluster_id: X, logs: here}\n  - {name: b, cluster_id: X}\n",
        [
            "s.yaml:2: clusters[1].logs: it must be a list, such as [a, b], not 'here'.",
            "s.yaml:3: there are 2 clusters with the id 'X'; each must be there once.",
        ],
    ),
    ("limits:\n  - storm_short_count: many\n", [
        "s.yaml:2: limits[1]: storm_short_count must be a number, not 'many'."
    ]),
    ("limits:\n  - {connector: sink, quiet_ms: 3}\n", [
        "s.yaml:2: limits[1]: quiet_ms is no limit of single connectors, only config_rewrite_beat_ms, "
        "config_rewrite_off_beat, config_rewrite_window_ms, config_rewrites, zombie_min_ms, "
        "zombie_overlap_ms, zombie_warning_ms are."
    ]),
    ("limits:\n  - {}\n  - strom_count: 3\n", ["s.yaml:3: limits[2]: there is no limit 'strom_count'."]),
    (
        "teams:\n  - {name: a, groups: [orders-app]}\n  - {name: b, groups: ['orders-*']}\n",
        ["s.yaml:3: teams 'a' and 'b' both have groups 'orders-app' and 'orders-*'; make their patterns distinct."],
    ),
    (
        "teams:\n  - {name: a, connectors: [orders-sink]}\n  - {name: b, connectors: ['o*']}\n",
        ["s.yaml:3: teams 'a' and 'b' both have connectors 'orders-sink' and 'o*'; make their patterns distinct."],
    ),
    ("teams: [{name: a}]\n", ["s.yaml:1: teams[1]: give groups, connectors or both."]),
    ("teams: [{name: a, groups: [b], alerts: [chat]}]\nalerts: [{name: call, url: 'http://h'}]\n", [
        "s.yaml:1: team 'a' names an alert target 'chat'; there are call."
    ]),
    (
        "colour: red\nclusters:\n  - {name: a}\n  - {name: a}\nteams:\n  - {name: t, groups: [g], alerts: [chat]}\n"
        "  - {name: u, groups: [g]}\nalerts:\n  - {name: chat, address: x}\n",
        [
            "s.yaml:1: colour: there is no such setting; there are warehouse, clusters, teams, alerts, stopped_after, "
            "runbook, traces, annotations, evidence_log, app, retention, limits.",
            "s.yaml:4: there are 2 clusters named 'a'; each must be there once.",
            "s.yaml:7: teams 't' and 'u' both have groups 'g' and 'g'; make their patterns distinct.",
            "s.yaml:9: alerts[1].address: there is no such setting; there are name, url.",
            "s.yaml:9: alerts[1].url: it is missing.",
        ],
    ),
    ("clusters:\n  - name: a\n    client: {sasl.password: hunter2}\n", [
        "s.yaml:3: clusters[1].client: sasl.password is a secret; give it as {env: NAME} or {file: PATH}."
    ]),
    (
        "clusters:\n  - {name: shop, cluster_id: X}\n  - {name: lab, cluster_id: Y}\n"
        "limits:\n  - {cluster: shpo, quiet_ms: 3}\n  - {cluster: 'sh*', quiet_ms: 3}\n  - {cluster: X, quiet_ms: 3}\n"
        "teams:\n  - {name: t, groups: [g], clusters: [shop, lap]}\n",
        [
            "s.yaml:5: limits[1] names a cluster 'shpo'; there are shop, lab.",
            "s.yaml:9: team 't' names a cluster 'lap'; there are shop, lab.",
        ],
    ),
    ("clusters: [{name: shop, bootstrap_servers: a}]\nlimits:\n  - {cluster: shop, quiet_ms: 3}\n", [
        "s.yaml:3: limits[1] names the cluster 'shop', whose cluster_id the settings lack; add it (`doctor` says it)."
    ]),
    ("clusters:\n  - cluster_id: X\n", ["s.yaml:2: clusters[1].name: it is missing."]),
    ("warehouse: a\nwarehouse: b\n", ["s.yaml:2: warehouse: this key is here twice."]),
    ("- a\n", ["s.yaml:1: the file must be a mapping of settings, such as `clusters:`."]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_every_fault_is_named_with_its_line(text: str, expected: list[str]) -> None:
    assert faults(text) == expected


def test_text_that_is_no_yaml_is_named_with_its_line() -> None:
    (fault,) = faults("clusters: [\nteams: ]: x\n")
    assert fault.startswith("s.yaml:2: this is no YAML")


@pytest.mark.parametrize("text", ["a: &a [*a]\n", "clusters: " + "[" * 5_000])
def test_a_file_that_is_nested_without_end_is_one_sentence(text: str) -> None:
    (fault,) = faults(text)
    assert fault.startswith("s.yaml: ")


def test_the_narrower_pattern_may_stand_first() -> None:
    text = "teams:\n  - {name: b, groups: ['orders-eu-*']}\n  - {name: a, groups: ['orders-*', 'o?']}\n"
    team = for_pipeline(parse_settings(text, "s.yaml"))["team"]
    assert (team("c", "orders-eu-1"), team("c", "orders-us")) == ("b", "a")


@pytest.mark.parametrize(
    "url",
    [
        "slack://T/B/secret", "https://u:p@host/x", "https://host/x?token=1", "https://[::1",
        "https://hooks.slack.com/services/T1JJ3T3L2/A1BRTD4JD/secret0kdnlazkcOXrIdevi7F",
    ],
)  # fmt: skip
def test_an_alert_target_with_a_secret_in_it_is_refused_without_showing_it(url: str) -> None:
    (fault,) = faults(f"alerts:\n  - name: a\n    url: {url}\n")
    assert fault.startswith("s.yaml:3: alerts[1].url: only an http(s) address")
    assert "secret" not in fault
    assert "token=1" not in fault


def test_limits_and_teams_reach_the_pipeline() -> None:
    chosen = for_pipeline(parse_settings(WHOLE, "s.yaml"))
    limits, team = chosen["limits"], chosen["team"]
    assert limits("Xj2bDWDpQ6mZ", "batch-night").storm_short_count == 80
    assert limits("other", "batch-night").storm_short_count == 50
    assert limits("other", "orders-app") == DEFAULT
    assert (team("any", "orders-app"), team("any", "pay-1"), team("any", "x")) == ("orders", "payments", None)
    assert for_pipeline(Settings()) == {}


def test_limits_meet_clusters_by_names_ids_and_patterns_of_both() -> None:
    text = "clusters: [{name: shop-eu, cluster_id: X1}, {name: lab, cluster_id: X2}]\nlimits:\n"
    for cluster, expected in (("shop-eu", [3, 0]), ("X2", [0, 3]), ("shop-*", [3, 0]), ("X*", [3, 3]), ("*", [3, 3])):
        entry = f"  - {{cluster: '{cluster}', storm_short_count: 3}}\n"
        limits = for_pipeline(parse_settings(text + entry, "s.yaml"))["limits"]
        found = [limits(cluster_id, "g").storm_short_count for cluster_id in ("X1", "X2")]
        assert [count if count == 3 else 0 for count in found] == expected, cluster


def test_connectors_of_one_name_in_two_connect_clusters_may_have_two_teams() -> None:
    settings = parse_settings(
        "teams:\n"
        "  - {name: a, connectors: ['sink-*'], connect_clusters: [connect-eu]}\n"
        "  - {name: b, connectors: ['sink-*'], connect_clusters: [connect-us]}\n"
        "  - {name: platform, groups: ['connect-*']}\n",
        "s.yaml",
    )
    team = for_pipeline(settings)["team"]
    of_connector = [team.of_connector("c", g, "sink-1") for g in ("connect-eu", "connect-us", "connect-asia")]
    assert of_connector == ["a", "b", None]
    assert team("c", "connect-eu") == "platform"
    assert team.owners("c", ["connect-eu"], ["sink-1", "other"]) == {"a", "platform"}
    assert team.owners("c", ["connect-asia"], ["sink-1"]) == {"platform"}
    assert team.owners("c", ["none"], []) == frozenset()


def defaults(verb: str, text: str = WHOLE, cluster: str | None = None) -> dict[str, Any]:
    return option_defaults(parse_settings(text, "s.yaml"), verb, cluster)


def test_a_verb_gets_the_defaults_it_has_options_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "hunter2")
    receiver, place = "http://alertmanager:9093/api/v2/alerts", "/var/lib/rebalance-audit"
    assert defaults("report") == {"warehouse": place}
    assert defaults("alert") == {"warehouse": place, "to": [receiver]}
    assert defaults("watch") == {
        "warehouse": place,
        "to": [receiver],
        "bootstrap": "kafka-1:9093,kafka-2:9093",
        "overrides": ["security.protocol=SASL_SSL", "sasl.password=hunter2"],
        "logs": ["/var/log/kafka"],
        "cluster_id": "Xj2bDWDpQ6mZ",
    }


def test_of_several_clusters_one_must_be_named() -> None:
    text = "clusters: [{name: a, cluster_id: A, logs: [x]}, {name: b, logs: [y]}]"
    with pytest.raises(SettingsError, match="several clusters; give --cluster NAME, one of a, b"):
        defaults("collect", text)
    with pytest.raises(SettingsError, match="no cluster 'c'; there are a, b"):
        defaults("collect", text, "c")
    assert defaults("collect", text, "a") == {"logs": ["x"], "cluster_id": "A"}


def test_secrets_come_from_the_environment_or_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SECRET", "s1")
    (tmp_path / "secret").write_text("s2\n")
    assert revealed(Secret(env="A_SECRET")) == "s1"
    assert revealed(Secret(file=str(tmp_path / "secret"))) == "s2"
    with pytest.raises(SettingsError, match="NOT_SET, named in the settings, is not set"):
        revealed(Secret(env="NOT_SET"))


def test_the_published_schema_is_the_models() -> None:
    published: Any = json.loads((DOCS / "settings.schema.json").read_text())
    assert published == json.loads(schema_text())


def test_the_example_of_the_docs_holds() -> None:
    text = (DOCS / "settings.md").read_text()
    example = text.split("```yaml\n", 1)[1].split("```", 1)[0]
    assert parse_settings(example, "settings.md").clusters


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        read_settings(tmp_path / "absent.yaml")


def test_run_takes_limits_and_teams_from_the_settings_file(tmp_path: Path) -> None:
    """The storm of the lab is none where the settings allow that many rebalances, and its group belongs to a team."""
    file, storm = tmp_path / "s.yaml", Path(__file__).parents[1] / "golden" / "4.3.0" / "storm"
    found = {}
    for name, limits in {
        "usual": "",
        "allowed": "limits: [{storm_short_count: 1000, storm_long_count: 1000}]\n",
    }.items():
        place = tmp_path / name
        file.write_text(f"warehouse: {place}\nteams: [{{name: shop, groups: ['stormy-*']}}]\n{limits}")
        assert cli.run(["import", str(storm), "--config", str(file), "-q"]) == 0
        assert cli.run(["run", "--engine", "local", "--config", str(file), "-q"]) == 0
        opened = Warehouse.open(place)
        found[name] = set(opened.query("SELECT rule_id FROM gold.finding").column(0).to_pylist())
        teams = opened.query("SELECT DISTINCT team FROM gold.rebalance")
        assert teams.column(0).to_pylist() == ["shop"]
    assert found["usual"] - found["allowed"] == {"RB001"}


def test_a_login_without_a_way_back_is_a_fault() -> None:
    text = (
        "app:\n  login:\n    metadata_url: https://login.example.org/x\n    client_id: a\n"
        "    client_secret: {env: A}\n    cookie_secret: {env: B}\n"
    )
    with pytest.raises(SettingsError, match=r"f\.yaml:1: app: a login needs public_url"):
        parse_settings(text, "f.yaml")
    found = parse_settings(text + "  public_url: https://audit.example.org\n", "f.yaml")
    assert found.app.login is not None
    assert found.app.login.claim == "groups"


def test_a_link_that_is_no_address_is_a_fault_with_its_line() -> None:
    lag, bad = '{title: Lag, url: "https://lag/{group}"}', '{title: Bad, url: "javascript:{group}"}'
    text = f"app:\n  links:\n    - {lag}\n    - {bad}\n"
    with pytest.raises(SettingsError, match=r"f\.yaml:4: app\.links\[2\]\.url: it must begin with http"):
        parse_settings(text, "f.yaml")
