"""Whose doing an incident is, for a page."""

from __future__ import annotations

from app.answers.rows import IncidentRow
from app.answers.runbook import rule_name
from app.words import Html, fill
from rebalance_audit.domain.incidents.blame import blamed


def whose_doing(i: IncidentRow) -> Html:
    """For a page."""
    who, did = blamed(i, rule_name)
    return fill("<b>{who}</b>{did}", who=who, did=did) if who else fill("{did}", did=did)
