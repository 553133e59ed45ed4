"""Did the change help? Numbers worked by hand, and what is never claimed."""

import html
import re
from collections import Counter

import pandas as pd
import pytest

from app import sentences
from app.answers.compare import SLICES, Difference, Side, differences
from app.answers.rows import Span
from app.sentences.compare import interval

HOUR_MS = 3_600_000


def side(label: str, at_ms: list[int], hours: int = 10, pause_ms: float = 100.0, cost: float = 1.0) -> Side:
    """Each rebalance with the same pause and cost, two moved, and no broker's window."""
    span = Span(from_ms=0, to_ms=hours * HOUR_MS)
    rows = []
    for found, n in sorted(Counter(min(SLICES - 1, at * SLICES // span.length_ms) for at in at_ms).items()):
        measures = {"rebalances": n, "cost": n * cost, "moved": 2.0 * n, "pause": pause_ms}
        rows += [{"measure": name, "slice": found, "value": value, "n": n} for name, value in measures.items()]
    cells = pd.DataFrame(rows, columns=["measure", "slice", "value", "n"])
    return Side(label=label, span=span, cells=cells, causes={"member_joined": len(at_ms)})


def every(minutes: int, hours: int = 10) -> list[int]:
    return list(range(0, hours * HOUR_MS, minutes * 60_000))


def named(found: list[Difference]) -> dict[str, Difference]:
    return {d.name: d for d in found}


def plain(text: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", text))


def test_a_steady_fall_is_clear() -> None:
    found = named(differences(side("before", every(10)), side("after", every(60))))
    often = found["rebalances per hour"]
    assert (often.before, often.after) == (6.0, 1.0)
    assert often.verdict == "less"
    assert often.lower is not None
    assert often.upper is not None
    assert often.lower <= -5.0 <= often.upper < 0
    assert found["cost, partition- or task-seconds per hour"].before == 6.0


def test_one_burst_is_no_clear_difference() -> None:
    """Thirty rebalances within a minute are one event of its kind, not thirty."""
    burst = [1_000 * i for i in range(30)]
    often = named(differences(side("before", burst), side("after", [5 * HOUR_MS])))["rebalances per hour"]
    assert (often.before, often.after) == (3.0, 0.1)
    assert often.verdict == "unclear"


def test_under_five_nothing_is_claimed() -> None:
    found = differences(side("before", [1, 2]), side("after", [3]))
    assert {d.verdict for d in found} == {"too few"}
    said = plain(sentences.compare(side("before", [1, 2]), side("after", [3]), found))
    assert said.startswith("Too little was seen to say: 2 rebalances in 10 h before, 1 rebalance in 10 h after.")


def test_what_is_not_known_has_no_number() -> None:
    found = named(differences(side("before", every(10)), side("after", every(10))))
    window = found["broker's own window, median"]
    assert (window.before, window.after, window.verdict) == (None, None, "too few")
    assert interval(window) == "not known"


def test_the_same_rows_give_the_same_interval() -> None:
    twice = [differences(side("before", every(10)), side("after", every(25))) for _ in range(2)]
    assert twice[0] == twice[1]


@pytest.mark.parametrize(
    ("before", "after", "first"),
    [
        (
            every(10),
            every(60),
            "Yes: it got better. What standing still costs went from 6.0 to 1.0 partition- or task-seconds",
        ),
        (every(60), every(10), "No: it got worse."),
        (every(30), every(30), "No clear difference."),
    ],
)
def test_the_answer_comes_first_and_claims_no_cause(before: list[int], after: list[int], first: str) -> None:
    sides = side("before", before), side("after", after)
    said = plain(sentences.compare(*sides, differences(*sides)))
    assert said.startswith(first)
    assert said.endswith("A difference is not yet a cause.")


def test_a_quantile_lies_between_the_two_nearest_values_as_if_all_were_listed() -> None:
    """Pauses 10, 10, 20, 40, 80 and 160 ms: the median is 30, the 95th percentile a quarter short of 160."""
    cells = pd.DataFrame(
        [("pause", i % 3, value, n) for i, (value, n) in enumerate([(40, 1), (10, 2), (160, 1), (20, 1), (80, 1)])],
        columns=["measure", "slice", "value", "n"],
    )
    one = Side(label="x", span=Span(from_ms=0, to_ms=HOUR_MS), cells=cells, causes={})
    found = named(differences(one, one))
    assert found["longest downtime, median"].before == 30.0
    assert found["longest downtime, 95th percentile"].before == pytest.approx(140.0)
