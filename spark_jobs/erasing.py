"""Takes one group out of every table, whatever layer it is in, and out of all that is kept beside the tables. A whole
cluster: `erasing_clusters`.

Removing rows is no news: no stage works again because of it. So everything that follows from the group is removed, too,
and every stage must be up to date before.

Until an erasure ends a note keeps that it began, the digest of the group's id and how many rows are gone. So the same
call finishes one that was interrupted, also if no table has the group any more.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rebalance_audit.alerts.state import locked, read_state, state_of, write_state
from rebalance_audit.alerts.watchdog import STATE as OF_SOURCES
from rebalance_audit.domain import tables
from rebalance_audit.domain.decode import OFFSETS_TOPIC
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.erased import digest_of, say_erased
from rebalance_audit.warehouse.just_in import NOTES as JUST_IN
from rebalance_audit.warehouse.known_footers import NOTES as FOOTERS
from rebalance_audit.warehouse.warehouse import Warehouse, WarehouseError
from spark_jobs.belonging import NOTES, belonging
from spark_jobs.decoding.log_files import NOTE as LOG_FILE_ENDS
from spark_jobs.kept_votes import NOTE as CLOCK_VOTES
from spark_jobs.landed import LandedFiles
from spark_jobs.metadata_log import OF_CONTROLLERS
from spark_jobs.plan import PUBLISH, STAGES

RECORD = "gold.erasure"
UNDER_WAY = "erasing-"
"""What the names of notes of erasures that have not ended begin with."""
SENT = ("alerts", OF_SOURCES)
"""States of what was sent to whom. They stand beside the notes, and what they hold is not found again by work."""
_NOUNS = ("record", "log_line", "source")
_OF_NAMES = r"[\w.-]"
"""The characters of nearly all names of groups and topics: `orders-2` does not name `orders`."""
_OF_A_WORKER = "-(configs|offsets|statuses|shared-admin)"
"""What a Connect worker appends to its group's name to name its own clients. Source: ConnectDistributed.java."""


def refuse_unfinished(warehouse: Warehouse) -> None:
    """Raises WarehouseError if any stage has something to do: it would bring back what is removed, or miss it."""
    from spark_jobs.quarantine import batch_of, held
    from spark_jobs.stages.stage import has_changes, is_due

    there = {(f"bronze.{noun}", batch_of(file)) for noun in _NOUNS for file in warehouse.landed(noun)}
    if aside := sorted({r["batch"] for r in held(warehouse) if (r["table_name"], r["batch"]) in there}):
        raise WarehouseError(
            f"{warehouse.location} has evidence in quarantine ({', '.join(aside)}), which may hold the group; release "
            "it (`check --release`), or delete its landing files."
        )
    unfinished = [noun for noun in _NOUNS if LandedFiles(warehouse, noun).new]
    unfinished += [s.name for s in STAGES if s.reads and s is not PUBLISH and is_due(warehouse, s)]
    newest = {name: -1 if (v := warehouse.version(name)) is None else v for name in PUBLISH.reads}
    if has_changes(warehouse, warehouse.publication().get("consumed", {}), newest):
        unfinished.append(PUBLISH.name)
    if unfinished:
        raise WarehouseError(
            f"{warehouse.location} has evidence that no run has worked through ({', '.join(unfinished)}); run "
            f"`rebalance-audit run -w {warehouse.location}` first, or try again in a moment where `watch` does that."
        )


def clusters_of(warehouse: Warehouse, group_id: str) -> list[str]:
    """The clusters with rows of the group, or with an erasure of it that was interrupted."""
    return sorted(
        begun_in(warehouse, "group", digest_of(group_id))
        | {
            row["cluster_id"]
            for table in ("silver.group_event", "silver.commit_mark", "gold.rebalance")
            for row in warehouse.read(table, ["cluster_id"], "group_id = ?", [group_id]).to_pylist()
        }
    )


def begun_in(warehouse: Warehouse, subject_type: str, digest: str) -> set[str]:
    """The clusters in which an erasure of this subject began and has not ended."""
    begun = [warehouse.recall(name) for name in warehouse.notes() if name.startswith(UNDER_WAY)]
    return {
        note["cluster_id"]
        for note in begun
        if note.get("subject_sha256") == digest and note.get("subject_type", "group") == subject_type
    }


def erase(
    warehouse: Warehouse, cluster_id: str, group_id: str, *, at_ms: int, by: str, reason: str | None
) -> dict[str, Any]:
    """Remove the group; the row of gold.erasure that notes it. For the one who holds the lease."""
    return erase_subject(
        warehouse, ("group", cluster_id, digest_of(group_id)), {"at_ms": at_ms, "by": by, "reason": reason},
        say=lambda erasure_id: say_erased(warehouse, cluster_id, digest_of(group_id), erasure_id),
        take_out=lambda is_gone: _take_out(warehouse, cluster_id, group_id, is_gone),
        forget_beside=lambda: _forget_beside(warehouse, cluster_id, group_id),
    )  # fmt: skip


def erase_subject(
    warehouse: Warehouse,
    subject: tuple[str, str, str],
    asked: Mapping[str, Any],
    *,
    say: Callable[[str], None],
    take_out: Callable[[Callable[[str, int], None]], None],
    forget_beside: Callable[[], None],
) -> dict[str, Any]:
    """What every erasure does: a note says that it began until all is gone, and gold.erasure what was removed.
    `subject`: its type, its cluster, and the digest of its id. `say` gets the id of the erasure before the first row
    goes, `take_out` what counts the rows of a table."""
    subject_type, cluster_id, digest = subject
    key = f"{cluster_id}\n{digest}" if subject_type == "group" else f"{cluster_id}\n{subject_type}\n{digest}"
    begun: dict[str, Any] = {
        "erasure_id": hashlib.sha256(f"{key}\n{asked['at_ms']}".encode()).hexdigest()[:16],
        "cluster_id": cluster_id,
        "subject_type": subject_type,
        "subject_sha256": digest,
        "at_ms": asked["at_ms"],
        "gone": {},
    }
    note = UNDER_WAY + hashlib.sha256(key.encode()).hexdigest()[:16]
    begun |= warehouse.recall(note)
    gone = begun["gone"]

    def is_gone(table: str, count: int) -> None:
        if count:
            gone[table] = gone.get(table, 0) + count
            warehouse.remember(note, begun)

    warehouse.remember(note, begun)
    say(begun["erasure_id"])
    warehouse.state_act("erase", erasure_id=begun["erasure_id"])
    take_out(is_gone)
    warehouse.log_acts()
    forget_files(warehouse)
    forget_beside()
    row = {
        **{name: begun[name] for name in ("erasure_id", "cluster_id", "at_ms", "subject_type", "subject_sha256")},
        "by": asked["by"], "reason": asked["reason"], "row_count": sum(gone.values()),
        "tables": [{"table": table, "row_count": count} for table, count in sorted(gone.items())],
    }  # fmt: skip
    if not warehouse.read(RECORD, ["erasure_id"], "erasure_id = ?", [row["erasure_id"]]).num_rows:
        warehouse.append(RECORD, rows_to_table(RECORD, [row]))
    warehouse.forget(note)
    return row


def _take_out(warehouse: Warehouse, cluster_id: str, group_id: str, is_gone: Callable[[str, int], None]) -> None:
    """Remove the rows of every table; `is_gone` gets the table and how many, at once."""
    homes = belonging(warehouse, None)
    routes = homes.routes.get(cluster_id, {})
    own = [route for route, groups in routes.items() if groups == {group_id}]
    topics = [route.removeprefix("topic:") for route in own if route.startswith("topic:")]
    nodes = [route.removeprefix("node:") for route in own if route.startswith("node:")]
    refs = [ref for ref, groups in homes.lines.get(cluster_id, {}).items() if groups == {group_id}]
    named = naming(group_id)

    def take(table: str, goes: str, params: Sequence[Any]) -> None:
        is_gone(table, warehouse.rewrite(table, f"cluster_id = ? AND ({goes})", [cluster_id, *params]))

    of_group = warehouse.read("silver.group_event", ["ref"], "cluster_id = ? AND group_id = ?", [cluster_id, group_id])
    lines = [ref for ref in [*of_group["ref"].to_pylist(), *refs] if ref.startswith("log:")]
    places = _places(lines)
    _redact_incidents(warehouse, cluster_id, group_id)
    take("gold.incident", "list_contains(group_ids, ?)", [group_id])
    key = group_id.encode()
    take(
        "bronze.record",
        "(topic = ? AND coalesce(key[3:?] = ?::BLOB, false)) OR list_contains(?, topic)",
        [OFFSETS_TOPIC, 4 + len(key), _framed(key), topics],
    )
    take(
        "bronze.log_line",
        f"list_contains(?, node || chr(10) || file_id || chr(10) || byte) "
        f"OR (regexp_matches(text, ?) AND NOT {OF_CONTROLLERS}) "
        "OR (list_contains(?, node) AND regexp_matches(text, ?))",
        [places, named, nodes, naming(group_id, _OF_A_WORKER)],
    )
    take(
        "silver.group_event",
        "group_id IS NOT DISTINCT FROM ? OR list_contains(?, topic) OR list_contains(?, ref) "
        "OR (source_kind = 'log' AND starts_with(kind, 'worker_') AND group_id IS NULL AND list_contains(?, node)) "
        "OR (group_id IS NULL AND regexp_matches(coalesce(text, ''), ?))",
        [group_id, topics, refs, nodes, named],
    )
    take("silver.undecoded", "contains(hex(coalesce(raw, ''::BLOB)), ?)", [_framed(key).hex().upper()])
    take("silver.finding", "group_id IS NOT DISTINCT FROM ? OR subject = ? OR regexp_matches(title, ?)",
         [group_id, group_id, named])  # fmt: skip
    take("gold.finding", "group_id IS NOT DISTINCT FROM ? OR subject = ? OR regexp_matches(title, ?)",
         [group_id, group_id, named])  # fmt: skip
    take("gold.mark", "scope = ? OR regexp_matches(text, ?)", [group_id, named])
    for table in tables.TABLES:
        names = {column.name for column in table.columns}
        if {"cluster_id", "group_id"} <= names:
            take(table.name, "group_id IS NOT DISTINCT FROM ?", [group_id])
    answers = "pattern = ? OR regexp_matches(coalesce(reason, ''), ?)"
    is_gone("gold.response", warehouse.rewrite("gold.response", answers, [group_id, named]))
    examples = "regexp_matches(array_to_string(examples, chr(10)), ?)"
    is_gone("gold.check", warehouse.rewrite("gold.check", examples, [named]))


def _redact_incidents(warehouse: Warehouse, cluster_id: str, group_id: str) -> None:
    """Incidents that other groups share stay, without what belongs to this group: its ids, its part of the cost, its
    steps."""
    where = "cluster_id = ? AND list_contains(group_ids, ?) AND len(group_ids) > 1"
    shared = warehouse.read("gold.incident", None, where, [cluster_id, group_id]).to_pylist()
    if not shared:
        return
    mine, of_mine = "cluster_id = ? AND group_id = ?", [cluster_id, group_id]
    rebalances = set(warehouse.read("gold.rebalance", ["rebalance_id"], mine, of_mine)["rebalance_id"].to_pylist())
    findings = set(warehouse.read("gold.finding", ["finding_id"], mine, of_mine)["finding_id"].to_pylist())
    names = [f"resource_seconds_{bound}" for bound in ("estimate", "lower", "upper")]
    costs = {
        row["rebalance_id"]: [row[name] for name in names]
        for row in warehouse.read(
            "gold.rebalance", ["rebalance_id", *names], "cluster_id = ?", [cluster_id]
        ).to_pylist()
    }
    hidden = _alone(group_id)
    for row in shared:
        row["group_ids"] = [g for g in row["group_ids"] if g != group_id]
        row["rebalance_ids"] = [r for r in row["rebalance_ids"] if r not in rebalances]
        row["finding_ids"] = [f for f in row["finding_ids"] if f not in findings]
        row["chain"] = [step for step in row["chain"] if not hidden.search(step["what"])]
        for name in ("title", "story", "advice"):
            if row[name] is not None:
                row[name] = hidden.sub("an erased group", row[name])
        for name, at in (("cost_seconds", 0), ("cost_lower_seconds", 1), ("cost_upper_seconds", 2)):
            known = [costs[r][at] for r in row["rebalance_ids"] if r in costs]
            row[name] = None if not known or (at == 2 and None in known) else sum(c for c in known if c is not None)
    warehouse.rewrite(
        "gold.incident",
        "cluster_id = ? AND list_contains(?, incident_id)",
        [cluster_id, [row["incident_id"] for row in shared]],
    )
    warehouse.put_back("gold.incident", rows_to_table("gold.incident", shared))


def forget_files(warehouse: Warehouse) -> None:
    """Landing files that bronze holds, and files of older versions."""
    for noun in _NOUNS:
        warehouse.forget_landed(noun, LandedFiles(warehouse, noun).taken, keep_hours=0)
    for table in tables.TABLES:
        warehouse.delete_unused(table.name, keep_hours=0)


def _forget_beside(warehouse: Warehouse, cluster_id: str, group_id: str) -> None:
    """In notes of stages, and in what was sent to whom."""
    forget_messages(warehouse, cluster_id, group_id)
    for name in warehouse.notes():
        if name in SENT or name.startswith(UNDER_WAY):
            continue
        note = warehouse.recall(name)
        if not note:
            warehouse.forget(name)  # it may be damaged, and name the group
        elif name == "reconstruct":
            for groups in note.get("topics", {}).get(cluster_id, {}).values():
                groups[:] = [group for group in groups if group != group_id]
            note.get("lines", {}).get(cluster_id, {}).pop(group_id, None)
            warehouse.remember(name, note)
        elif name == "floors":
            note["groups"] = [place for place in note["groups"] if place != [cluster_id, group_id]]
            warehouse.remember(name, note)
        elif (
            name in (*NOTES, *FOOTERS, LOG_FILE_ENDS)
            or name.startswith((JUST_IN, CLOCK_VOTES))
            or is_named(group_id, note)
        ):
            warehouse.forget(name)  # what a stage remembers costs only work when it is lost


def forget_messages(warehouse: Warehouse, cluster_id: str, group_id: str | None) -> None:
    """Remove the group's name, or all of a cluster, from the states of what was sent to whom. An open incident that
    others share is sent once more without it; of one that is gone nothing is sent: a receiver lets it end by its own
    time limit."""
    for name in SENT:
        if name not in warehouse.notes():
            continue
        place = state_of(warehouse.location, name)
        with locked(place):
            state = read_state(place)
            for delivered in state["delivered"].values():
                for incident_id, entry in list(delivered.items()):
                    is_of_cluster = entry.get("incident", {}).get("cluster_id") == cluster_id
                    if is_of_cluster and (group_id is None or is_named(group_id, entry)):
                        del delivered[incident_id]
            write_state(place, state)


def is_named(group_id: str, content: Any) -> bool:
    """Whether the name stands by itself anywhere in this JSON value."""
    if isinstance(content, str):
        return _alone(group_id).search(content) is not None
    if isinstance(content, dict):
        return any(is_named(group_id, each) for each in (*content, *content.values()))
    return isinstance(content, list) and any(is_named(group_id, each) for each in content)


def _alone(group_id: str) -> re.Pattern[str]:
    """Finds the name where it stands by itself, also before the full stop of a sentence."""
    return re.compile(rf"(?<!{_OF_NAMES}){re.escape(group_id)}(?![\w-]|[.]{_OF_NAMES})")


def naming(group_id: str, after: str = "") -> str:
    """RE2 that finds the name where it stands by itself, or followed by no more than `after`."""
    return f"(^|[^A-Za-z0-9_.-]){re.escape(group_id)}{after}($|[^A-Za-z0-9_.-]|[.]($|[^A-Za-z0-9_-]))"


def _places(refs: Sequence[str]) -> list[str]:
    found = []
    for ref in refs:
        stem, _, byte = ref.removeprefix("log:").rpartition("@")
        file, _, file_id = stem.rpartition("#")
        found.append("\n".join((file.partition("/")[0], file_id, byte)))
    return found


def _framed(key: bytes) -> bytes:
    """What every key of a group's records begins with, after its two bytes of version."""
    return len(key).to_bytes(2, "big") + key
