"""What may stand in the settings file. Units are in the names; a key that is not here is a fault.

Patterns are shell patterns (`orders-*`), matched with case. A secret is never written in the file: it is
`{env: NAME}` or `{file: PATH}`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from ingest.client_config import SECRET_NAME
from rebalance_audit.domain.links import fault_of

Pattern = Annotated[str, Field(min_length=1)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Secret(_Part):
    """The place of a secret: exactly one of an environment variable and a file that holds it."""

    env: str | None = None
    file: str | None = None

    @model_validator(mode="after")
    def _is_one(self) -> Secret:
        if (self.env is None) == (self.file is None):
            raise ValueError("give exactly one of env and file")
        return self


class Cluster(_Part):
    """One Kafka cluster and where its evidence is."""

    name: Annotated[str, Field(min_length=1)]
    cluster_id: str | None = None
    """The cluster id as Kafka prints it. Needed where only log files are read; brokers say it themselves."""
    bootstrap_servers: str | None = None
    """HOST:PORT, comma between them."""
    command_config: str | None = None
    """A Java-style properties file, as for Kafka's own tools."""
    client: dict[str, str | Secret] = {}
    """Client properties by Kafka's names; they win over `command_config`."""
    logs: list[str] = []
    """Folders with the logs of a node, or NODE=FOLDER."""
    metadata: list[str] = []
    """metadata.log.dir of nodes, or NODE=FOLDER."""
    connect_topics: dict[str, Literal["status", "config"]] = {}

    @field_validator("client")
    @classmethod
    def _holds_no_secret(cls, value: dict[str, str | Secret]) -> dict[str, str | Secret]:
        plain = sorted(name for name, given in value.items() if isinstance(given, str) and SECRET_NAME.search(name))
        if plain:
            raise ValueError(f"{', '.join(plain)} is a secret; give it as {{env: NAME}} or {{file: PATH}}")
        return value


class AlertTarget(_Part):
    """One receiver of alerts."""

    name: Annotated[str, Field(min_length=1)]
    url: str | Secret
    """https://… (Alertmanager) or a target of apprise."""

    @field_validator("url")
    @classmethod
    def _holds_no_secret(cls, value: str | Secret) -> str | Secret:
        if isinstance(value, str) and not _is_plain(value):
            raise ValueError(f"{_PLAIN}; give any other as {{env: NAME}} or {{file: PATH}}")
        return value


_TOKEN = re.compile(r"/(?=[^/]*[0-9])(?=[^/]*[A-Za-z])[A-Za-z0-9_.~@-]{20,}(?:/|$)")
"""A part of a path that looks random: the webhook addresses of Slack, Discord and others are secrets as a whole."""
_PLAIN = "only an http(s) address without user, password, query and token may stand here"


def _is_plain(url: str) -> bool:
    try:
        parts = urlsplit(url)
        is_web = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return False
    return is_web and not (parts.username or parts.password or parts.query or _TOKEN.search(parts.path))


def _plain(url: str) -> str:
    if not _is_plain(url):
        raise ValueError(_PLAIN)
    return url


class Traces(_Part):
    """The receiver that gets incidents as traces after each publication."""

    url: Annotated[str, AfterValidator(_plain)]
    """OTLP over HTTP: http://collector:4318."""
    headers: dict[str, Secret] = {}
    """Headers that the receiver wants, `authorization` for instance."""


class Annotations(_Part):
    """The Grafana that gets incidents and marks as annotations after each publication."""

    url: Annotated[str, AfterValidator(_plain)]
    """Its own address: http://grafana:3000."""
    token: Secret
    """The token of a service account that may write annotations."""


class Team(_Part):
    """Owns the groups and connectors that match. Where two teams match, the first one in the file owns it."""

    name: Annotated[str, Field(min_length=1)]
    clusters: list[Pattern] = ["*"]
    groups: list[Pattern] = []
    """A Connect cluster is a group: who has it has all of its connectors in sight."""
    connectors: list[Pattern] = []
    """Single connectors, also of a Connect cluster that is another team's."""
    connect_clusters: list[Pattern] = ["*"]
    """The groups of the Connect clusters in which `connectors` are looked for."""
    members: list[Pattern] = []
    """Who sees these groups and connectors in the app: values of the log-in's claim, or verified addresses."""
    alerts: list[str] = []
    """Names of alert targets that get what concerns this team. A target that no team names gets everything."""

    @model_validator(mode="after")
    def _owns_something(self) -> Team:
        if not self.groups and not self.connectors:
            raise ValueError("give groups, connectors or both")
        return self


class EvidenceLog(_Part):
    """The log of evidence, and who signs its heads."""

    key_file: str | None = None
    """The private key, PEM; `rebalance-audit audit key` makes one."""
    heads: str | None = None
    """The second place of the signed heads: a folder or an object-store URL."""


AGE, SPAN, PUBLIC_URL = r"^[1-9][0-9]*[hd]$", r"^[1-9][0-9]*[smh]$", r"^https?://[^?#@]+[^/?#@]$"
METADATA_URL = r"^https?://[^/@]+/[^@]*$"
PATTERNS = {
    METADATA_URL: "an http(s) address without user, such as https://login.example.org/.well-known/openid-configuration",
    AGE: "hours or days, such as 36h or 400d",
    SPAN: "seconds, minutes or hours, such as 90s, 5m or 1h",
    PUBLIC_URL: "an http(s) address without user, query and last slash, such as https://audit.example.org",
}
"""What each pattern means, for faults."""
Age = Annotated[str, Field(pattern=AGE)]
"""Hours or days: 12h, 30d."""


class Retention(_Part):
    """How long `maintain` keeps each layer, counted back from the end of a cluster's evidence."""

    bronze: Age = "7d"
    silver: Age = "30d"
    gold: Age = "400d"


class Login(_Part):
    """The OpenID provider that says who looks at the app."""

    metadata_url: Annotated[str, Field(pattern=METADATA_URL)]
    """https://…/.well-known/openid-configuration"""
    client_id: str
    client_secret: Secret
    cookie_secret: Secret
    """Signs the app's own cookie: at least 32 random characters."""
    scope: str = "openid email profile"
    prompt: Literal["select_account", "login", "consent", "none"] = "select_account"
    """What the provider is asked to show; some refuse `select_account`."""
    claim: str = "groups"
    """The claim whose values `members` of teams and `auditors` list."""


class AppLink(_Part):
    """A way to a page of another tool."""

    title: Annotated[str, Field(min_length=1, max_length=60)]
    url: Annotated[str, Field(max_length=2_000)]
    """http(s)://… with {cluster}, {group}, {incident}, {topic}, {partition}, {from_ms} and {to_ms} after the host."""

    @field_validator("url")
    @classmethod
    def _is_a_template(cls, value: str) -> str:
        if (fault := fault_of(value)) is not None:
            raise ValueError(fault)
        return value


class AppSettings(_Part):
    """The app that `ui` serves."""

    public_url: Annotated[str, Field(pattern=PUBLIC_URL)] | None = None
    """How browsers reach it; the provider sends them back to `public_url`/oauth2callback."""
    login: Login | None = None
    auditors: list[Pattern] = []
    """People who see all and change nothing; written like `members` of teams."""
    links: Annotated[list[AppLink], Field(max_length=8)] = []
    """Shown where a page is about all that the address names: groups, incidents, Connect, reassignments."""

    @model_validator(mode="after")
    def _can_come_back(self) -> AppSettings:
        if self.login is not None and self.public_url is None:
            raise ValueError("a login needs public_url, to which the provider sends people back")
        return self


Placed = tuple[tuple[str, int], str]
"""((part of the file, place in it), what is wrong)."""


class Contradictions(ValueError):
    """Parts of the file that are right each by itself, and do not fit together."""

    def __init__(self, found: Sequence[Placed]) -> None:
        super().__init__("; ".join(fault for _, fault in found))
        self.found = found


class Settings(_Part):
    """The whole file. Everything is optional."""

    warehouse: str | None = None
    """A folder or an object-store URL."""
    clusters: list[Cluster] = []
    teams: list[Team] = []
    alerts: list[AlertTarget] = []
    stopped_after: Annotated[str, Field(pattern=SPAN)] | None = None
    """`watch` alerts when a source gives no evidence for so long: 90s, 5m, 1h."""
    runbook: Annotated[str, Field(pattern=PUBLIC_URL)] | None = None
    """Where browsers find docs/runbook.md; alerts link to its headings. By default they link to `app.public_url`."""
    traces: Traces | None = None
    annotations: Annotations | None = None
    evidence_log: EvidenceLog = EvidenceLog()
    app: AppSettings = AppSettings()
    retention: Retention = Retention()
    limits: list[dict[str, Any]] = []
    """Limits of the rules by their names in `domain.detect.limits`, with optional patterns `cluster`, `group` and
    `connector` (the last for limits of single connectors); later entries win."""

    @model_validator(mode="after")
    def _fits_together(self) -> Settings:
        if faults := list(self._contradictions()):
            raise Contradictions(faults)
        return self

    def _contradictions(self) -> Iterator[Placed]:
        named: Mapping[tuple[str, str], Sequence[str | None]] = {
            ("clusters", "clusters named"): [c.name for c in self.clusters],
            ("clusters", "clusters with the id"): [c.cluster_id for c in self.clusters],
            ("teams", "teams named"): [t.name for t in self.teams],
            ("alerts", "alert targets named"): [a.name for a in self.alerts],
        }
        for (part, what), names in named.items():
            for name, count in Counter(names).items():
                if count > 1 and name is not None:
                    last = len(names) - 1 - list(reversed(names)).index(name)
                    yield (part, last), f"there are {count} {what} {name!r}; each must be there once"
        targets = {a.name for a in self.alerts}
        for at, team in enumerate(self.teams):
            for name in team.alerts:
                if name not in targets:
                    there = ", ".join(sorted(targets)) or "none"
                    yield ("teams", at), f"team {team.name!r} names an alert target {name!r}; there are {there}"
        for at, entry in enumerate(self.limits):
            if isinstance(cluster := entry.get("cluster"), str) and (fault := self._fault_of_cluster(cluster)):
                yield ("limits", at), f"limits[{at + 1}] {fault}"
        for at, team in enumerate(self.teams):
            for cluster in team.clusters:
                if fault := self._fault_of_cluster(cluster):
                    yield ("teams", at), f"team {team.name!r} {fault}"
        yield from self._overlaps()

    def _fault_of_cluster(self, named: str) -> str | None:
        """Evidence holds a cluster's id, so a pattern that matches no id and no name has no effect."""
        if _is_pattern(named) or not self.clusters or any(c.cluster_id == named for c in self.clusters):
            return None
        if any(c.name == named and c.cluster_id is None for c in self.clusters):
            return f"names the cluster {named!r}, whose cluster_id the settings lack; add it (`doctor` says it)"
        if all(c.name != named and c.cluster_id is not None for c in self.clusters):
            return f"names a cluster {named!r}; there are {', '.join(c.name for c in self.clusters)}"
        return None

    def _overlaps(self) -> Iterator[Placed]:
        """Patterns of two teams of which one is a name that the other matches, that are the same, or of which the
        later one never gets anything."""
        for at, first in enumerate(self.teams):
            for later, second in enumerate(self.teams[at + 1 :], start=at + 1):
                if not _meet(first.clusters, second.clusters):
                    continue
                faults = [*_shared(first, second, "groups", first.groups, second.groups)]
                if _meet(first.connect_clusters, second.connect_clusters):
                    faults += _shared(first, second, "connectors", first.connectors, second.connectors)
                if not faults and _covers(first.clusters, second.clusters):
                    faults += _shadowed(first, second, "groups", first.groups, second.groups)
                    if _covers(first.connect_clusters, second.connect_clusters):
                        faults += _shadowed(first, second, "connectors", first.connectors, second.connectors)
                for fault in faults:
                    yield ("teams", later), fault


def _shared(first: Team, second: Team, what: str, ones: list[str], others: list[str]) -> Iterator[str]:
    for one in ones:
        for other in others:
            if _matches(one, other):
                yield (
                    f"teams {first.name!r} and {second.name!r} both have {what} {one!r} and {other!r}; "
                    "make their patterns distinct"
                )


def _shadowed(first: Team, second: Team, what: str, ones: list[str], others: list[str]) -> Iterator[str]:
    for other in others:
        for one in ones:
            if _covers([one], [other]):
                yield (
                    f"team {second.name!r} never gets {what} {other!r}, since team {first.name!r} stands before it and "
                    f"has {one!r}; put {second.name!r} first, or make their patterns distinct"
                )


def _covers(ones: list[str], others: list[str]) -> bool:
    """Whether the ones match all that the others match. Only `*` is weighed: False may be wrong."""
    return all(any(one == other or ("?" not in one and "[" not in one and fnmatchcase(other, one)) for one in ones)
               for other in others)  # fmt: skip


def _matches(one: str, other: str) -> bool:
    return (
        one == other
        or (not _is_pattern(one) and fnmatchcase(one, other))
        or (not _is_pattern(other) and fnmatchcase(other, one))
    )


def _meet(one: list[str], other: list[str]) -> bool:
    return any(a == "*" or b == "*" or _matches(a, b) for a in one for b in other)


def _is_pattern(text: str) -> bool:
    return any(sign in text for sign in "*?[")
