"""Workers of one client id, in logs alone (before 3.7 the default is the same for all)."""

from __future__ import annotations

from pathlib import Path

from tests.score import reconstructed

CAPTURE = Path(__file__).parents[3] / "golden/2.3.1/connect_worker_joins"


def test_a_worker_stays_the_same_one_when_another_of_its_client_id_joins() -> None:
    """A second worker joins the first, which goes on with what it keeps."""
    [group] = reconstructed(CAPTURE, "logs").values()
    joins = next(r for r in group.rebalances if r.generation_id == 6)
    assert sorted(m.change for m in joins.members) == ["joined", "stayed"]
    assert {m.kind for m in joins.movements} == {"revoked"}
    assert {r.mode for r in group.rebalances} == {"incremental"}
    runs = [(t.worker_url, t.state) for t in group.connect_tasks if (t.connector, t.task) == ("beta", 0)]
    assert len(runs) == 1
