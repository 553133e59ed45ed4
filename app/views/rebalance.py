"""What happened here?"""

import pandas as pd
import streamlit as st

from app import charts, clock, page, panels, sentences, words
from app.answers.rows import Member, Movement, Rebalance, Span
from app.charts import bars
from app.words import Html, fill
from rebalance_audit.domain.explain.hints import missing_evidence
from rebalance_audit.domain.kinds import MemberChange, MovementKind, TaskState


def numbers(r: Rebalance, unit: str) -> None:
    tz = page.zone()

    def at(value: int | None, why_not: str) -> str:
        return words.instant(value, tz) if value is not None else f"not known: {why_not}"

    is_still_less = sentences.stood_still(r) is False
    said_pause = sentences.still_for(r)
    is_likely = r.pause_likely_lower_ms is not None and not is_still_less
    if is_still_less:
        said_pause = "counted in the rebalance that assigns it again" if r.revoked_count else "nothing stood still"
    counts = [
        f"{n:,} {what}"
        for n, what in (
            (r.kept_count, "kept"),
            (r.moved_count, "moved"),
            (r.returned_count, "returned"),
            (r.assigned_count, "first assigned"),
            (r.revoked_count, "revoked"),
            (r.restarted_count, "restarted in place"),
            (r.unassigned_count, "unassigned"),
        )
        if n
    ]
    pairs: dict[str, str | Html] = {
        "outcome": words.OUTCOME_WORDS.get(r.outcome, r.outcome),
        "longest downtime": for_certain(
            said_pause + (f", {words.TIER_WORDS[r.pause_tier]}" if r.pause_tier else ""),
            words.ends(r.pause_lower_ms, r.pause_upper_ms) if is_likely else None,
        ),
        "cost, all downtime summed": cost(r, unit)
        if not is_still_less
        else "counted in the rebalance that assigns it again"
        if r.revoked_count
        else "none",
        "broker's own window": words.duration(r.broker_window_ms)
        if r.broker_window_ms is not None
        else "not known: no log line says when it began"
        if r.started_at_ms is None
        else "not known: no assignment was delivered",
        "began": at(
            r.started_at_ms,
            f"no log line says; not before {words.instant(r.started_lower_ms, tz)}"
            if r.started_lower_ms is not None
            else "no log line says",
        )
        + (f", {words.TIER_WORDS[r.started_tier]}" if r.started_at_ms is not None and r.started_tier else ""),
        "members had joined": at(r.joined_at_ms, "neither record nor log line says"),
        "assigned": at(r.assigned_at_ms, "no assignment was recorded"),
        "tasks and connectors" if r.protocol_type == "connect" else f"{unit}s": ", ".join(counts)
        if counts
        else "none changed"
        if r.moved_count is not None
        else "not known: no assignment was recorded",
        "avoidable movement": "not known"
        if r.avoidable_moved_count is None
        else words.things(r.protocol_type, r.avoidable_moved_count),
        "protocol": fill(
            "{mode}, assignor {a}",
            mode=words.MODE_WORDS.get(r.mode, r.mode),
            a=words.code(words.assignor(r.assignor), 40),
        ),
        "members": words.count(r.member_count, "member")
        + (f", {r.static_member_count:,} of them static" if r.static_member_count else ""),
        "leader": fill(
            "{l}{c}", l=words.code(r.leader_member_id, 50), c=", another than before" if r.leader_changed else ""
        ),
        "coordinator": f"broker {r.coordinator_broker_id}"
        if r.coordinator_broker_id is not None
        else "not known: no log line names it",
    }
    if r.connect_delay_ms:
        pairs["scheduled delay"] = f"{words.duration(r.connect_delay_ms)} announced: waiting by design"
    # 0 where an earlier round of the same change bears the price. A bound below what it did cost says nothing.
    if r.eager_seconds_lower and r.eager_seconds_lower > (r.resource_seconds_estimate or 0):
        pairs["had everything stopped"] = (
            f"at least {words.seconds(r.eager_seconds_lower, unit)}, as under the eager protocol"
        )
    if not r.is_complete_evidence:
        pairs["evidence"] = f"incomplete, not seen: {' and '.join(missing_evidence(r))}"
    if not r.is_final:
        pairs["final"] = "no: it is the newest of its group, and may still change"
    page.facts(pairs)


def for_certain(said: str, certain: str | None) -> str | Html:
    """The likely range, and a click away what the evidence gives for certain."""
    if certain is None:
        return said
    return fill('<details class="ra-cost"><summary>{s}</summary>For certain: {c}.</details>', s=said, c=certain)


def cost(r: Rebalance, unit: str) -> str | Html:
    bounds = words.seconds_bounds(r.resource_seconds_lower, r.resource_seconds_estimate, r.resource_seconds_upper, unit)
    likely = (r.resource_seconds_likely_lower, r.resource_seconds_estimate, r.resource_seconds_likely_upper)
    return bounds if None in likely else for_certain(words.seconds_likely(*likely, unit), bounds)


def avoidable(m: Movement) -> str:
    """Whether it moved for nothing; what came back to its owner, or only began, did not move."""
    if m.kind != MovementKind.MOVED:
        return "did not move"
    return "not known" if m.is_avoidable is None else "yes" if m.is_avoidable else "no"


def movements(found: tuple[Movement, ...], is_known: bool) -> None:
    if not found:
        none = "No resource stopped, moved or began." if is_known else "Not known: no assignment was recorded."
        page.nothing(reader.unread("gold.movement"), none)
        return

    def owner(client_id: str | None, worker_url: str | None, member_id: str | None) -> str:
        return words.name(words.owner(client_id, worker_url, member_id), 40) if member_id else "nobody"

    frame = pd.DataFrame(
        {
            "resource": [words.name(m.resource, 50) for m in found],
            "what": [m.kind for m in found],
            "from": [owner(m.from_client_id, m.from_worker_url, m.from_member_id) for m in found],
            "to": [owner(m.to_client_id, m.to_worker_url, m.to_member_id) for m in found],
            "downtime": [
                "none: it had no owner before"
                if m.kind == MovementKind.ASSIGNED
                else "none yet: it has no new owner here"
                if m.kind == MovementKind.REVOKED
                else sentences.still_for(m)
                for m in found
            ],
            "for certain": [
                words.ends(m.pause_lower_ms, m.pause_upper_ms) if m.pause_estimate_ms is not None else None
                for m in found
            ],
            "how sure": [words.TIER_WORDS.get(m.pause_tier or "", "not known") for m in found],
            "avoidable": [avoidable(m) for m in found],
            "marked by": [None if m.pause_detail is None else words.name(m.pause_detail, 200) for m in found],
        }
    )
    widths = {"resource": 120, "what": 76, "from": 90, "to": 90, "for certain": 122, "how sure": 176, "avoidable": 104}
    page.long_table(
        frame,
        "moved partitions and tasks",
        {name: page.ColumnLook(width=width) for name, width in widths.items()}
        | {
            "downtime": page.ColumnLook(width=205),
            "marked by": page.ColumnLook(width=230),
        },
    )


def members(found: tuple[Member, ...]) -> None:
    change = {MemberChange.REPLACED: "came back under a new id", MemberChange.LEFT: "gone"}
    page.table(
        ["member", "host", "then", "held before", "holds after", "gave up", "got"],
        [
            [
                fill("{n}{leader}", n=words.code(sentences.known_as(m), 40), leader=" leader" if m.is_leader else ""),
                words.code(m.client_host, 28),
                change.get(m.change, m.change),
                words.resources(m.owned_before, 3),
                words.resources(m.assigned, 3),
                words.resources(m.revoked, 3),
                words.resources(m.added, 3),
            ]
            for m in found[:100]
        ],
    )
    if len(found) > 100:
        page.note("{n} more members are not listed.", n=f"{len(found) - 100:,}")


def its_incident() -> None:
    found = reader.incident_of_rebalance(cluster_id, rebalance_id) if cluster_id and rebalance_id else None
    if found is not None:
        page.heading("Its incident")
        page.incident_list([found], "The incident that it belongs to", "rebalance-incident")


reader = page.reader_with_groups()
cluster_id, rebalance_id = page.param("cluster"), page.param("rebalance")
r = reader.rebalance(cluster_id, rebalance_id) if cluster_id and rebalance_id else None
if r is None or cluster_id is None:
    page.not_known("rebalance", rebalance_id, cluster_id, "groups", reader.unread("gold.rebalance"), its_incident)

unit = words.resource(r.protocol_type)
tz = page.zone()
number = words.number_of(r.generation_id, r.group_epoch, r.rewrite_seq)
at_ms = next(
    (
        t
        for t in (r.assigned_at_ms, r.ended_at_ms, r.joined_at_ms, r.started_at_ms, r.started_lower_ms)
        if t is not None
    ),
    None,
)
page.title(
    f"{words.name(r.group_id, 60)}, {number}",
    under="What happened here?",
    over=fill(
        "{cluster} \u00b7 {when}", cluster=words.code(cluster_id, 40), when=words.when(at_ms, clock.now_ms(), tz)
    ),
)
page.just_in(cluster_id, r.rebalance_id)
near = reader.neighbours(cluster_id, r.group_id, r.rebalance_id)
with st.container(horizontal=True):
    page.link("The group", "group", cluster=cluster_id, group=r.group_id)
    if r.protocol_type == "connect":
        page.link("Its workers and tasks", "connect", cluster=cluster_id, group=r.group_id)
    if (incident := reader.incident_of_rebalance(cluster_id, r.rebalance_id)) is not None:
        page.link("Its incident", "incident", cluster=cluster_id, incident=incident.incident_id)
    if near.before:
        page.link("Rebalance before", "rebalance", cluster=cluster_id, rebalance=near.before)
    if near.after:
        page.link("Rebalance after", "rebalance", cluster=cluster_id, rebalance=near.after)
page.say("{s}", s=sentences.rebalance(r))

page.heading("Downtime of each, to scale")
waiting = []
if r.protocol_type == "connect" and at_ms is not None:
    longest_ms = max((m.pause_estimate_ms or 0 for m in r.movements), default=0)
    around = Span(from_ms=at_ms - longest_ms, to_ms=at_ms)
    waiting = [t for t in reader.connect_tasks(cluster_id, r.group_id, around) if t.state == TaskState.WAITING]
has_pauses = any(m.pause_estimate_ms is not None for m in r.movements)
picture = charts.rebalance_time_line(r.movements, r.started_at_ms, r.joined_at_ms, r.assigned_at_ms, waiting)
if picture is None:
    page.note("Not drawn: none of its times is known.")
elif not has_pauses:
    left = words.things(r.protocol_type, r.revoked_count) if r.revoked_count else None
    page.nothing(
        reader.unread("gold.movement"),
        "{what}",
        what=f"Nothing to draw: {left} lost their owner here, and no new one took them in this rebalance."
        if left
        else "Nothing to draw: no downtime of any resource is known of this rebalance.",
    )
else:
    page.time_line(
        picture, f"Phases and pauses of {number}; the numbers below say the same.", key="rebalance-time-line"
    )
    st.html(bars.pauses_legend_html(picture))
    zero = "the moment the broker began to rebalance" if r.started_at_ms is not None else "the first moment known"
    page.note("0 is {zero}, {at}.", zero=zero, at=words.instant(int(picture.zero_ms or 0), tz))
    phases = (
        ("began", r.started_at_ms),
        ("joined", r.joined_at_ms),
        ("assigned", r.assigned_at_ms),
    )
    said = [f"{what} at {words.duration(at - (picture.zero_ms or 0))}" for what, at in phases if at is not None]
    if said:
        page.note("The diamonds, from left to right: {said}.", said=", ".join(said))

page.heading("In numbers")
numbers(r, unit)
page.heading("Who held what, before and after")
if r.members:
    members(r.members)
else:
    page.nothing(reader.unread("gold.rebalance_member"), "Not known: no record of this number was seen.")
page.heading("What moved")
movements(r.movements, r.moved_count is not None)
if len(r.triggers) > 1 or (r.triggers and r.triggers[0].detail):
    page.heading("All causes that were seen")
    page.table(
        ["cause", "how sure", "who", "says"],
        [
            [
                f"{words.FAMILY_SIGN[words.family(t.trigger)]} {words.trigger(t.trigger)}",
                words.TIER_WORDS.get(t.tier, t.tier),
                words.join([words.code(m, 40) for m in t.members[:4]], ", ") or Html("\u2013"),
                words.visible(t.detail or ""),
            ]
            for t in r.triggers
        ],
    )
page.heading("Evidence")
if not r.evidence:
    page.note("None: this number was skipped, and nothing says why.")
refs = list(
    dict.fromkeys(
        [*r.evidence, *(e for t in r.triggers for e in t.evidence), *(e for m in r.movements for e in m.evidence)]
    )
)
panels.evidence_links(reader, refs, cluster_id, [r.group_id], rebalance=r.rebalance_id)
