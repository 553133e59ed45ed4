"""Which client library a member of a classic group may be, and what such clients do and do not do.

Where several libraries fit what is known of a member, all of them are kept.
"""

from __future__ import annotations

from rebalance_audit.domain.client_families.families import ALL, ClientFamily, Families, families_shown, narrowed, shown
from rebalance_audit.domain.client_families.habits import (
    HABITS,
    INSTANCE,
    POLL_INTERVAL,
    REBALANCE,
    RECORDS,
    SESSION,
    WITH_STATIC_MEMBERS,
    Habits,
    commits_after_callback,
    commits_when_idle,
    lives_while_silent,
    may_commit_after_loss,
    may_commit_at_close,
    may_commit_late,
    may_drop_its_assignment,
    may_end_its_generation,
    may_let_go_without_coordinator,
    may_poll_out,
    must_poll_out,
    never_commits_when_idle,
    prepares_first,
    starts_at_once,
)
from rebalance_audit.domain.client_families.recognition import families_of, families_of_reason, family_of_client_id

__all__ = [
    "ALL",
    "HABITS",
    "INSTANCE",
    "POLL_INTERVAL",
    "REBALANCE",
    "RECORDS",
    "SESSION",
    "WITH_STATIC_MEMBERS",
    "ClientFamily",
    "Families",
    "Habits",
    "commits_after_callback",
    "commits_when_idle",
    "families_of",
    "families_of_reason",
    "families_shown",
    "family_of_client_id",
    "lives_while_silent",
    "may_commit_after_loss",
    "may_commit_at_close",
    "may_commit_late",
    "may_drop_its_assignment",
    "may_end_its_generation",
    "may_let_go_without_coordinator",
    "may_poll_out",
    "must_poll_out",
    "narrowed",
    "never_commits_when_idle",
    "prepares_first",
    "shown",
    "starts_at_once",
]
