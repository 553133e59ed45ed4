"""Votes of many clusters: packed, and unpacked again, they are what they were."""

from __future__ import annotations

import pytest

from rebalance_audit.domain.model import LogKind
from spark_jobs import kept_votes
from spark_jobs.kept_votes import ClusterVotes, Number, Voter, VotesByCluster


def _votes(cluster_id: str) -> ClusterVotes:
    number: Number = (cluster_id, "größe", 7)
    subject = LogKind.STABILIZED, "größe", 7
    voters = [
        Voter(900, "log:a@1", number, "broker-1", 900, subject),
        Voter(950, "log:a@2", number, "broker-1", 950, None),
    ]
    return ClusterVotes({(cluster_id, "broker-1", "stabilized", 0): voters}, {number: [(subject, 905), (subject, 906)]})


def test_votes_that_are_packed_come_back_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_votes, "UNPACKED", 1)
    held = VotesByCluster()
    for cluster_id in ("one", "other", "third"):
        held.put(cluster_id, _votes(cluster_id))
    assert [held.of(name) for name in ("one", "other", "third")] == [_votes(name) for name in ("one", "other", "third")]
    assert held.of("unknown") == ClusterVotes({}, {})


def test_what_changes_after_it_was_packed_is_packed_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_votes, "UNPACKED", 1)
    held = VotesByCluster()
    held.put("one", _votes("one"))
    held.put("other", _votes("other"))
    dict(held.packed())
    changed = ClusterVotes(_votes("one").voters, {})
    held.put("one", changed)
    held.of("other")
    again = VotesByCluster(dict(held.packed()))
    assert again.of("one") == changed
    assert again.of("other") == _votes("other")
