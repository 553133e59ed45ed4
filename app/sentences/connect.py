"""Sentences about tasks that were not running."""

from __future__ import annotations

from collections.abc import Sequence

from app import words
from app.answers.rows import NOT_RUNNING, ConnectTask, Rebalance, Span, outages
from app.words import Html, fill
from rebalance_audit.domain.explain.connect_changes import ConnectorChange


def connect(tasks: Sequence[ConnectTask], span: Span) -> Html:
    """How many tasks did not run, how much of that was by design, and the longest."""
    all_count = len({(t.connector, t.task) for t in tasks if t.task is not None})
    down = outages(tasks, span)
    if not all_count:
        return Html("No task was seen in that time.")
    if not down:
        return fill("<b>All {n} ran</b>, as far as was seen.", n=words.count(all_count, "task"))
    design, fault = (sum(o.waited_ms(by_design) for o in down) / 1000 for by_design in (True, False))
    longest = down[0]
    states = [(words.duration(length), words.STATE_WORDS.get(state, state)) for state, length, _ in longest.parts]
    states_said = states[0][1] if len(states) == 1 else ", then ".join(f"{length} {state}" for length, state in states)
    still = [t for t in tasks if t.task is not None and t.to_ms is None and t.state in NOT_RUNNING]
    parts = [
        fill(
            "<b>{n} of {all} did not run at some time</b>: {waiting} by design, {fault}.",
            n=f"{len({(o.connector, o.task) for o in down}):,}",
            all=words.count(all_count, "task"),
            waiting=words.seconds(design, "task"),
            fault=f"{words.seconds(fault, 'task')} not by design" if fault else "nothing else",
        ),
        fill(
            "The longest: {task} did not run for {length}: {states_said}.",
            task=words.code(f"{longest.connector}-{longest.task}", 40),
            length=words.duration(longest.length_ms),
            states_said=states_said,
        ),
    ]
    if still:
        now = words.count(len(still), "task is", "tasks are")
        parts.append(fill("{now} still not running when the evidence ends{which}.", now=now, which=_which(still)))
    return words.join(parts, " ")


def _which(still: Sequence[ConnectTask]) -> Html:
    """The first of them, with what it says of itself: of a failed task, its trace's first line."""
    first = next((t for t in still if t.detail), still[0])
    detail = fill(": <q>{d}</q>", d=words.name(first.detail, 200)) if first.detail else Html("")
    return fill(
        "{lead}{task}, {state}{detail}",
        lead=": " if len(still) == 1 else ", such as ",
        task=words.code(f"{first.connector}-{first.task}", 40),
        state=words.STATE_WORDS.get(first.state, first.state),
        detail=detail,
    )


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


def costs(rounds: Sequence[Rebalance]) -> tuple[float | None, float | None]:
    """Task-seconds that these rounds cost, and that they would at least have cost had all stopped. None: not known."""
    cost = [r.resource_seconds_estimate for r in rounds if r.resource_seconds_estimate is not None]
    eager = [r.eager_seconds_lower for r in rounds if r.eager_seconds_lower is not None]
    return sum(cost) if cost else None, sum(eager) if eager else None


def cost_beside_eager(rounds: Sequence[Rebalance]) -> Html:
    cost, eager = costs(rounds)
    if not cost:
        return Html("")
    if not eager:
        return fill("It cost {c}.", c=words.seconds(cost, "task"))
    return fill(
        "It cost {c}; had everything stopped, as under the eager protocol, it would have cost at least {e}.",
        c=words.seconds(cost, "task"),
        e=words.seconds(eager, "task"),
    )
