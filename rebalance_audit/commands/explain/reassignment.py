"""`explain --reassignment`: what became of a partition's moves, from files. No Spark and no warehouse."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from rebalance_audit.commands.explain import live_partitions
from rebalance_audit.commands.meter import Progress
from rebalance_audit.commands.options import CommandError, Output
from rebalance_audit.commands.output import has_width, json_text, output_width, write_rows
from rebalance_audit.domain.visible import visible

if TYPE_CHECKING:
    from ingest.folders import EvidenceFolder
    from rebalance_audit.commands.explain.places import Places, Shown
    from rebalance_audit.domain.reassign import Reassignment, ReassignmentHistory

NAMED = 12


def explain_reassignment(target: str, places: Places, shown: Shown) -> None:
    """Print what became of a partition's or a topic's reassignments. Raises UsageError and CommandError."""
    from rebalance_audit.domain.publish.leader_moves import OFFSETS_TOPIC

    if places.is_brokers_alone:
        live_partitions.write(places.client_config(), target, shown.output)
        return
    folder, history = places.reassignments(quiet=shown.quiet)
    found = chosen(history, target)
    if shown.last_ms is not None and history.seen_until_ms is not None:
        since_ms = history.seen_until_ms - shown.last_ms
        found = [r for r in found if r.ended_at_ms is None or r.ended_at_ms >= since_ms]
    found = found[-shown.latest :] if shown.latest is not None else found
    groups = coordinated(folder) if any(r.topic == OFFSETS_TOPIC for r in found) else None
    write(history, found if shown.oldest_first else found[::-1], shown.output, groups)


def history_of(folder: EvidenceFolder, progress: Progress) -> ReassignmentHistory:
    """Every reassignment in a folder's metadata log and logs."""
    from ingest.evidence import read_evidence
    from rebalance_audit.domain.gather.groups import gather
    from rebalance_audit.domain.reassign.history import reassignment_history
    from rebalance_audit.domain.reassign.lines import LogLines, settled

    evidence = read_evidence(folder)
    nodes = sorted({node for node, _ in folder.log_files})
    lines = []
    if nodes:
        progress(0, 0, "clocks of nodes")
        zones = dict.fromkeys(nodes, folder.log_time_zone) if folder.log_time_zone else {}
        clocks = gather(
            evidence.records(), evidence.lines(), zones, group_id=""
        ).clocks  # from all groups; none is shown
        lines = settled(LogLines().read(evidence.lines()).lines, clocks)
    progress(0, 0, "metadata log")
    return reassignment_history(evidence.metadata(), lines, cluster_id=folder.cluster_id)


def chosen(history: ReassignmentHistory, target: str) -> list[Reassignment]:
    """The reassignments of a topic or of `TOPIC-PARTITION`, in order. Raises CommandError with what there is."""
    found = [r for r in history.reassignments if target in (r.topic, r.name)]
    if found:
        return found
    place = f"No reassignment of {target!r} is in the evidence of cluster {history.cluster_id}"
    names = sorted({r.name for r in history.reassignments})
    if not names:
        raise CommandError(f"{place}, nor of any other partition; give the metadata log or the controllers' logs.")
    close = get_close_matches(target, names, n=NAMED, cutoff=0.5)
    if close:
        raise CommandError(f"{place}. Did you mean: {', '.join(close)}?")
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    raise CommandError(f"{place}. There are: {', '.join(names[:NAMED])}{more}.")


def coordinated(folder: EvidenceFolder) -> dict[int, list[str]]:
    """Partition of __consumer_offsets -> the groups whose records are in it: their coordinator is its leader."""
    from ingest.evidence import read_evidence
    from rebalance_audit.domain.publish.leader_moves import OFFSETS_TOPIC
    from rebalance_audit.domain.records import record_group_id

    found: dict[int, set[str]] = {}
    for record in read_evidence(folder).records(lambda topic, key: topic == OFFSETS_TOPIC and key is not None):
        if record.topic == OFFSETS_TOPIC and (group_id := record_group_id(record.key or b"")):
            found.setdefault(record.partition, set()).add(group_id)
    return {partition: sorted(groups) for partition, groups in found.items()}


def write(
    history: ReassignmentHistory,
    found: Sequence[Reassignment],
    output: Output,
    groups: Mapping[int, Sequence[str]] | None = None,
) -> None:
    """Print these reassignments. `groups`: by partition of __consumer_offsets, the groups that it coordinates."""
    from rebalance_audit.domain.detect.wording import folded
    from rebalance_audit.domain.explain.layout import hanging
    from rebalance_audit.domain.explain.reassignment import explain, unzoned
    from rebalance_audit.domain.reassign import reassignment_row, step_rows
    from rebalance_audit.domain.tables import GOLD_REASSIGNMENT

    if output is Output.TABLE:
        edge = output_width() if has_width(sys.stdout) else None
        texts = []
        for r in found:
            lines = explain(r, history.seen_until_ms)
            if met := (groups or {}).get(r.partition):
                moved = "moved with it" if r.leader_changes else "stayed"
                lines.append(f"   the coordinator of {folded(met)} {moved}")
            lines = [visible(line) for line in lines]
            if edge is not None:
                lines = [part for line in lines for part in hanging(line, edge, 6)]
            texts.append("\n".join(lines))
        texts += ["\n".join(map(visible, unzoned(history)))] if history.unzoned_nodes else []
        sys.stdout.write("\n\n".join(texts) + "\n")
    elif output is Output.JSON:
        rows: list[dict[str, Any]] = [reassignment_row(r) | {"steps": step_rows(r)} for r in found]
        shown = {"cluster_id": history.cluster_id, "seen_until_ms": history.seen_until_ms, "reassignments": rows}
        sys.stdout.write(json_text(shown) + "\n")
    else:
        write_rows(map(reassignment_row, found), [column.name for column in GOLD_REASSIGNMENT.columns], output)
