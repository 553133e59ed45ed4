"""`explain`: one group, from the evidence that is given. No Spark and no warehouse."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from rebalance_audit.commands.meter import meter
from rebalance_audit.commands.options import CommandError, Output, UsageError
from rebalance_audit.commands.output import json_text, note, output_width, styled, write_rows
from rebalance_audit.domain.kinds import RebalanceKind
from rebalance_audit.domain.visible import visible

if TYPE_CHECKING:
    from ingest.readings import SourceReading
    from rebalance_audit.commands.explain.group_reading import GroupReading
    from rebalance_audit.commands.explain.places import Places, Shown
    from rebalance_audit.domain.detect import LimitsOf
    from rebalance_audit.domain.gather.clocks import NodeClock
    from rebalance_audit.domain.gather.groups import Gathered
    from rebalance_audit.domain.incidents import Incident
    from rebalance_audit.domain.metadata import SourceMetadata
    from rebalance_audit.domain.model import CommitMark, Finding, Rebalance
    from rebalance_audit.domain.publish.leader_moves import LeaderMove

SHOWN_PROBLEMS = 6
SHOWN_MOVES = 12
WITHOUT_LOGS = "no logs were given (--logs), so starts and many causes are inferred from records alone"


def explain_group(group: str, places: Places, shown: Shown) -> None:
    """Print why a group of a cluster or an evidence folder rebalanced. Raises UsageError and CommandError."""
    from rebalance_audit.commands.explain.group_reading import from_cluster, from_folder

    if places.metadata:
        raise UsageError("--metadata is for reassignments; a group is explained without it.")
    with meter("explain", quiet=shown.quiet, unit="items") as progress:
        if places.bootstrap:
            reading = from_cluster(
                places.client_config(), group, progress, logs=places.log_folders,
                log_time_zone=places.log_time_zone, connect_topics=places.connect_topics,
            )  # fmt: skip
        else:
            reading = from_folder(places.folder(), group, progress)
        answer = answer_for(reading, shown.limits)
    say(group, answer, answer.moves, shown)


def explain_stored_group(group: str, location: str, cluster_id: str | None, shown: Shown) -> None:
    """Print why a group of a warehouse rebalanced. Raises UsageError and CommandError."""
    from rebalance_audit.commands.explain.stored import is_just_in, stored_answer

    answer, moves = stored_answer(location, group, cluster_id)
    say(group, answer, moves, shown)
    if is_just_in(location, group, answer.rebalances[0].cluster_id):
        note(
            "`watch` knows news of this group that the tables do not hold yet: the app shows them now.",
            quiet=shown.quiet,
        )


def say(group: str, answer: GroupAnswer, moves: Sequence[LeaderMove], shown: Shown) -> None:
    from rebalance_audit.domain.explain import group as text
    from rebalance_audit.domain.publish.leader_moves import leader_move_row

    if shown.last_ms is not None:
        answer = answer.latest(shown.last_ms)
        if not answer.rebalances:
            raise CommandError(
                f"Group {group!r} has no rebalance in that last part of the evidence; give a longer --last."
            )
    explanation = text.explain(
        group,
        answer.rebalances,
        answer.findings,
        not_seen=answer.not_seen,
        seen_from_ms=answer.seen_from_ms,
        seen_until_ms=answer.seen_until_ms,
        latest=shown.latest,
        oldest_first=shown.oldest_first,
        incidents=answer.incidents,
        now_ms=time.time_ns() // 1_000_000,
    )
    if shown.output is Output.TABLE:
        sys.stdout.write(styled(text.explain_text(explanation, output_width(), bounds=shown.bounds)))
        sys.stdout.writelines(line + "\n" for line in moves_text(moves, output_width()))
    elif shown.output is Output.JSON:
        listed = {"leader_moves": [leader_move_row(move) for move in moves]}
        sys.stdout.write(json_text(text.explain_dict(explanation) | listed) + "\n")
    else:
        from rebalance_audit.domain.model import to_row
        from rebalance_audit.domain.tables import GOLD_REBALANCE

        columns = [column.name for column in GOLD_REBALANCE.columns]
        shown_rebalances = answer.rebalances if shown.latest is None else answer.rebalances[-shown.latest :]
        rows = [{name: row[name] for name in columns} for row in map(to_row, shown_rebalances)]
        write_rows(rows, columns, shown.output)


def moves_beside(
    cluster_id: str,
    metadata: Callable[[], Iterator[SourceMetadata]] | None,
    rebalances: Iterable[Rebalance],
    groups: Collection[str],
) -> list[LeaderMove]:
    """Changes of leader beside these rebalances of these groups; none without the metadata log."""
    if metadata is None:
        return []
    from rebalance_audit.domain.publish.leader_moves import OFFSETS_TOPIC, Rebalanced, leader_moves
    from rebalance_audit.domain.reassign import kraft_history

    history = kraft_history(metadata(), cluster_id=cluster_id)
    return leader_moves(
        history.elections,
        [
            Rebalanced(
                group_id=r.group_id, rebalance_id=r.rebalance_id, at_ms=at_ms, trigger=r.trigger,
                partitions=frozenset(
                    (m.topic, m.partition) for m in r.movements if m.topic and m.partition is not None
                ),
            )
            for r in rebalances
            if r.kind == RebalanceKind.REBALANCE
            and (at_ms := r.started_at_ms or r.joined_at_ms or r.assigned_at_ms) is not None
        ],
        groups,
        offsets_partitions=sum(1 for topic, _ in history.replicas if topic == OFFSETS_TOPIC),
        reassigned=history.spans(),
        replicas={number: brokers for (topic, number), brokers in history.replicas.items() if topic == OFFSETS_TOPIC},
    )  # fmt: skip


def moves_text(moves: Sequence[LeaderMove], width: int) -> Iterable[str]:
    from rebalance_audit.domain.explain.layout import hanging
    from rebalance_audit.domain.publish.leader_moves import sentence

    if not moves:
        return
    yield ""
    yield "Leaders that moved beside it:"
    for move in moves[-SHOWN_MOVES:]:
        yield from hanging(visible(f"   {sentence(move)}"), width, 6)
        yield from hanging(visible(f"      evidence  {', '.join(move.evidence)}"), width, 16)
    if len(moves) > SHOWN_MOVES:
        yield f"   and {len(moves) - SHOWN_MOVES} earlier ones"


class GroupAnswer:
    """The rows that `domain.explain` puts into words."""

    def __init__(
        self,
        rebalances: Sequence[Rebalance],
        findings: Sequence[Finding],
        not_seen: Sequence[str],
        seen_from_ms: int | None,
        seen_until_ms: int | None,
        incidents: Sequence[Incident] = (),
        marks: Sequence[CommitMark] = (),
        moves: Sequence[LeaderMove] = (),
    ) -> None:
        self.incidents, self.marks, self.moves = incidents, marks, moves
        self.rebalances, self.findings, self.not_seen = rebalances, findings, not_seen
        self.seen_from_ms, self.seen_until_ms = seen_from_ms, seen_until_ms

    def latest(self, last_ms: int) -> GroupAnswer:
        """The same answer, for the last milliseconds of evidence alone."""
        from rebalance_audit.domain.numbers import happened_at_ms

        if self.seen_until_ms is None:
            return self
        since_ms = self.seen_until_ms - last_ms
        return GroupAnswer(
            [r for r in self.rebalances if (at_ms := happened_at_ms(r)) is None or at_ms >= since_ms],
            [f for f in self.findings if f.last_seen_at_ms >= since_ms],
            self.not_seen, self.seen_from_ms, self.seen_until_ms,
            [i for i in self.incidents if i.last_at_ms >= since_ms],
        )  # fmt: skip


def answer_for(reading: GroupReading, limits: LimitsOf | None = None) -> GroupAnswer:
    """Read, reconstruct, measure and judge, by these limits or the default ones. Raises CommandError if the group is
    not in evidence."""
    from rebalance_audit.commands.explain.group_reading import not_found
    from rebalance_audit.domain.detect import DEFAULT_OF, detect_group
    from rebalance_audit.domain.gather.groups import gather
    from rebalance_audit.domain.incidents import ClusterRows, incidents_of
    from rebalance_audit.domain.measure.pauses import measure
    from rebalance_audit.domain.numbers import happened_at_ms
    from rebalance_audit.domain.reconstruct import reconstruct

    gathered = gather(reading.records(), reading.lines(), reading.zones, reading.group_id)
    if not gathered.groups:
        raise not_found(reading)
    (evidence,) = gathered.groups
    found = reconstruct(evidence)
    rebalances: list[Rebalance] = [measure(r) for r in found.rebalances]
    if not rebalances and not found.connect_tasks:
        raise CommandError(
            f"Group {reading.group_id!r} of cluster {reading.cluster_id} has no rebalance in evidence: it only commits "
            f"offsets (assigned, not subscribed), or retention took its records."
        )
    sources = reading.sources()
    times = [s.from_at_ms for s in sources if s.from_at_ms is not None]
    ends = [s.to_at_ms for s in sources if s.to_at_ms is not None]
    ends += [line.at_ms for line in evidence.lines if line.at_ms is not None]
    until_ms = time.time_ns() // 1_000_000 if reading.is_live else max(ends, default=None)
    own = (limits or DEFAULT_OF)(reading.cluster_id, reading.group_id)
    findings = detect_group(rebalances, found.connect_tasks, own, seen_until_ms=until_ms)
    moves = moves_beside(reading.cluster_id, reading.metadata, rebalances, [reading.group_id])
    incidents, _ = incidents_of(
        ClusterRows(
            cluster_id=reading.cluster_id,
            now_ms=until_ms or max((happened_at_ms(r) or 0 for r in rebalances), default=0),
            groups={reading.group_id: rebalances},
            first_places={reading.group_id: 0},
            tasks=found.connect_tasks,
            leader_moves=moves,
            findings=[(reading.group_id, f) for f in findings],
            limits=lambda group_id: own,
        )
    )
    return GroupAnswer(
        rebalances, findings, not_seen(reading, gathered), min(times, default=None), until_ms, incidents,
        evidence.marks, moves,
    )  # fmt: skip


def not_seen(reading: GroupReading, gathered: Gathered) -> list[str]:
    """Gaps of the answer, as sentences without their full stop."""
    from rebalance_audit.commands.explain.group_reading import problems_of

    sources = reading.sources()
    unseen = list(_deleted(sources))
    if not reading.log_nodes:
        unseen.append(WITHOUT_LOGS)
    if gathered.undecoded:
        first = gathered.undecoded[0]
        unseen.append(f"{len(gathered.undecoded)} records could not be decoded (first {first.ref}: {first.reason})")
    unseen += _clocks(gathered.clocks)
    problems = problems_of(sources)
    unseen += problems[:SHOWN_PROBLEMS]
    if len(problems) > SHOWN_PROBLEMS:
        unseen.append(f"{len(problems) - SHOWN_PROBLEMS} more things could not be read")
    return unseen


def _deleted(sources: Iterable[SourceReading]) -> Iterable[str]:
    for source in sources:
        if source.source.startswith("record:__cluster_metadata-"):
            continue  # its checkpoints stand for what it does not hold any more
        if source.kind == "record" and (source.from_position or 0) > 0:
            yield f"{source.source.removeprefix('record:')} before offset {source.from_position} (deleted or not given)"


def _clocks(clocks: Mapping[str, NodeClock]) -> Iterable[str]:
    from rebalance_audit.domain.detect.wording import zones_not_known

    unzoned = [node for node, clock in clocks.items() if clock.source.value == "assumed"]
    if unzoned:
        yield zones_not_known(unzoned)
