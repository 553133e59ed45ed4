"""A partition's ladder as small squares: a column per state, a row per broker. It prints and can be read aloud."""

from __future__ import annotations

from collections.abc import Sequence

from app import charts, words
from app.answers.rows import Reassignment, ReassignmentStep
from app.words import Html, fill

_SAID = {"leader": "leads", "in_sync": "in sync", "copying": "a replica, not in sync", "none": "no replica"}
_SIGN = {"leader": "L", "in_sync": "", "copying": "", "none": "\u00b7"}
MOST_STEPS = 24


def _square(step: ReassignmentStep, broker: int) -> Html:
    what = charts.standing(step, broker)
    return fill(
        '<span class="ra-square ra-is-{what}" role="img" aria-label="{said}" title="broker {b}: {said}">{sign}</span>',
        what=what.replace("_", "-"),
        said=_SAID[what],
        b=broker,
        sign=_SIGN[what],
    )


def _shown(steps: Sequence[ReassignmentStep]) -> list[ReassignmentStep]:
    """The first and the last where there are too many for a screen."""
    if len(steps) <= MOST_STEPS:
        return list(steps)
    return [*steps[: MOST_STEPS // 2], *steps[-MOST_STEPS // 2 :]]


def small_html(r: Reassignment) -> Html:
    """The whole ladder, small: a row per broker, a column per state, oldest first."""
    steps = _shown(r.steps)
    if not steps:
        return Html('<span class="ra-unknown">ladder not known</span>')
    rows = [
        fill(
            '<div class="ra-rung"><span class="ra-rung-name">{b}</span>{cells}</div>',
            b=broker,
            cells=words.join([_square(s, broker) for s in steps]),
        )
        for broker in charts.brokers_of(r)
    ]
    return fill('<div class="ra-ladder">{rows}</div>', rows=words.join(rows))


def table_html(r: Reassignment, when: Sequence[str]) -> Html:
    """A row per state with its time (`when`, one per step), phase and each broker's square."""
    lanes = charts.brokers_of(r)
    head = words.join(
        [
            Html("<th>since</th><th>phase</th>"),
            *[fill("<th class='ra-mid'>{b}</th>", b=b) for b in lanes],
            Html("<th class='ra-wide'>leader</th><th class='ra-wide'>in sync</th><th>replicas, preferred first</th>"),
        ]
    )
    rows = [
        fill(
            "<tr><td class='ra-num'>{at}</td><td class='ra-phase'>{phase}</td>{cells}<td class='ra-wide'>{leader}</td>"
            "<td class='ra-wide'>{isr}</td><td class='ra-replicas'>{all}</td></tr>",
            at=at,
            phase=words.PHASE_WORDS.get(s.phase, s.phase),
            cells=words.join(
                [fill("<td class='ra-mid' data-head='{b}'>{c}</td>", b=b, c=_square(s, b)) for b in lanes]
            ),
            leader=("nobody" if s.is_leader_known else "not known") if s.leader is None else s.leader,
            isr=", ".join(str(b) for b in s.isr) or ("nobody" if s.is_isr_known else "not known"),
            all=", ".join(str(b) for b in s.replicas),
        )
        for s, at in zip(r.steps, when, strict=True)
    ]
    return fill(
        '<div class="ra-scroll"><table class="ra-table ra-states"><thead><tr>{head}</tr></thead>'
        "<tbody>{rows}</tbody></table></div>",
        head=head,
        rows=words.join(rows),
    )


LEGEND = Html(
    '<div class="ra-legend"><span class="ra-key"><span class="ra-square ra-is-leader">L</span> leads</span> '
    '<span class="ra-key"><span class="ra-square ra-is-in-sync"></span> in sync</span> '
    '<span class="ra-key"><span class="ra-square ra-is-copying"></span> a replica, not in sync</span> '
    '<span class="ra-key"><span class="ra-square ra-is-none">\u00b7</span> no replica</span></div>'
)
