"""Findings to people: what is new since the last time, to each target, once per finding and state.

A target is a URL: `http(s)://…` gets Alertmanager's v2 JSON by POST; everything else is apprise's (`slack://`, `mailtos://`,
`pagerduty://` …). The state file remembers per target what was delivered, and is written after each delivery, never
before: a crash between the two sends one message twice (at least once), and none is lost. A target that fails keeps
what it missed for the next time and holds up no other.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rebalance_audit.alerts.message import EVIDENCE_SHOWN, News, body, title
from rebalance_audit.alerts.state import locked, read_state, write_state
from rebalance_audit.alerts.target import AlertError, NotDelivered, masked, sender_for
from rebalance_audit.domain.kinds import FindingStatus, Severity
from rebalance_audit.domain.model import Finding

_SEVERITIES = tuple(Severity)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertReport:
    delivered_count: int = 0
    """Findings told, over all targets."""
    failures: tuple[str, ...] = ()
    """One sentence per target that could not be reached; tried again next time."""
    printed: tuple[str, ...] = ()
    """Dry run: the messages that would have been sent."""


def send_alerts(
    findings: Sequence[Finding],
    targets: Sequence[str],
    state_path: str | os.PathLike[str],
    dry_run: bool = False,
    min_severity: str = Severity.WARNING,
    *,
    is_all: bool = False,
    runbook: str = "docs/runbook.md",
    out: Callable[[str], object] = print,
) -> AlertReport:
    """Tell each target what is new.

    Open findings that were not told, or told as less grave than they became; findings that are over and were told
    when open; and, once there is a state, findings that came and went between two runs. `is_all`: `findings` are all
    there are, so what was told and is no longer among them is withdrawn. Raises AlertError for a target that is none,
    and a state file that cannot be read.
    """
    if min_severity not in _SEVERITIES:
        raise AlertError(f"There is no severity {min_severity!r}: use one of {', '.join(_SEVERITIES)}.")
    senders = [sender_for(target, runbook) for target in targets]
    path = Path(state_path)
    if dry_run:
        state = read_state(path)
        printed: list[str] = []
        for sender in senders:
            for news in _news(findings, state, sender.key, min_severity, is_all):
                printed.append(f"[{sender.name}] {title(news)}\n{body(news, runbook)}")
                out(printed[-1])
        return AlertReport(printed=tuple(printed))
    with locked(path):
        state = read_state(path)
        delivered, failures = 0, []
        for sender in senders:
            if sender.key not in state["delivered"]:
                _remember_past(findings, state, sender.key)
            pending = list(_news(findings, state, sender.key, min_severity, is_all))
            try:
                for sent in sender.send(pending):
                    _remember(state, sender.key, sent)
                    write_state(path, state)
                    delivered += len(sent)
            except NotDelivered as failure:
                failures.append(f"{sender.name} did not take the alerts, they are kept for the next time: {failure}")
        if is_all:
            _forget(findings, state)
        write_state(path, state)
    return AlertReport(delivered_count=delivered, failures=tuple(failures))


def _news(
    findings: Sequence[Finding], state: dict[str, Any], key: str, min_severity: str, is_all: bool
) -> Iterator[News]:
    told: dict[str, dict[str, Any]] = state["delivered"].get(key, {})
    is_known_target = key in state["delivered"]
    least = _SEVERITIES.index(min_severity)
    for finding in sorted(findings, key=lambda f: (f.first_seen_at_ms, f.finding_id)):
        last = told.get(finding.finding_id)
        was_told = last is not None and last["status"] == FindingStatus.OPEN
        is_grave = _rank(finding.severity) >= least
        if was_told and last is not None and finding.status == FindingStatus.OPEN:
            if is_grave and _rank(finding.severity) > _rank(last["severity"]):
                yield News(
                    finding=finding, status=FindingStatus.OPEN, severity=finding.severity, told_as=last["severity"]
                )
            continue
        if last is not None and last["status"] == finding.status:
            continue
        if finding.status == FindingStatus.OPEN:
            if is_grave:
                yield News(finding=finding, status=FindingStatus.OPEN, severity=finding.severity)
        elif was_told and last is not None:
            yield News(finding=finding, status=FindingStatus.RESOLVED, severity=last["severity"])
        elif is_known_target and is_grave:  # it came and went between two runs
            yield News(finding=finding, status=FindingStatus.RESOLVED, severity=finding.severity)
    if is_all:
        present = {f.finding_id for f in findings}
        for finding_id, last in sorted(told.items()):
            if finding_id not in present and last["status"] == FindingStatus.OPEN:
                finding = Finding(**{**last["finding"], "evidence": tuple(last["finding"]["evidence"])})
                yield News(finding=finding, status="withdrawn", severity=last["severity"])


def _rank(severity: str) -> int:
    return _SEVERITIES.index(severity) if severity in _SEVERITIES else -1


def _remember_past(findings: Sequence[Finding], state: dict[str, Any], key: str) -> None:
    """A new target is not told what was over before it was there."""
    told = state["delivered"].setdefault(key, {})
    for finding in findings:
        if finding.status == FindingStatus.RESOLVED:
            told.setdefault(finding.finding_id, {"status": FindingStatus.RESOLVED, "severity": finding.severity})


def _remember(state: dict[str, Any], key: str, sent: Sequence[News]) -> None:
    told = state["delivered"].setdefault(key, {})
    for news in sent:
        entry: dict[str, Any] = {"status": news.status, "severity": news.severity}
        if news.status == FindingStatus.OPEN:  # what a withdrawal will need
            f = news.finding
            entry["finding"] = {
                "cluster_id": f.cluster_id, "finding_id": f.finding_id, "rule_id": f.rule_id, "severity": f.severity,
                "subject_type": f.subject_type, "subject": f.subject, "status": f.status,
                "first_seen_at_ms": f.first_seen_at_ms, "last_seen_at_ms": f.last_seen_at_ms, "title": f.title,
                "evidence": list(f.evidence[:EVIDENCE_SHOWN]),
            }  # fmt: skip
        if news.status == "withdrawn":
            told.pop(news.finding.finding_id, None)
        else:
            told[news.finding.finding_id] = entry


def _forget(findings: Sequence[Finding], state: dict[str, Any]) -> None:
    """What is over and no longer in any table need not be remembered."""
    present = {f.finding_id for f in findings}
    for told in state["delivered"].values():
        for finding_id in [i for i, e in told.items() if i not in present and e["status"] == FindingStatus.RESOLVED]:
            del told[finding_id]


__all__ = ["AlertError", "AlertReport", "masked", "send_alerts"]
