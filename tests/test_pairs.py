"""`whatif` against pairs of lab runs: docs/whatif.md shows what comes out of the captures in tests/pairs, and of those
in tests/pairs_unseen, which were predicted before anybody looked at what they cost."""

from pathlib import Path

import pytest

from tests.replay_pairs import Pair, pairs_of, sides_below, table

ROOT = Path(__file__).parent
DOCS = ROOT.parent / "docs" / "whatif.md"


@pytest.fixture(scope="module", params=["pairs", "pairs_unseen"])
def pairs(request: pytest.FixtureRequest) -> list[Pair]:
    return list(pairs_of(sides_below(ROOT / request.param)))


def test_the_docs_show_every_pair_as_it_comes_out(pairs: list[Pair]) -> None:
    assert "\n".join(table(pairs)) in DOCS.read_text()


def test_each_side_ran_three_times_at_least(pairs: list[Pair]) -> None:
    assert len(pairs) >= 15
    assert min(len(runs) for pair in pairs for runs in (pair.before, pair.after)) >= 3


def test_better_and_worse_are_never_confused_and_few_lie_outside(pairs: list[Pair]) -> None:
    said = [pair for pair in pairs if pair.refused is None]
    assert [pair for pair in said if pair.confuses] == []
    assert sum(pair.is_inside for pair in said) >= 0.9 * len(said)
