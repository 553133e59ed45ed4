"""Says what holds a reassignment up, and what an operator would type about it. Nothing is ever run by us."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from rebalance_audit.domain.reassign.model import Reassignment

BLOCKER_PHRASES = {
    "adding_and_removing_overlap": "a broker was to be added and removed at once",
    "no_leader": "a partition had no leader",
    "broker_down": "a broker was down or fenced",
    "old_replica_out_of_sync": "a replica that stays was not in sync",
    "disk_failed": "the disk with a new copy failed",
    "throttle": "the throttle held up copying",
    "replica_not_fetching": "a replica did not get in sync",
    "controller_unavailable": "there was no active controller",
    "unknown": "cause not known",
}
"""What held a reassignment up, whichever brokers it was."""
_LEGAL_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def stands_still(r: Reassignment) -> bool:
    """Whether it is held up where evidence ends; one that goes on again is not, nor one that has ended."""
    return r.outcome == "open" and (r.stalled_since_ms is not None or r.blocked_by == "adding_and_removing_overlap")


def blocked(r: Reassignment) -> str:
    """The reason it is stalled, or was in its longest standstill, as a clause."""
    ids = ", ".join(str(b) for b in r.blocked_replicas)
    is_one, is_over = len(r.blocked_replicas) == 1, not stands_still(r)
    brokers = f"broker {ids}" if is_one else f"brokers {ids}"
    are = ("was" if is_one else "were") if is_over else "is" if is_one else "are"
    do = "did" if is_over else "does" if is_one else "do"
    match r.blocked_by:
        case "adding_and_removing_overlap":
            return f"{brokers} {are} being added and removed at once, which never ends"
        case "no_leader":
            return f"the partition {'had' if is_over else 'has'} no leader{f' (last in sync: {ids})' if ids else ''}"
        case "broker_down":
            is_new = set(r.blocked_replicas) <= set(r.adding_replicas)
            return f"{brokers}, {'where it should go' if is_new else 'which it keeps'}, {are} down or fenced"
        case "old_replica_out_of_sync":
            return f"the copies {'were' if is_over else 'are'} there, but {brokers}, which it keeps, {are} not in sync"
        case "disk_failed":
            return f"the disk of {brokers} with the new copy failed"
        case "throttle":
            verbs = "was throttled and did" if is_over else "is throttled and does"
            return f"copying to {brokers} {verbs} not catch up"
        case "replica_not_fetching":
            return f"{brokers} {are} up and {do} not get in sync"
        case "controller_unavailable":
            return f"there {'was' if is_over else 'is'} no active controller"
        case _:
            return f"evidence does not say what {'held' if is_over else 'holds'} it up"


def next_steps(r: Reassignment) -> list[str]:
    """Steps to take, the first thing first; empty when there is nothing to do."""
    if r.outcome != "open":
        return []
    brokers = ",".join(str(b) for b in r.blocked_replicas)
    topic = r.topic if is_legal_topic(r.topic) else "TOPIC"
    match r.blocked_by if r.stalled_since_ms is not None else None:
        case None:
            return []
        case "adding_and_removing_overlap":
            return [f"Cancel it, then ask again for the list you want: {cancel_command(r)}", execute_command(r)]
        case "no_leader":
            return [
                f"Bring back one of the last in-sync replicas ({brokers or 'see the ladder'}); if they are lost, "
                f"kafka-leader-election --bootstrap-server HOST:PORT --election-type unclean --topic {topic} "
                f"--partition {r.partition} loses what only they had."
            ]
        case "broker_down":
            return [f"Start broker {brokers}, or cancel the reassignment: {cancel_command(r)}"]
        case "old_replica_out_of_sync":
            return [
                f"Look why broker {brokers} does not keep up: its log, disk and network; restart it if a fetcher died."
            ]
        case "disk_failed":
            return [
                f"Mend or replace the disk of broker {brokers} and restart it, or cancel the reassignment: "
                f"{cancel_command(r)}"
            ]
        case "throttle":
            return [
                "Raise the throttle above what is produced: kafka-reassign-partitions --bootstrap-server HOST:PORT "
                "--reassignment-json-file plan.json --execute --additional --throttle BYTES_PER_SECOND"
            ]
        case "replica_not_fetching":
            return [
                f"Look at server.log of broker {brokers} for fetch errors of {r.name}, at its free disk space, "
                "and whether it reaches the leader; a restart of that broker restarts its fetchers."
            ]
        case "controller_unavailable":
            return ["Bring a majority of the controllers back; the reassignment goes on by itself."]
        case _:
            return [f"Look at the leader's and the new brokers' server.log for {r.name}."]


def cancel_command(r: Reassignment) -> str:
    """The command, with the JSON it needs."""
    return (
        f"echo '{plan_json([r])}' > cancel.json; kafka-reassign-partitions --bootstrap-server HOST:PORT "
        "--reassignment-json-file cancel.json --cancel"
    )


def execute_command(r: Reassignment) -> str:
    return (
        f"echo '{plan_json([r])}' > plan.json; kafka-reassign-partitions --bootstrap-server HOST:PORT "
        "--reassignment-json-file plan.json --execute"
    )


def plan_json(reassignments: Sequence[Reassignment]) -> str:
    """JSON for kafka-reassign-partitions; safe between a shell's single quotes, as legal names hold none."""
    return json.dumps(
        {
            "version": 1,
            "partitions": [
                {"topic": r.topic, "partition": r.partition, "replicas": list(r.target_replicas or ())}
                for r in reassignments
                if is_legal_topic(r.topic)
            ],
        }
    )


def is_legal_topic(name: str) -> bool:
    """Kafka takes no other names. Log lines can be forged; what they name must not end in a shell."""
    return _LEGAL_TOPIC.fullmatch(name) is not None
