"""MirrorMaker 2 under two aliases of one cluster: it rewrites its own tasks for ever, and no member comes or goes.

The expected values are what its workers say that they joined, and how it was set up.
"""

from __future__ import annotations

import json

import pytest

from rebalance_audit.domain.causes import Cause
from rebalance_audit.domain.reconstruct import reconstruct
from tests.captures import GOLDEN, gathered

CAPTURE = GOLDEN / "4.1.1" / "mirror_maker_loop"


@pytest.mark.parametrize("with_lines", [True, False], ids=["with-logs", "records-only"])
@pytest.mark.parametrize("flow", ["src-mm2", "dst-mm2"])
def test_every_rebalance_of_the_loop_is_found_and_called_a_change_of_configuration(flow: str, with_lines: bool) -> None:
    story = json.loads((CAPTURE / "truth/scenario.json").read_text())["groups"][flow]["rebalances"]
    (group,) = (g for g in gathered(CAPTURE, with_lines=with_lines).groups if g.group_id == flow)
    found = reconstruct(group).rebalances
    assert [(r.generation_id, r.outcome) for r in found] == [(x["number"], x["outcome"]) for x in story]
    assert [r.trigger for r in found] == [Cause(x["trigger"]) for x in story]
    assert {m.client_id for r in found for m in r.members} == {found[0].members[0].client_id}
