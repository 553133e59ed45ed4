"""The sentences of Connect's stories: (title, text) of each."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rebalance_audit.domain.causes import Cause
from rebalance_audit.domain.detect.history import label, worker_name
from rebalance_audit.domain.detect.wording import counted, duration, folded, listed, shown
from rebalance_audit.domain.explain.connect_changes import ConnectorChange
from rebalance_audit.domain.kinds import MemberChange, MovementKind
from rebalance_audit.domain.model import Member, Movement, Rebalance

TitleAndText = tuple[str, str]

_DELAY = "scheduled.rebalance.max.delay.ms"


def worker_joined(chain: Sequence[Rebalance], came: Sequence[Member], moved: Sequence[Movement]) -> TitleAndText:
    who = _who(came)
    if not moved:
        return (
            f"{who} joined, and nothing moved",
            f"{who} joined in generation {chain[0].generation_id}. Nothing that ran was stopped for it.{_kept(chain)}",
        )
    return (
        f"{who} joined: {_work(len(moved))} moved to make the loads even",
        f"Connect shares work evenly. Generation {chain[0].generation_id} took {_names(moved)} from the workers that "
        f"had more than their share, and generation {chain[-1].generation_id} handed it on: two rebalances for one "
        "change, because work must have stopped in one place before it may start in another. "
        f"{_stood_still(moved)}{_kept(chain)}",
    )


def worker_bounced(
    chain: Sequence[Rebalance],
    back: Rebalance,
    gone: Sequence[Member],
    held: Collection[str],
    given: Sequence[Movement],
) -> TitleAndText:
    who, first, last = _who(gone), chain[0], chain[-1]
    urls = {m.worker_url for m in gone}
    home = [m for m in given if m.to_worker_url in urls]
    waited = duration(max((last.assigned_at_ms or 0) - (first.assigned_at_ms or 0), 0))
    went = f"{_work(len(home))} went back to it" if home else "its work went to others"
    if home and len(home) < len(given):
        went += f", {len(given) - len(home)} to others"
    return (
        f"{who} went and was back before the delay ended: its {_work(len(held))} waited {waited}",
        f"When a worker goes, Connect keeps its work for it for up to {duration(first.connect_delay_ms or 0)} "
        f"({_DELAY}), "
        f"so that a restart does not move everything. {who} was missed in generation {first.generation_id} and joined "
        f"again in generation {back.generation_id}, {_apart(first, back)} later. Its return does not end the delay: "
        "its "
        f"work waited on, and when the delay ended in generation {last.generation_id} {went}. {_stood_still(given)}"
        f"{_kept(chain)} This is by design; a shorter delay shortens the wait of a restart, too, as long as a worker "
        "starts faster than that.",
    )


def worker_lost(
    chain: Sequence[Rebalance], gone: Sequence[Member], held: Collection[str], given: Sequence[Movement]
) -> TitleAndText:
    who, first, last = _who(gone), chain[0], chain[-1]
    waited = duration(max((last.assigned_at_ms or 0) - (first.assigned_at_ms or 0), 0))
    return (
        f"{who} went and did not come back: its {_work(len(held))} waited {waited}, then moved",
        f"Generation {first.generation_id} missed {who}. Connect waits for its return and leaves {folded(held, 4)} "
        f"unassigned for up to {duration(first.connect_delay_ms or 0)} ({_DELAY}). It did not return, and generation "
        f"{last.generation_id} spread the work over the workers that are left. {_stood_still(given)}"
        f"{_noticed_late(first)}{_kept(chain)} Waiting was by design; that the worker was gone for good is the fault "
        "to "
        "look at.",
    )


def worker_waited_for(
    r: Rebalance, gone: Sequence[Member], held: Collection[str], back: Rebalance | None
) -> TitleAndText:
    who = _who(gone)
    returned = (
        f" It joined again in generation {back.generation_id}; its return does not end the delay." if back else ""
    )
    return (
        f"{who} went: its {_work(len(held))} wait for it",
        f"Generation {r.generation_id} missed {who}. Connect waits for its return and leaves {folded(held, 4)} "
        f"unassigned for up to {duration(r.connect_delay_ms or 0)} ({_DELAY}).{returned} The evidence ends before the "
        f"delay does.{_kept([r])}",
    )


def worker_replaced(r: Rebalance, gone: Sequence[Member]) -> TitleAndText:
    who = _who(gone)
    home = [m for m in r.movements if m.kind == MovementKind.RETURNED]
    return (
        f"{who} was restarted before the group missed it",
        f"A new process at the same address joined in generation {r.generation_id} while the old one was still a "
        "member. "
        f"What the old one ran was known to have no worker any more and was given out at once: {_work(len(home))} went "
        f"back to it, without a delay. {_stood_still(home)}{_kept([r])}",
    )


def leader_left(r: Rebalance, gone: Sequence[Member], held: Collection[str], given: Sequence[Movement]) -> TitleAndText:
    who = _who(gone)
    return (
        f"The leader {who} left: its {_work(len(held))} moved at once, without the delay",
        f"One worker leads and computes the assignments, and only its memory holds who ran what before. With {who} "
        "that "
        f"memory was lost: to the new leader its work looked new, and generation {r.generation_id} handed it out "
        f"without waiting. {_stood_still(given)}{_kept([r])} A delay that was running is forgotten as well. When the "
        "worker returns it starts empty and gets its share by a revocation.",
    )


def no_delay(r: Rebalance, gone: Sequence[Member], held: Collection[str], given: Sequence[Movement]) -> TitleAndText:
    who = _who(gone)
    if not held:
        return f"{who} left and had nothing to give up", f"Generation {r.generation_id}: nothing had to move."
    rest = len(held) - len({m.resource for m in given})
    left_over = ""
    if rest > 0 and r.unassigned_count:
        left_over = (
            f" {_work(rest)} had nobody after it: before 3.7, with a delay of 0, lost work may stay without a worker "
            "until some later round."
        )
    if not given:
        return (
            f"{who} left, and nobody was given its {_work(len(held))}",
            f"Generation {r.generation_id} missed {who} and announced no delay.{left_over}{_kept([r])}",
        )
    return (
        f"{who} left: its {_work(len(given))} moved at once",
        f"No delay is configured ({_DELAY}=0) or none was left, so generation {r.generation_id} gave the work of {who} "
        "to the other workers as soon as it was missed. "
        f"{_stood_still(given)}{_noticed_late(r)}{left_over}{_kept([r])}",
    )


def eager_round(r: Rebalance, about: Sequence[Member]) -> TitleAndText:
    who = _who(about)
    stopped = [m for m in r.movements if m.kind in (MovementKind.MOVED, MovementKind.RETURNED)]
    verb = "left" if about[0].change == MemberChange.LEFT else "joined"
    returned = sum(m.kind == MovementKind.RETURNED for m in stopped)
    return (
        f"{who} {verb}, and everything stopped: {_work(len(stopped))}",
        "Under the eager protocol (connect.protocol=eager) every worker stops all it runs before it joins a "
        "generation. "
        f"Of {_work(len(stopped))} that stopped for generation {r.generation_id}, {returned} only went back to the "
        "worker "
        f"they came from. {_stood_still(stopped)}",
    )


def became_eager(r: Rebalance, came: Sequence[Member]) -> TitleAndText:
    who = _who(came) or "a worker"
    return (
        f"{who} speaks only the eager protocol, and so does the whole cluster from generation {r.generation_id} on",
        "A group uses a protocol that all its members offer. While one offers nothing but `default` (a worker before "
        "2.3, "
        "or connect.protocol=eager), every rebalance stops every connector and task. The workers that were incremental "
        "until now did not stop their work for this one: what was given to another worker runs twice until it is "
        "stopped.",
    )


def revoking_rounds(
    chain: Sequence[Rebalance], revoking: Sequence[Rebalance], came: Sequence[Member], moved: Sequence[Movement]
) -> TitleAndText:
    numbers = ", ".join(str(r.generation_id) for r in revoking)
    delays = [duration(r.connect_delay_ms) for r in chain if r.connect_delay_ms]
    waits = (
        f" From 3.4 on the leader makes the next revocation wait, each time longer (here {', '.join(delays)})."
        if delays
        else ""
    )
    return (
        f"{_who(came)} joined one after the other: {len(revoking)} rounds revoked work",
        f"Each worker that joins while the hand-over to another runs changes what an even share is, so generations "
        f"{numbers} took work away again.{waits} {_stood_still(moved)}{_kept(chain)} Workers that start together cost "
        "one "
        "revocation.",
    )


def zombie_tasks(r: Rebalance, twice: Sequence[str], late: Sequence[Member]) -> TitleAndText:
    who = _who(late) or "a worker"
    return (
        f"{_work(len(twice))} ran on two workers at once when {who} came back",
        f"{who} had been put out of the group (it was frozen, or cut off) and did not know: it went on with "
        f"{folded(twice, 4)}, which others had been given meanwhile. In generation {r.generation_id} it joined again "
        "and said what it runs; the leader saw the doubles and revoked them from everyone. Records of source "
        "connectors may have been written twice in between.",
    )


def connector_changed(change: ConnectorChange) -> TitleAndText:
    whose = listed([shown(c) for c in change.connectors])
    own = sum(len(t.resources) for t in change.own)
    if change.others:
        others = (
            f"{_work(change.others_count)} of {listed([shown(t.connector) for t in change.others])}, whose owners "
            "changed "
            f"nothing, stood still up to {_ms(change.others_longest_ms)} ({change.others_seconds:,.1f} task-seconds)."
        )
        title = f"{whose} changed, and others stood still: {_work(change.others_count)}"
    else:
        others = "Nothing of any other connector stood still."
        title = f"{whose} changed, and no other connector stood still"
    mixed = " A worker came or went in the same rounds: not all of it is the change's doing." if change.is_mixed else ""
    return (
        title,
        f"Generation {change.generation_id} follows a change of {whose} in the config topic: "
        f"{f'{_work(own)} of its own stopped and started' if own else 'none of its own had to stop'}. {others}{mixed}",
    )


def assignment_failed(r: Rebalance) -> TitleAndText:
    return (
        f"Generation {r.generation_id} assigned nothing: the round failed",
        "The worker that computes the assignment had not read the newest configuration, so everyone was sent an empty "
        "assignment with an error, kept what it ran, and joined again. Once is harmless; again and again means that a "
        "worker cannot read the config topic to its end.",
    )


def rolling_bounce(parts: Sequence[tuple[str, tuple[str, ...]]], rounds: int) -> TitleAndText:
    names = [worker_name(url) for _, urls in parts for url in urls]
    leaders = [worker_name(url) for kind, urls in parts if kind == "leader_left" for url in urls]
    aside = (
        f" {listed(leaders)} led the cluster when it went: without its memory nothing waited, and its work moved."
        if leaders
        else ""
    )
    return (
        f"Rolling bounce of {counted(len(set(names)), 'worker')}: {listed(names)}",
        f"The workers were restarted one after the other, {counted(rounds, 'rebalance')} in all. Each one's work "
        "waits for "
        "the scheduled delay even after it is back, so a rolling bounce takes at least one delay per worker unless "
        "the "
        f"next one goes before.{aside}",
    )


def as_sentence(text: str) -> str:
    """A capital first where the text begins with a worker; a connector's name is left as it is."""
    return ("Worker" + text[6:] if text.startswith("worker ") else text).replace(". worker ", ". Worker ")


def began_ms(r: Rebalance) -> int:
    return next((t for t in (r.started_at_ms, r.joined_at_ms, r.assigned_at_ms, r.ended_at_ms) if t is not None), 0)


def ended_ms(r: Rebalance) -> int:
    return next((t for t in (r.assigned_at_ms, r.ended_at_ms, r.joined_at_ms, r.started_at_ms) if t is not None), 0)


def _who(members: Sequence[Member]) -> str:
    return listed(list(dict.fromkeys(label(m) for m in members)))


def _work(count: int) -> str:
    return counted(count, "connector or task", "connectors and tasks")


def _names(movements: Sequence[Movement]) -> str:
    return folded((m.resource for m in movements), 4)


def _ms(ms: int | None) -> str:
    return "a time not known" if ms is None else duration(ms)


def _stood_still(movements: Sequence[Movement]) -> str:
    known = [m.pause_estimate_ms for m in movements if m.pause_estimate_ms is not None]
    if not known:
        return "How long the work stood still is not known."
    if max(known) <= 0:
        return "Nothing stood still: the new worker started before the old one let go."
    least = f"{duration(max(min(known), 0))} to " if max(known) - min(known) > 500 else ""
    return f"The work stood still {least}{duration(max(known))}."


def _kept(chain: Sequence[Rebalance]) -> str:
    kept = min((r.kept_count for r in chain if r.kept_count is not None), default=0)
    return f" {_work(kept)} ran on all the time." if kept else ""


def _apart(first: Rebalance, later: Rebalance) -> str:
    return duration(max(began_ms(later) - began_ms(first), 0))


def _noticed_late(r: Rebalance) -> str:
    if Cause.MEMBER_SESSION_EXPIRED not in {r.trigger, *(t.trigger for t in r.triggers)}:
        return ""
    return " That includes the time until the group noticed: a killed worker is missed when its session ends."
