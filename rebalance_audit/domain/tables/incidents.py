"""Findings and incidents, what people answered to them, marks on time lines, and advice."""

from __future__ import annotations

from rebalance_audit.domain.kinds import FindingStatus, Severity
from rebalance_audit.domain.tables.columns import CLUSTER, EVIDENCE, GROUP, Law, Table, col
from rebalance_audit.domain.tables.groups import TIERS

SEVERITIES = tuple(Severity)


GOLD_FINDING = Table(
    "gold.finding",
    "One thing that was wrong, from when it opened to when it was resolved.",
    ("cluster_id", "finding_id"),
    (
        CLUSTER,
        col("finding_id", "string", "From cluster, rule, subject and the first rebalance or attempt.", required=True),
        col("rule_id", "string", "", required=True),
        col("severity", "string", "", required=True, values=SEVERITIES),
        col("subject_type", "string", "group, partition, connector, source, broker, cluster.", required=True),
        col("subject", "string", "The bare name of it.", required=True),
        col("status", "string", "", required=True, values=tuple(FindingStatus)),
        col("first_seen_at_ms", "bigint", "0: nothing of its cluster could be read that has a time.", required=True),
        col("last_seen_at_ms", "bigint", "", required=True),
        col("title", "string", "One sentence.", required=True),
        col("detail", "string", ""),
        col("numbers", "string", "JSON."),
        col("advice", "string", "What to do."),
        col("group_id", "string", "The group whose history shows it; null where it is about the evidence itself."),
        col(
            "connectors",
            "array<string>",
            "Connect: those it is about; empty: none, or the workers. Null in older rows.",
        ),
        EVIDENCE,
    ),
    (
        Law("names its evidence", "size(evidence) >= 1"),
        Law("ends after it begins", "first_seen_at_ms <= last_seen_at_ms"),
    ),
)

INCIDENT_KINDS = (
    "storm", "reassignment", "coordinator", "connect_worker", "member_fault", "task_failed", "stuck", "assignment",
    "removal", "deploy", "configuration", "subscription", "protocol", "client", "scaling", "evidence", "unknown",
)  # fmt: skip
INCIDENT_STATES = ("open", "over")
INCIDENT_STILL = ("down", "waiting", "rebalancing", "moving", "empty", "nothing")
"""`down`: members or tasks stand still and do not go on by themselves. `waiting`: tasks wait for Connect's delay or a
worker. `rebalancing`: a rebalance runs. `moving`: replicas do. `empty`: it left no member. `nothing`: all has ended."""
COST_UNITS = ("partition", "task", "resource")

GOLD_INCIDENT = Table(
    "gold.incident",
    "One trouble, from its cause to its last consequence, with every rebalance and finding that belongs to it.",
    ("cluster_id", "incident_id"),
    (
        CLUSTER,
        col("incident_id", "string", "From cluster, subject and first rebalance or attempt.", required=True),
        col("kind", "string", "", required=True, values=INCIDENT_KINDS),
        col("root_cause", "string", "A trigger, what blocks a reassignment, or a rule's id.", required=True),
        col("root_cause_tier", "string", "", required=True, values=TIERS),
        col("culprits", "array<string>", "Client id, instance id, worker URL, `broker 4`.", required=True),
        col("hosts", "array<string>", "Where the culprits ran, if evidence names it. Null in older rows."),
        col("group_ids", "array<string>", "", required=True),
        col("connectors", "array<string>", "Connect: those that began it, or that it is about. Null in older rows."),
        col("rebalance_ids", "array<string>", "By time. Each rebalance with a cost is in one incident.", required=True),
        col("reassignment_ids", "array<string>", "", required=True),
        col("finding_ids", "array<string>", "Its symptoms, the gravest first.", required=True),
        col("first_at_ms", "bigint", "Of the cause, as far as evidence shows; 0: nothing has a time.", required=True),
        col("last_at_ms", "bigint", "Of the last thing that belongs to it.", required=True),
        col("status", "string", "Over: settled, and quiet for long enough.", required=True, values=INCIDENT_STATES),
        col("still", "string", "What has not ended where the evidence ends. Null: not known.", values=INCIDENT_STILL),
        col("expected", "boolean", "Normal work on purpose; it costs something all the same.", required=True),
        col("severity", "string", "Of its gravest symptom.", required=True, values=SEVERITIES),
        col("unit", "string", "What its cost counts; `resource` if both. Null in older rows.", values=COST_UNITS),
        col("cost_seconds", "double", "Resource-seconds of its rebalances; null: of none known."),
        col("cost_lower_seconds", "double", ""),
        col("cost_upper_seconds", "double", "Null if any is unbounded."),
        col("cost_likely_lower_seconds", "double", "Nine of ten truths lie between this and …"),
        col("cost_likely_upper_seconds", "double", "… this."),
        col("title", "string", "One sentence, without a full stop.", required=True),
        col("story", "string", "What happened, what it did, how it stands.", required=True),
        col("advice", "string", "What to do."),
        col(
            "chain",
            "array<struct<at_ms:bigint,what:string,evidence:array<string>>>",
            "From the cause to the last consequence, by time.",
            required=True,
        ),
        EVIDENCE,
    ),
    (
        Law("names its evidence", "size(evidence) >= 1"),
        Law("ends after it begins", "first_at_ms <= last_at_ms"),
        Law("cost bounds in order", "cost_lower_seconds <= cost_seconds and cost_seconds <= cost_upper_seconds"),
        Law(
            "likely cost inside its bounds",
            "cost_lower_seconds <= cost_likely_lower_seconds and cost_likely_lower_seconds <= cost_seconds "
            "and cost_seconds <= cost_likely_upper_seconds and cost_likely_upper_seconds <= cost_upper_seconds",
        ),
    ),
)

GOLD_MARK = Table(
    "gold.mark",
    "A deploy or a change of configuration, to be drawn on time lines.",
    ("cluster_id", "mark_id"),
    (
        CLUSTER,
        col("mark_id", "string", "From cluster, time, source, scope and text.", required=True),
        col("at_ms", "bigint", "", required=True),
        col(
            "source",
            "string",
            "`evidence`: found there; `told`: made by `mark`.",
            required=True,
            values=("evidence", "told"),
        ),
        col("text", "string", "", required=True),
        col("scope", "string", "A group, or a pattern of groups; `*` is all.", required=True),
        col("evidence", "array<string>", "Empty for a mark that `mark` made.", required=True),
    ),
)

RESPONSE_KINDS = ("acknowledged", "silenced")

GOLD_RESPONSE = Table(
    "gold.response",
    "An answer to incidents: one acknowledged, or alerts silenced. Rows are only added, by `ack`, `silence` and the "
    "app; they need no run to be seen.",
    ("response_id",),
    (
        col("response_id", "string", "From all other columns.", required=True),
        col("kind", "string", "", required=True, values=RESPONSE_KINDS),
        col("cluster_id", "string", "Of the incident; of a silence, null for all clusters."),
        col("incident_id", "string", "What was acknowledged; the first acknowledgement by `at_ms` stands."),
        col("pattern", "string", "What was silenced: a shell pattern of groups, culprits or an incident's id."),
        col("by", "string", "Who.", required=True),
        col("at_ms", "bigint", "When.", required=True),
        col("until_ms", "bigint", "When a silence ends (exclusive)."),
        col("reason", "string", "Why."),
    ),
    (Law("a silence has an end", "kind <> 'silenced' or (until_ms is not null and until_ms >= at_ms)"),),
)

GOLD_WHATIF = Table(
    "gold.whatif",
    "What one change of settings would have saved one group, by replay of its latest rebalances (docs/whatif.md).",
    ("cluster_id", "group_id", "place"),
    (
        CLUSTER,
        GROUP,
        col("place", "int", "1 is the largest saving of the group.", required=True),
        col("settings", "array<string>", "`name=value`; empty where nothing is predicted.", required=True),
        col("saved_seconds", "double", "Partition- or task-seconds, median of the runs; below 0 it costs more."),
        col("saved_lower_seconds", "double", ""),
        col("saved_upper_seconds", "double", ""),
        col("cost_seconds", "double", "What the replay under these settings costs, median of the runs."),
        col("cost_lower_seconds", "double", ""),
        col("cost_upper_seconds", "double", ""),
        col("measured_seconds", "double", "Standing still in the replayed rebalances, as measured."),
        col("beyond_pauses_seconds", "double", "Of it, what is no pause in gold.movement (docs/whatif.md)."),
        col("rebalances", "int", "Of the replay under these settings."),
        col("runs", "int", "Replays that each of these numbers is of: 21 for the 20 costliest groups, else 3."),
        col("rebalances_replayed", "int", "The group's latest, at most 200.", required=True),
        col("from_ms", "bigint", "Start of the first rebalance replayed."),
        col("until_ms", "bigint", "End of the evidence."),
        col("fit_rebalances", "double", "Share of the rebalances that come out again under the settings in force."),
        col("fit_causes", "double", "Share of their causes."),
        col("in_force", "array<string>", "`name=value` that these settings were; without those that do not show."),
        col("client_libraries", "array<string>", "Those that members may use; null where one's may be any."),
        col("why", "string", "The answer in words, or why there is none.", required=True),
    ),
    (
        Law("saved bounds in order", "saved_lower_seconds <= saved_seconds and saved_seconds <= saved_upper_seconds"),
        Law("cost bounds in order", "cost_lower_seconds <= cost_seconds and cost_seconds <= cost_upper_seconds"),
    ),
)
