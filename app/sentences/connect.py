"""Which tasks were not running."""

from __future__ import annotations

from collections.abc import Sequence

from app import words
from app.answers import ConnectTask, Rebalance, Span, outages
from app.connect_stories import Absence, Rounds
from app.words import Html, fill


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
    told = states[0][1] if len(states) == 1 else ", then ".join(f"{length} {state}" for length, state in states)
    still = sum(not o.is_over for o in down)
    parts = [
        fill(
            "<b>{n} of {all} did not run at some time</b>: {waiting} waiting by design, {fault}.",
            n=f"{len({(o.connector, o.task) for o in down}):,}",
            all=words.count(all_count, "task"),
            waiting=words.seconds(design, "task"),
            fault=f"{words.seconds(fault, 'task')} not by design" if fault else "nothing else",
        ),
        fill(
            "The longest: {task} did not run for {length}: {told}.",
            task=words.code(f"{longest.connector}-{longest.task}", 40),
            length=words.duration(longest.length_ms),
            told=told,
        ),
    ]
    if still:
        now = words.count(still, "task is", "tasks are")
        parts.append(fill("{now} still not running when the evidence ends.", now=now))
    return words.join(parts, " ")


_DELAY = Html(
    "Connect keeps what a vanished worker ran for it for a while, in the hope that it returns "
    "(<code>scheduled.rebalance.max.delay.ms</code>)."
)


def absence(a: Absence, end_ms: int) -> Html:
    """A worker went: what became of what it ran, for a reader who never heard of the protocol."""
    worker = words.code(a.worker, 50)
    total = words.duration((end_ms if a.back_at_ms is None else a.back_at_ms) - a.gone_at_ms)
    first = {
        "open": "<b>{w} is gone.</b>",
        "bounced": "<b>{w} went and came back.</b>",
        "gone": "<b>{w} is gone for good.</b>",
        "mixed": "<b>{w} went, and some of what it ran went elsewhere.</b>",
    }[a.kind]
    parts = [
        fill(first, w=worker),
        fill("It ran {what}; with it they stopped.", what=words.resources(a.resources, 5)),
    ]
    if a.noticed_at_ms is None:
        parts.append(
            Html(
                "Nothing waited for it: the protocol is eager and hands everything out anew, or there is no delay, or "
                "the leader that kept it was lost too."
            )
        )
    else:
        if a.noticed_at_ms > a.gone_at_ms:
            noticed = words.duration(a.noticed_at_ms - a.gone_at_ms)
            parts.append(fill("The other workers noticed {t} later.", t=noticed))
        parts.append(_DELAY)
    if a.kind == "open":
        parts.append(fill("They stand still for {t} when the evidence ends.", t=total))
    else:
        ending = {
            "bounced": "It was back before the wait was over and got all of it again; nothing else had to move.",
            "gone": "It did not return, and they were handed to {to}.",
            "mixed": "{n} run there again; the others were handed to {to}.",
        }[a.kind]
        if a.noticed_at_ms is None and a.kind == "gone":
            ending = "They were handed to {to}."
        to = words.join([words.code(w, 50) for w in a.to_workers[:3]], ", ")
        parts.append(fill(ending, to=to or Html("others"), n=words.resources(a.returned, 3)))
        waited = f", {words.duration(a.waited_ms)} of it waiting by design" if a.waited_ms is not None else ""
        parts.append(fill("In all they stood still for up to {t}{waited}.", t=total, waited=waited))
    return words.join(parts, " ")


def joining(story: Rounds, found: Sequence[Rebalance]) -> Html:
    """A worker joined: one round to give up, one to hand out. `found`: its rounds with members and movements."""
    new = [m.worker_url for m in found[0].members if m.change == "joined" and m.worker_url] if found else []
    who = words.join([words.code(w, 50) for w in new[:3]], ", ") if new else Html("A worker")
    parts = [fill("<b>{who} joined.</b>", who=who)]
    given_up = sum(story.revoked_counts)
    if len(story.rebalance_ids) == 1 or not given_up:
        parts.append(Html("It took one round: nothing that ran had to be taken from anyone."))
    else:
        parts.append(
            fill(
                "It took {n}: first the others were told to give up {k}, which stopped; then these were handed out "
                "again, evenly. What does not have to move keeps running meanwhile.",
                n="two rounds" if len(story.rebalance_ids) == 2 else f"{len(story.rebalance_ids):,} rounds",
                k=words.things("connect", given_up),
            )
        )
    pauses = [m.pause_estimate_ms for r in found for m in r.movements if m.pause_estimate_ms is not None]
    if pauses:
        kept = f"; {words.things('connect', story.kept_count)} never stopped" if story.kept_count else ""
        parts.append(fill("They stood still for up to {t}{kept}.", t=words.duration(max(pauses)), kept=kept))
    parts.append(cost_beside_eager(story))
    return words.join([p for p in parts if p], " ")


def cost_beside_eager(story: Rounds) -> Html:
    if story.cost_seconds is None:
        return Html("")
    if story.eager_seconds is None:
        return fill("It cost {c}.", c=words.seconds(story.cost_seconds, "task"))
    return fill(
        "It cost {c}; had everything stopped, as under the eager protocol, it would have cost about {e}.",
        c=words.seconds(story.cost_seconds, "task"),
        e=words.seconds(story.eager_seconds, "task"),
    )
