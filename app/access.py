"""Who is looking, and what they may see. Rules come from the settings file through `rebalance-audit ui`; without rules
nobody is asked, and everybody sees all."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import streamlit as st

from rebalance_audit.domain.teams import TeamOf

ENVIRONMENT_ACCESS = "REBALANCE_AUDIT_ACCESS"
"""The rules as JSON: claim, members (of teams: claim values or addresses), auditors; teams, connectors and names of
`TeamOf`."""


@dataclass(frozen=True, slots=True)
class Rules:
    claim: str
    """Which claim of the identity provider names what `members` and `auditors` list."""
    members: Mapping[str, frozenset[str]]
    """By team."""
    auditors: frozenset[str]
    team_of: TeamOf


@dataclass(frozen=True, slots=True)
class Visitor:
    """One person who looks at a page."""

    name: str | None = None
    """Their address, or the provider's id of them; None where nobody is asked."""
    teams: frozenset[str] | None = None
    """Whose groups and connectors they see; None: all."""
    may_answer: bool = True
    """Acknowledge and silence."""


SEES_ALL = Visitor()
"""Everybody, where nobody is asked."""
AUDITOR = Visitor(may_answer=False)
"""Without their name."""
NOBODY = Visitor(teams=frozenset(), may_answer=False)
"""Who is not logged in sees nothing."""


@lru_cache(maxsize=1)
def rules() -> Rules | None:
    """None: nobody is asked who they are."""
    return parsed(text) if (text := os.environ.get(ENVIRONMENT_ACCESS)) else None


def parsed(text: str) -> Rules:
    given = json.loads(text)
    teams = tuple((name, tuple(clusters), tuple(groups)) for name, clusters, groups in given["teams"])
    return Rules(
        claim=given["claim"],
        members={team: frozenset(members) for team, members in given["members"].items()},
        auditors=frozenset(given["auditors"]),
        team_of=TeamOf(
            teams,
            given["names"],
            tuple((name, *(tuple(patterns) for patterns in rest)) for name, *rest in given.get("connectors", ())),
        ),
    )


def visitor() -> Visitor:
    """The visitor of the page that is being drawn."""
    found = rules()
    if found is None:
        return SEES_ALL
    return visitor_of(found, st.user.to_dict()) if is_logged_in() else NOBODY


def is_logged_in() -> bool:
    return st.user.to_dict().get("is_logged_in") is True


def visitor_of(rules: Rules, claims: Mapping[str, Any]) -> Visitor:
    """By the claims that the identity provider signed. An address counts only if the provider has verified it."""
    stated = claims.get(rules.claim)
    held = {str(each) for each in (stated if isinstance(stated, list) else [stated]) if each}
    address = claims.get("email")
    if address and claims.get("email_verified") is True:
        held.add(str(address))
    name = str(address or claims.get("sub") or "somebody")
    if held & rules.auditors:
        return replace(AUDITOR, name=name)
    return Visitor(name=name, teams=frozenset(team for team, members in rules.members.items() if held & members))
