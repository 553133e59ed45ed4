"""One group's rebalances as people read them: why each happened, what moved, how long it stood still, how sure that is.

Pure text from what was measured and found; nothing here decides anything. All text from clients is made safe for a
terminal. `explain_text` and `explain_dict` say the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from rebalance_audit.domain.detect.client_advice import WEIGHS
from rebalance_audit.domain.detect.finding import numbers_of
from rebalance_audit.domain.detect.wording import clock, counted, duration, likely_seconds, seconds_bounds, shown
from rebalance_audit.domain.explain.connect_stories import ConnectStory, connect_stories
from rebalance_audit.domain.explain.hints import not_seen_in, would_have_helped
from rebalance_audit.domain.explain.incidents import answer, incident_lines, is_part_of
from rebalance_audit.domain.explain.layout import aside, hanging
from rebalance_audit.domain.explain.rebalance import RebalanceStory, exact, exact_bounds, story_of
from rebalance_audit.domain.explain.replayed import replay_advised
from rebalance_audit.domain.explain.standstills import StandstillStory, standstill_stories
from rebalance_audit.domain.explain.verdicts import verdict_on, weighed
from rebalance_audit.domain.incidents import Incident
from rebalance_audit.domain.incidents.words import is_old
from rebalance_audit.domain.kinds import FindingStatus, GroupType, Mode, Outcome, RebalanceKind, Severity
from rebalance_audit.domain.libraries import with_libraries
from rebalance_audit.domain.model import Finding, Rebalance
from rebalance_audit.domain.numbers import cost_of, standstill_seconds, unit_of

_DETAIL_INDENT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """All that `explain` shows of one group, before it is laid out."""

    group_id: str
    kind: str
    """`consumer group, classic, eager (range), 3 members`."""
    summary: str
    cost_bounds: str
    """The hard bounds of what was lost, `[20.1 … 27.0]`; empty where it is not known."""
    rebalances: tuple[RebalanceStory, ...]
    """In the order asked for."""
    left_out_count: int
    """Older rebalances that were not asked for."""
    findings: tuple[Finding, ...]
    connect_stories: tuple[ConnectStory, ...]
    """Connect: stories of several rebalances together, in the order of `rebalances`."""
    standstills: tuple[StandstillStory, ...]
    """Standstills that the group did not notice, by begin."""
    not_seen: tuple[str, ...]
    would_have_helped: tuple[str, ...]
    would_not_have_helped: tuple[str, ...]
    """What spares rebalances, and costs more than it saves when the group is replayed."""
    incidents: tuple[Incident, ...] | None = None
    """By begin; None where nobody asked for them."""
    unknown_since_ms: int | None = None
    """When the evidence ended, where that shows nothing about now."""


def explain(
    group_id: str,
    rebalances: Sequence[Rebalance],
    findings: Sequence[Finding] = (),
    *,
    not_seen: Sequence[str] = (),
    seen_from_ms: int | None = None,
    seen_until_ms: int | None = None,
    latest: int | None = None,
    oldest_first: bool = False,
    incidents: Sequence[Incident] | None = None,
    now_ms: int = 0,
) -> Explanation:
    """The whole answer about a group, in lines. `rebalances`: measured, in order. `not_seen`: sentences about evidence
    that is missing, by coverage. `seen_from_ms`, `seen_until_ms`: the time the evidence covers. `latest`: only so many
    of the newest rebalances are shown one by one; the summary always covers all. `now_ms`: the present."""
    rebalances = with_libraries(rebalances)
    stories = _stories(rebalances)
    shown_stories = stories[-latest:] if latest is not None and latest > 0 else stories
    shown_ids = {story.rebalance_id for story in shown_stories}
    together = [s for s in connect_stories(rebalances) if shown_ids & set(s.rebalance_ids)]
    hints = would_have_helped(rebalances, findings)
    advised = [*hints, *(f.advice for f in findings), *(i.advice for i in incidents or ())]
    verdicts = replay_advised(rebalances, seen_until_ms) if any(WEIGHS in (a or "") for a in advised) else ()
    harmful = [h for h in hints if (found := verdict_on(h, verdicts)) is not None and found.is_harm]
    return Explanation(
        group_id=group_id,
        kind=_kind(rebalances),
        summary=_summary(rebalances, seen_from_ms, seen_until_ms),
        cost_bounds=_cost_bounds(rebalances),
        rebalances=tuple(shown_stories if oldest_first else reversed(shown_stories)),
        left_out_count=len(stories) - len(shown_stories),
        findings=tuple(replace(f, advice=weighed(f.advice, verdicts)) for f in sorted(findings, key=_urgency)),
        standstills=tuple(standstill_stories(rebalances)),
        connect_stories=tuple(together if oldest_first else reversed(together)),
        not_seen=(*not_seen, *not_seen_in(rebalances)),
        would_have_helped=tuple(weighed(hint, verdicts) for hint in hints if hint not in harmful),
        would_not_have_helped=tuple(weighed(hint, verdicts) for hint in harmful),
        incidents=None
        if incidents is None
        else tuple(
            replace(i, advice=weighed(i.advice, verdicts)) if i.group_ids == (group_id,) else i for i in incidents
        ),
        unknown_since_ms=seen_until_ms if seen_until_ms is not None and is_old(seen_until_ms, now_ms) else None,
    )


def explain_dict(explanation: Explanation) -> dict[str, Any]:
    """The explanation as `--output json` prints it. Text from clients stays as it is, since JSON escapes it."""
    found = asdict(explanation)
    for finding in found["findings"]:
        finding["numbers"] = numbers_of(finding["numbers"])
    return found


def explain_text(explanation: Explanation, width: int = 110, *, bounds: bool = False) -> str:
    """The explanation for a terminal of `width` columns. A line is longer only if a single word is. `bounds`: print
    hard bounds, too, beside the likely ranges."""
    width = max(width, 40)
    title = shown(explanation.group_id, max(width - 4, 20))
    head = hanging(f"{title}   {explanation.kind}", width, len(title) + 3 if len(title) < width // 3 else 3)
    lines = []
    unknown_since = (
        {}
        if explanation.unknown_since_ms is None
        else dict.fromkeys((i.cluster_id for i in explanation.incidents or ()), explanation.unknown_since_ms)
    )
    if explanation.incidents is not None:
        said = answer(explanation.incidents, explanation.standstills, unknown_since)
        lines = [*hanging(said, width, 0), ""]
    lines += [*head, *hanging(explanation.summary, width, 0)]
    if bounds and explanation.cost_bounds:
        lines += hanging(f"Hard bounds of what was lost, which no truth passes: {explanation.cost_bounds}.", width, 0)
    incidents, stories_of_connect = explanation.incidents or (), explanation.connect_stories
    lines += incident_lines(incidents, width, bounds=bounds, stories=stories_of_connect, unknown_since=unknown_since)
    of_incidents = {finding_id for i in explanation.incidents or () for finding_id in i.finding_ids}
    for finding in explanation.findings:
        if finding.finding_id not in of_incidents:  # an incident's symptoms are its story once more
            lines += ["", *_finding_lines(finding, width)]
    for standstill in explanation.standstills:
        evidence = f"   evidence  {'   '.join(standstill.evidence[:4])}"
        text = f"{standstill.text}  {standstill.bounds}" if bounds else standstill.text
        lines += ["", *hanging(text, width, _DETAIL_INDENT), *hanging(evidence, width, _DETAIL_INDENT + 10)]
    for connect_story in stories_of_connect:
        if not any(is_part_of(connect_story, i) for i in incidents):
            lines += ["", *_connect_story_lines(connect_story, width)]
    for story in explanation.rebalances:
        lines += ["", *_story_lines(story, width, bounds=bounds)]
    if explanation.left_out_count:
        lines += ["", f"{counted(explanation.left_out_count, 'older rebalance')} left out."]
    if explanation.not_seen:
        lines += ["", *hanging("Not seen: " + "; ".join(explanation.not_seen) + ".", width, _DETAIL_INDENT)]
    for heading, hints in (
        ("What would have helped", explanation.would_have_helped),
        ("What would not have helped", explanation.would_not_have_helped),
    ):
        if hints:
            lines += ["", *hanging(f"{heading}: " + " ".join(hints), width, _DETAIL_INDENT)]
    return "\n".join(lines) + "\n"


def one_line(rebalance: Rebalance) -> str:
    """`2026-11-21 14:03:11 UTC  generation 6 → 7  a member vanished: c3 (/10.0.0.9)  worst partition 12.31 s`."""
    story = story_of(rebalance)
    parts = [story.at, story.number, story.cause + (f": {story.who}" if story.who else "")]
    return "  ".join([*parts, story.cost] if story.cost else parts)


def _stories(rebalances: Sequence[Rebalance]) -> list[RebalanceStory]:
    """One per rebalance; consecutive numbers of which nothing is known become one."""
    stories: list[RebalanceStory] = []
    run: list[Rebalance] = []
    before: Rebalance | None = None
    for rebalance in rebalances:
        if rebalance.outcome == Outcome.MISSING:
            run.append(rebalance)
            continue
        if run:
            stories.append(story_of(run[0], before, skipped_until=rebalance))
            run = []
        stories.append(story_of(rebalance, before))
        before = rebalance
    if run:
        stories.append(story_of(run[0], before))
    return stories


def _kind(rebalances: Sequence[Rebalance]) -> str:
    known = next(
        (r for r in reversed(rebalances) if r.outcome == Outcome.COMPLETED and r.kind == RebalanceKind.REBALANCE), None
    )
    last = known or (rebalances[-1] if rebalances else None)
    if last is None:
        return "no rebalance in the evidence"
    if last.protocol_type == "connect":
        words, member = ["Connect cluster"], "worker"
    else:
        streams = last.assignor == "stream" or last.group_type == GroupType.STREAMS
        name = (
            "Streams application"
            if streams
            else "share group"
            if last.group_type == GroupType.SHARE
            else "consumer group"
        )
        words, member = [name], "member"
        if last.group_type in (GroupType.CLASSIC, GroupType.CONSUMER):
            words.append("classic" if last.group_type == GroupType.CLASSIC else "KIP-848")
    mode = "mode not known" if last.mode == Mode.UNKNOWN else last.mode
    words.append(f"{mode} ({shown(last.assignor)})" if last.assignor else mode)
    count = rebalances[-1].member_count if rebalances[-1].outcome == Outcome.EMPTIED else last.member_count
    words.append(counted(count, member) if count is not None else f"{member}s not known")
    return ", ".join(words)


def _summary(rebalances: Sequence[Rebalance], seen_from_ms: int | None, seen_until_ms: int | None) -> str:
    covered = ""
    if seen_from_ms is not None and seen_until_ms is not None:
        covered = f" The evidence covers {clock(seen_from_ms)} to {clock(seen_until_ms)}."
    if not rebalances:
        return f"No rebalance of this group was seen.{covered}"
    attempts = [r for r in rebalances if r.kind == RebalanceKind.REBALANCE and r.outcome != Outcome.MISSING]
    times = [t for r in rebalances for t in (r.started_at_ms, r.assigned_at_ms, r.ended_at_ms) if t is not None]
    span = ""
    if len(times) > 1 and max(times) > min(times):
        span = f", in {duration(max(times) - min(times))}"
    text = f"{counted(len(attempts), 'rebalance')} in all{span}"
    rewrites = sum(r.kind == RebalanceKind.STATIC_REWRITE for r in rebalances)
    if rewrites:
        text += f" and {counted(rewrites, 'return')} of static members"
    return f"{text}; {_lost(rebalances)}.{covered}"


def _lost(rebalances: Sequence[Rebalance]) -> str:
    unit, cost = unit_of(rebalances[-1:]), cost_of(rebalances)
    still = standstill_seconds(rebalances)
    also = "" if still is None else f", and {still:,.1f} more while a member hung, without a rebalance"
    if cost.estimate is None:
        return f"downtime not known{also}"
    return f"{likely_seconds(cost.estimate, cost.likely_lower, cost.likely_upper)} {unit}-seconds lost{also}"


def _cost_bounds(rebalances: Sequence[Rebalance]) -> str:
    cost = cost_of(rebalances)
    return "" if cost.estimate is None else seconds_bounds(cost.lower, cost.upper)


def _urgency(finding: Finding) -> tuple[bool, int, int]:
    order = {Severity.CRITICAL: 0, Severity.WARNING: 1, Severity.INFO: 2}
    return (finding.status != FindingStatus.OPEN, order.get(finding.severity, 3), -finding.last_seen_at_ms)


def _finding_lines(finding: Finding, width: int) -> list[str]:
    mark = finding.severity if finding.status == FindingStatus.OPEN else f"{finding.severity}, over"
    head = f"{finding.rule_id} ({mark})  "
    lines = hanging(f"{head}{shown(finding.title, 400)}", width, len(head))
    if finding.advice and finding.status == FindingStatus.OPEN:
        lines += hanging(f"{' ' * len(head)}→ {shown(finding.advice, 600)}", width, len(head) + 2)
    return lines


def _connect_story_lines(story: ConnectStory, width: int) -> list[str]:
    head = f"{clock(story.from_ms)}  "
    lines = hanging(f"{head}{story.title}", width, len(head))
    return lines + hanging(f"{' ' * _DETAIL_INDENT}{story.text}", width, _DETAIL_INDENT)


def _story_lines(story: RebalanceStory, width: int, *, bounds: bool) -> list[str]:
    indent = " " * _DETAIL_INDENT
    lines = aside(f"{story.at}  {story.number}   {story.cause}", story.cost, width)
    is_said = len(story.causes) == 1 and story.causes[0].text == story.cause
    for cause in () if is_said else story.causes:
        lines += aside(indent + cause.text, cause.tier, width, hang=_DETAIL_INDENT + 2)
    lines += [line for note in story.notes for line in hanging(indent + note, width, _DETAIL_INDENT + 2)]
    names = max((len(m.resources) for m in story.movements), default=0)
    ways = max((len(m.way) for m in story.movements), default=0)
    for movement in story.movements:
        text = f"{indent}{movement.resources:<{min(names, width // 3)}}  {movement.way:<{min(ways, width // 3)}}"
        hard = f"  {movement.bounds}" if bounds and movement.bounds else ""
        lines += aside(f"{text}  {movement.pause}{hard}".rstrip(), movement.basis, width, hang=_DETAIL_INDENT + 2)
    if story.broker_window_ms is not None:
        lines += hanging(
            f"{indent}(the broker's own window {exact(story.broker_window_ms)}, which is no pause)", width, 4
        )
    if story.evidence:
        lines += hanging(f"{indent}evidence  {'   '.join(story.evidence)}", width, _DETAIL_INDENT + 10)
    return lines


__all__ = [
    "Explanation",
    "RebalanceStory",
    "exact",
    "exact_bounds",
    "explain",
    "explain_dict",
    "explain_text",
    "one_line",
]
