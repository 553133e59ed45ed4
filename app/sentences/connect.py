"""Sentences about tasks that were not running."""

from __future__ import annotations

from collections.abc import Sequence

from app import words
from app.answers.outages import NOT_RUNNING, outages
from app.answers.rows import ConnectTask, Rebalance, Span
from app.words import Html, fill
from rebalance_audit.domain.explain.connect_changes import ConnectorChange
from rebalance_audit.domain.numbers import CostBounds, cost_of


def connect(tasks: Sequence[ConnectTask], span: Span) -> Html:
    """How many tasks and connectors did not run, how much of that was by design, and the longest.

    Connectors count as everywhere else: rebalances, stories and incidents move and price them like tasks.
    """
    all_count = len({(t.connector, t.task) for t in tasks})
    down = outages(tasks, span)
    if not all_count:
        return Html("No task was seen in that time.")
    if not down:
        return fill("<b>All {n} ran</b>, as far as was seen.", n=words.things("connect", all_count))
    design, fault = (sum(o.waited_ms(by_design) for o in down) / 1000 for by_design in (True, False))
    longest = down[0]
    states = [(words.duration(length), words.STATE_WORDS.get(state, state)) for state, length, _ in longest.parts]
    states_said = states[0][1] if len(states) == 1 else ", then ".join(f"{length} {state}" for length, state in states)
    still = [t for t in tasks if t.to_ms is None and t.state in NOT_RUNNING]
    parts = [
        fill(
            "<b>{n} of {all} did not run at some time</b>: {lost} in all, {waiting}.",
            n=f"{len({(o.connector, o.task) for o in down}):,}",
            all=words.things("connect", all_count),
            lost=words.seconds(design + fault, "task"),
            waiting=_by_design(design, fault),
        ),
        fill(
            "The longest: {task} did not run for {length}: {states_said}.",
            task=_named(longest.connector, longest.task),
            length=words.duration(longest.length_ms),
            states_said=states_said,
        ),
    ]
    if still:
        now = f"{words.things('connect', len(still))} {'is' if len(still) == 1 else 'are'}"
        parts.append(fill("{now} still not running at the end of the evidence{which}.", now=now, which=_which(still)))
    return words.join(parts, " ")


def _which(still: Sequence[ConnectTask]) -> Html:
    """The first of them, with what it says of itself: of a failed task, its trace's first line."""
    first = next((t for t in still if t.detail), still[0])
    detail = fill(": <q>{d}</q>", d=words.name(first.detail, 200)) if first.detail else Html("")
    return fill(
        "{lead}{task}, {state}{detail}",
        lead=": " if len(still) == 1 else ", such as ",
        task=_named(first.connector, first.task),
        state=words.STATE_WORDS.get(first.state, first.state),
        detail=detail,
    )


def _by_design(design: float, fault: float) -> str:
    if not design or not fault:
        return "none of it by design" if fault else "all of it by design"
    return f"{_number(design)} of them by design"


def of_it_by_design(seconds: float) -> str:
    """After a cost: `, 60.0 of them waiting by design (scheduled delay)`; nothing where there are none."""
    return f", {_number(seconds)} of them waiting by design (scheduled delay)" if seconds >= 0.05 else ""


def _number(seconds: float) -> str:
    return words.seconds(seconds, "task").partition(" ")[0]


def _named(connector: str, task: int | None) -> Html:
    if task is None:
        return fill("connector {c}", c=words.code(connector, 40))
    return words.code(f"{connector}-{task}", 40)


def connector_changes(changes: Sequence[ConnectorChange]) -> Html:
    """How many changes of connectors stopped the work of others, and which did worst."""
    hit = [c for c in changes if c.others]
    if not hit:
        return fill(
            "{n}; none stopped anything of another connector.",
            n=words.count(len(changes), "change of a connector", "changes of connectors"),
        )
    worst = max(hit, key=lambda c: c.others_seconds)
    return fill(
        "<b>{n} of {all} stopped work of others</b>, who had changed nothing; the worst, of {whose}, {what} for up to "
        "{t}: {cost} in all.",
        n=f"{len(hit):,}",
        all=words.count(len(changes), "change of a connector", "changes of connectors"),
        whose=words.join([words.code(c, 30) for c in worst.connectors[:3]], ", "),
        what=words.things("connect", worst.others_count),
        t=words.duration(worst.others_longest_ms),
        cost=words.seconds(worst.others_seconds, "task"),
    )


def costs(rounds: Sequence[Rebalance]) -> tuple[CostBounds, float | None]:
    """Task-seconds that these rounds cost, and that they would at least have cost had all stopped. None: not known."""
    eager = [r.eager_seconds_lower for r in rounds if r.eager_seconds_lower is not None]
    return cost_of(rounds), sum(eager) if eager else None


def likely_cost(cost: CostBounds) -> str:
    return words.seconds_likely(cost.likely_lower, cost.estimate, cost.likely_upper, "task")


def cost_beside_eager(rounds: Sequence[Rebalance]) -> Html:
    cost, eager = costs(rounds)
    if not cost.estimate:
        return Html("")
    if not eager or eager <= cost.estimate:  # a bound below what it did cost says nothing
        return fill("It cost {c}.", c=likely_cost(cost))
    return fill(
        "It cost {c}; had everything stopped, as under the eager protocol, it would have cost at least {e}.",
        c=likely_cost(cost),
        e=words.seconds(eager, "task"),
    )
