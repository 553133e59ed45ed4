"""What the settings mean: defaults of the command line's options, and for the stages the limits and team of a group."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from rebalance_audit.alerts.message import Runbook
from rebalance_audit.alerts.outward import Outward
from rebalance_audit.alerts.routing import Routes, key_of
from rebalance_audit.domain.detect.limits import LimitsOf
from rebalance_audit.domain.teams import TeamOf
from rebalance_audit.settings.model import Cluster, Settings
from rebalance_audit.settings.reading import SettingsError, revealed

_SOURCES = ("collect", "watch")
"""Verbs that read a cluster; its part of the file gives the defaults of their options."""
_LOOK_WHERE_THEY_ARE_TOLD = ("explain", "whatif")
"""A warehouse is one of their places, and a default beside another place would make two."""
_RECEIVERS = ("alert", "watch")
"""Verbs that send alerts: their `--to`."""


def option_defaults(settings: Settings, verb: str, cluster: str | None) -> dict[str, Any]:
    """Value by the name of an option's parameter, as the command line would give it.

    `cluster` names one of several clusters; with one there is no choice. Raises SettingsError, and IngestError for
    client properties that librdkafka has no equal of.
    """
    found: dict[str, Any] = {}
    if settings.warehouse is not None and verb not in _LOOK_WHERE_THEY_ARE_TOLD:
        found["warehouse"] = settings.warehouse
    if verb == "maintain":
        kept = settings.retention
        found |= {"keep_bronze": kept.bronze, "keep_silver": kept.silver, "keep_gold": kept.gold}
    if verb == "watch" and settings.stopped_after is not None:
        found["stopped_after"] = settings.stopped_after
    if verb == "trace" and settings.traces is not None:
        found["to"] = settings.traces.url
    if verb == "annotate" and settings.annotations is not None:
        found["to"] = settings.annotations.url
    if verb in _RECEIVERS and settings.alerts:
        found["to"] = [revealed(target.url) for target in settings.alerts]
    if verb in _SOURCES and (settings.clusters or cluster is not None):
        found |= _source(_chosen(settings, cluster))
    return found


def _chosen(settings: Settings, name: str | None) -> Cluster:
    if name is None:
        if len(settings.clusters) > 1:
            there = ", ".join(c.name for c in settings.clusters)
            raise SettingsError(f"The settings have several clusters; give --cluster NAME, one of {there}.")
        return settings.clusters[0]
    return named_cluster(settings, name)


def named_cluster(settings: Settings, name: str) -> Cluster:
    for cluster in settings.clusters:
        if cluster.name == name:
            return cluster
    there = ", ".join(c.name for c in settings.clusters)
    raise SettingsError(f"The settings have no cluster {name!r}; there are {there or 'none'}.")


def client_properties(cluster: Cluster) -> dict[str, str]:
    """The client settings of the file for librdkafka, with their secrets. Raises SettingsError for a secret that is
    missing, IngestError for properties that librdkafka has no equal of."""
    from ingest.client_config import from_java

    return from_java({k: revealed(v) for k, v in cluster.client.items()}, place=f"clusters {cluster.name!r}, client")


def _source(cluster: Cluster) -> dict[str, Any]:
    given = {
        "bootstrap": cluster.bootstrap_servers,
        "command_config": cluster.command_config,
        "overrides": [f"{name}={value}" for name, value in client_properties(cluster).items()],
        "logs": cluster.logs,
        "metadata": cluster.metadata,
        "topics": [f"{topic}={kind}" for topic, kind in cluster.connect_topics.items()],
        "cluster_id": cluster.cluster_id,
    }
    return {name: value for name, value in given.items() if value}


@dataclass(frozen=True, slots=True)
class AppLogin:
    """The settings of the app's log-in that its server is started with."""

    secrets: str
    """Streamlit's secrets, TOML."""
    rules: str
    """Who sees what, as `app.access` reads it."""


def login_of(settings: Settings) -> AppLogin | None:
    """How visitors of the app log in; None if nobody is asked who they are. Raises SettingsError if a secret is not
    there."""
    login = settings.app.login
    if login is None:
        return None
    auth = {
        "redirect_uri": f"{settings.app.public_url}/oauth2callback",
        "cookie_secret": revealed(login.cookie_secret),
        "client_id": login.client_id,
        "client_secret": revealed(login.client_secret),
        "server_metadata_url": login.metadata_url,
    }
    lines = ["[auth]", *(f"{name} = {json.dumps(value)}" for name, value in auth.items())]
    lines += ["[auth.client_kwargs]", f"scope = {json.dumps(login.scope)}", f'prompt = "{login.prompt}"']
    rules = {
        "claim": login.claim,
        "members": {team.name: team.members for team in settings.teams},
        "auditors": settings.app.auditors,
        "teams": [[team.name, team.clusters, team.groups] for team in settings.teams],
        "connectors": [[t.name, t.clusters, t.connect_clusters, t.connectors] for t in settings.teams if t.connectors],
        "names": _names_of(settings),
    }
    return AppLogin(secrets="\n".join(lines) + "\n", rules=json.dumps(rules))


def links_of(settings: Settings) -> str | None:
    """The links as `app.page.outward` reads them; None where there are none."""
    links = [[link.title, link.url] for link in settings.app.links]
    return json.dumps(links) if links else None


def outward_of(settings: Settings) -> Outward | None:
    """The receivers of traces and annotations; None if the settings name none. Raises SettingsError if a secret is not
    there."""
    traces, annotations = settings.traces, settings.annotations
    if traces is None and annotations is None:
        return None
    return Outward(
        traces_url=None if traces is None else traces.url,
        headers={} if traces is None else {name: revealed(value) for name, value in traces.headers.items()},
        grafana_url=None if annotations is None else annotations.url,
        grafana_token="" if annotations is None else revealed(annotations.token),
    )


def for_pipeline(settings: Settings) -> dict[str, Any]:
    """The `settings` of `spark_jobs.pipeline.run`."""
    chosen: dict[str, Any] = {}
    ids = {c.name: c.cluster_id for c in settings.clusters if c.cluster_id is not None}
    if settings.limits:
        chosen["limits"] = LimitsOf(tuple(one for entry in settings.limits for one in _by_id(entry, ids)))
    if settings.teams:
        chosen["team"] = team_of(settings)
    return chosen


def team_of(settings: Settings) -> TeamOf:
    teams = settings.teams
    return TeamOf(
        tuple((t.name, tuple(t.clusters), tuple(t.groups)) for t in teams),
        _names_of(settings),
        tuple((t.name, tuple(t.clusters), tuple(t.connect_clusters), tuple(t.connectors)) for t in teams),
    )


def _names_of(settings: Settings) -> dict[str, str]:
    return {c.cluster_id: c.name for c in settings.clusters if c.cluster_id is not None}


def routes_of(settings: Settings) -> Routes | None:
    """Which targets get the alerts of which team, and where the runbook is: by default the app's page of the incident.
    None if the file says neither. Raises SettingsError if a secret is not there."""
    named = {name for team in settings.teams for name in team.alerts}
    by_key = {
        key_of(revealed(target.url)): frozenset(team.name for team in settings.teams if target.name in team.alerts)
        for target in settings.alerts
        if target.name in named
    }
    runbook = None
    if settings.runbook is not None:
        runbook = Runbook(settings.runbook)
    elif settings.app.public_url is not None:
        runbook = Runbook(settings.app.public_url, is_app=True)
    return Routes(team_of(settings), by_key, runbook) if by_key or runbook else None


def _by_id(entry: Mapping[str, Any], ids: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """The entry by ids, which evidence has: as it is, and for each cluster whose name matches it."""
    yield dict(entry)
    for name, cluster_id in ids.items():
        if "cluster" in entry and fnmatchcase(name, entry["cluster"]):
            yield {**entry, "cluster": cluster_id}
