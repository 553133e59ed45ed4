"""The whole history of one cluster's partitions that a metadata log shows, from front to end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from rebalance_audit.domain.metadata import MetadataReader, SourceMetadata
from rebalance_audit.domain.reassign.kraft import KRaftFold
from rebalance_audit.domain.reassign.model import (
    Imbalance,
    PartitionState,
    Reassignment,
    ReassignmentHistory,
)
from rebalance_audit.domain.reassign.stall import Surroundings

_EXAMPLES = 5


def imbalances(states: Mapping[tuple[str, int], PartitionState]) -> tuple[Imbalance, ...]:
    """The brokers that do not lead all partitions they are preferred for."""
    preferred: dict[int, int] = defaultdict(int)
    elsewhere: dict[int, list[tuple[str, str]]] = defaultdict(list)
    for (topic, partition), state in states.items():
        if not state.replicas:
            continue
        preferred[state.replicas[0]] += 1
        if state.leader != state.replicas[0]:
            elsewhere[state.replicas[0]].append((f"{topic}-{partition}", state.ref))
    return tuple(
        Imbalance(
            broker_id=broker,
            preferred_count=preferred[broker],
            led_elsewhere_count=len(found),
            examples=tuple(name for name, _ in sorted(found)[:_EXAMPLES]),
            evidence=tuple(ref for _, ref in sorted(found)[:_EXAMPLES]),
        )
        for broker, found in sorted(elsewhere.items())
    )


def kraft_history(
    sources: Iterable[SourceMetadata],
    *,
    cluster_id: str,
    around: Surroundings | None = None,
    reader: MetadataReader | None = None,
) -> ReassignmentHistory:
    """The whole history that a metadata log shows. `around`: what logs add. `reader` holds afterwards the records that
    were refused."""
    reader = reader or MetadataReader()
    around = around or Surroundings(cluster_id)
    fold = KRaftFold(cluster_id, around)
    fold.read(reader.read(sources))
    if fold.now_ms is not None:  # without a controller time goes on, and nobody writes it down
        fold.now_ms = max([fold.now_ms, *(to_ms for _, to_ms, _ in around.without_controller)])
    reassignments = [*fold.ended(), *fold.running()]
    states = fold.states()
    return ReassignmentHistory(
        cluster_id=cluster_id,
        reassignments=tuple(sorted(reassignments, key=_by_start)),
        elections=tuple(fold.take_elections()),
        throttles=fold.throttles.all(),
        imbalances=imbalances(states),
        replicas={key: state.replicas for key, state in states.items()},
        states=states,
        names_all_partitions=reader.has_base and not reader.gaps,
        topic_names=dict(fold.names),
        gaps=tuple(reader.gaps),
        seen_until_ms=fold.now_ms,
    )


def _by_start(reassignment: Reassignment) -> tuple[int, str, int, str]:
    r = reassignment
    return r.started_at_ms or 0, r.topic, r.partition, r.reassignment_id
