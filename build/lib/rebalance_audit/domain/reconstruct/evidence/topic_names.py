"""Names of topics that a group's records have by id alone."""

from __future__ import annotations

from collections.abc import Mapping

from rebalance_audit.domain.model import GroupEvidence


def only_name_left(evidence: GroupEvidence, known: Mapping[str, str]) -> dict[str, str]:
    """4.1 writes topics by id alone: where one id is assigned and one subscribed topic is left, they are the same."""
    ids: set[str] = set()
    names: set[str] = set()
    for record in evidence.records:
        value = record.record.value
        for entries in ("assigned_partitions", "partitions_pending_revocation", "topic_partitions"):
            ids.update(entry.topic_id for entry in getattr(value, entries, ()) or () if hasattr(entry, "topic_id"))
        for topic in getattr(value, "topics", ()) or ():
            if getattr(topic, "topic_name", None):
                known = {**known, topic.topic_id: topic.topic_name}
        names.update(getattr(value, "subscribed_topic_names", ()) or ())
    unnamed, left = ids - known.keys(), names - set(known.values())
    return {unnamed.pop(): left.pop()} if len(unnamed) == len(left) == 1 else {}
