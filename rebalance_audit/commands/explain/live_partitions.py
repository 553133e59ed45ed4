"""`explain --reassignment TOPIC -b HOST`: what brokers say about partitions now, and what only files can show."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING

from rebalance_audit.commands.options import CommandError, Output
from rebalance_audit.commands.output import json_text, write_rows
from rebalance_audit.domain.visible import visible

if TYPE_CHECKING:
    from ingest.live_partitions import LivePartitions
    from rebalance_audit.domain.reassign import ReassignmentHistory
    from rebalance_audit.domain.reassign.plan import ReassignmentPlan

COLUMNS = ("topic", "partition", "replicas", "isr", "leader", "not_in_sync", "away")
NOT_SAID = (
    "Brokers do not say here which replicas are being added or removed, since when, and what was before: give the "
    "metadata log of a node on this machine (--metadata DIR) or logs (--logs DIR), or ask for what runs now with "
    "kafka-reassign-partitions --bootstrap-server {address} --list."
)


def history_of_plan(config: Mapping[str, str], plan: ReassignmentPlan) -> ReassignmentHistory:
    """The present state of every partition of the plan, and the throttles, as far as brokers show them. Raises
    IngestError."""
    from ingest.live_partitions import LivePartitions
    from rebalance_audit.domain.reassign import ReassignmentHistory

    live = LivePartitions(config)
    topics = [topic for topic in sorted({move.topic for move in plan.moves}) if topic in live.topics]
    states = live.states(topics)
    return ReassignmentHistory(
        cluster_id=live.cluster_id,
        throttles=live.throttles(topics),
        replicas={name: state.replicas for name, state in states.items()},
        states=states,
        names_all_partitions=True,
        topic_names={topic: topic for topic in live.topics},
    )


def write(config: Mapping[str, str], target: str, output: Output) -> None:
    """Print the present state of partitions. Raises CommandError if there is no such topic or partition."""
    from ingest.live_partitions import LivePartitions

    live = LivePartitions(config)
    topic, partition = _named(live, target)
    states = {name: state for name, state in live.states([topic]).items() if partition in (None, name[1])}
    if not states:
        raise CommandError(f"Topic {topic} of cluster {live.cluster_id} has no partition {partition}; check the name.")
    there = live.brokers()
    rows = [
        {
            "topic": name, "partition": number, "replicas": state.replicas, "isr": state.isr, "leader": state.leader,
            "not_in_sync": [b for b in state.replicas if b not in state.isr],
            "away": [b for b in state.replicas if b not in there],
        }
        for (name, number), state in sorted(states.items())
    ]  # fmt: skip
    throttles = live.throttles([topic])
    not_said = NOT_SAID.format(address=live.address)
    if output is Output.JSON:
        shown = {
            "cluster_id": live.cluster_id, "partitions": rows, "not_said": not_said,
            "throttles": [{"resource": t.resource or "all", "name": t.name, "value": t.value} for t in throttles],
        }  # fmt: skip
        sys.stdout.write(json_text(shown) + "\n")
    elif output is Output.TABLE:
        lines = [f"{topic} of cluster {live.cluster_id}, now:"]
        for row in rows:
            leader = "no leader" if row["leader"] is None else f"leader {row['leader']}"
            lines.append(f"   {topic}-{row['partition']}  replicas {_ids(row['replicas'])}  {leader}{_missing(row)}")
        lines += [f"   throttle: {t.name} of {t.resource_type} {t.resource} is {t.value}" for t in throttles]
        lines.append(f"Not seen: {not_said}")
        sys.stdout.write("\n".join(map(visible, lines)) + "\n")
    else:
        write_rows(rows, COLUMNS, output)


def _named(live: LivePartitions, target: str) -> tuple[str, int | None]:
    """A topic, or TOPIC-PARTITION."""
    topic, dash, number = target.rpartition("-")
    if target in live.topics:
        return target, None
    if dash and number.isdigit() and topic in live.topics:
        return topic, int(number)
    close = get_close_matches(target, live.topics, n=5, cutoff=0.5)
    hint = f" Did you mean: {', '.join(close)}?" if close else " Check the name, and whether you may describe it."
    raise CommandError(f"Cluster {live.cluster_id} has no topic {target!r}.{hint}")


def _missing(row: Mapping[str, object]) -> str:
    out, away = row["not_in_sync"], row["away"]
    state = f", not in sync {_ids(out)}" if out else ", all in sync"
    return state + (f", of these brokers are away {_ids(away)}" if away else "")


def _ids(brokers: object) -> str:
    return json_text(brokers).replace(" ", "")
