"""CN008: connectors whose tasks are reconfigured again and again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rebalance_audit.domain.causes import Cause
from rebalance_audit.domain.detect.history import History, HistoryStep, bursts, most_at_once, refs_of
from rebalance_audit.domain.detect.limits import Limits
from rebalance_audit.domain.detect.wording import counted, duration, shown
from rebalance_audit.domain.kinds import Severity
from rebalance_audit.domain.model import Finding

_MIRROR = "mirror"


def rewritten_configs(history: History) -> list[Finding]:
    """A connector's tasks are reconfigured again and again while no worker comes or goes: a loop, quick or in the
    beat of a timer.

    Silent for deploys, which change each connector once or twice, for what comes neither often nor regularly, and where
    it is not known whose configuration changed.
    """
    rounds: dict[str, list[HistoryStep]] = {}
    for step in history.attempts:
        r = step.rebalance
        if r.trigger == Cause.CONNECT_CONFIG_CHANGED and not step.joined and not step.left:
            for connector in r.changed_connectors or ():
                rounds.setdefault(connector, []).append(step)
    found: list[Finding] = []
    for connector, steps in sorted(rounds.items()):
        limits = history.limits.of(connector)
        for part in _loops(steps, limits):
            span_ms = part[-1].at_ms - part[0].first_at_ms
            quiet_ms = max(limits.config_rewrite_window_ms, 2 * span_ms // len(part))
            found += history.finding(
                "CN008",
                history.extent(part, quiet_ms=quiet_ms, about=connector),
                severity=Severity.WARNING,
                title=f"Connector {shown(connector)} of {history.group} was reconfigured {len(part)} times in "
                f"{duration(span_ms)}, once in {duration(span_ms / len(part))}, and no worker came or went",
                detail=f"Each of the {counted(len(part), 'rebalance')} restarts tasks.",
                numbers={"times": len(part), "connector": connector, "span_ms": span_ms},
                advice=_advice(connector),
                connectors=[connector],
                evidence=refs_of((part[0], part[-1]), Cause.CONNECT_CONFIG_CHANGED),
            )
    return found


def _loops(steps: Sequence[HistoryStep], limits: Limits) -> Iterator[Sequence[HistoryStep]]:
    rest: list[HistoryStep] = []
    for part in bursts(steps, limits.config_rewrite_window_ms):
        if most_at_once(part, limits.config_rewrite_window_ms) >= limits.config_rewrites:
            yield part
        else:
            rest += part
    for beat in _beats(rest, limits):
        if len(beat) >= max(limits.config_rewrites, 2):
            yield beat


def _beats(steps: Sequence[HistoryStep], limits: Limits) -> Iterator[Sequence[HistoryStep]]:
    """Runs of steps that lie evenly apart."""
    run: list[HistoryStep] = []
    for step in steps:
        if len(run) > 1:
            beat_ms = (run[-1].at_ms - run[0].at_ms) / (len(run) - 1)
            is_on_beat = abs(step.at_ms - run[-1].at_ms - beat_ms) <= limits.config_rewrite_off_beat * beat_ms
        else:
            is_on_beat = not run or step.at_ms - run[-1].at_ms <= limits.config_rewrite_beat_ms
        if not is_on_beat:
            yield run
            run = run[-1:] if step.at_ms - run[-1].at_ms <= limits.config_rewrite_beat_ms else []
        run.append(step)
    yield run


def _advice(connector: str) -> str:
    mirror = (
        "MirrorMaker 2 does so where it knows one cluster by two aliases: it mirrors its own heartbeats "
        "(src.heartbeats, src.src.heartbeats, …). Give each cluster one alias, or exclude them (topics.exclude)."
    )
    if _MIRROR in connector.lower():
        return mirror
    return (
        f"Find what makes it ask for other task configurations each time (its log, a deploy job, an operator). {mirror}"
    )
