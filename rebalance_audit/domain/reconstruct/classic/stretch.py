"""The time between the record that gave a partition to a member and the record that gives it to the next one."""

from __future__ import annotations

from dataclasses import dataclass

from rebalance_audit.domain.causes import Cause
from rebalance_audit.domain.client_families import ClientFamily, Families, commits_after_callback
from rebalance_audit.domain.frozen import quick
from rebalance_audit.domain.kinds import ESTIMATE, Basis, EvidenceTier
from rebalance_audit.domain.model import LogEvent, Mark
from rebalance_audit.domain.reconstruct.attempts.attempt import Attempt
from rebalance_audit.domain.reconstruct.evidence.commits import Resource
from rebalance_audit.domain.reconstruct.evidence.departures import Departure
from rebalance_audit.domain.reconstruct.evidence.marks import (
    COMMIT_SLACK_AFTER_FETCHES_MS,
    COMMIT_SLACK_MS,
    COMMIT_SLACK_OF_TASKS_MS,
    COMMIT_SLACK_ONE_BY_ONE_MS,
    MAX_WAIT_MS,
    REJOIN_MS,
    after_fetches,
    died_between,
    in_the_quiet,
    is_of_streams,
    recorded,
)
from rebalance_audit.domain.records import GroupMetadataValue, MemberMetadata

from .between import Between

_ONE_BY_ONE_INTERVAL_MS = 2_500
"""sarama commits every second where something moves, the others every five
(docs/clients.md#letting-go-one-by-one)."""
_DEFAULT_OF_SARAMA_MS = 60_000
"""`Consumer.Group.Rebalance.Timeout`. Java, whose members look like sarama's otherwise, writes five minutes."""
TRANSACTIONS_MISSED = 2
"""So many in a row may be aborted, or not have come yet. Chosen."""
KAFKAJS: Families = frozenset({ClientFamily.KAFKAJS})


def may_let_go_one_by_one(families: Families, interval_ms: float | None, rebalance_timeout_ms: int) -> bool:
    """Whether a member that commits so often, with this rebalance timeout in its record, may well be sarama's. None:
    not known how often."""
    is_often = interval_ms is None or interval_ms <= _ONE_BY_ONE_INTERVAL_MS
    return ClientFamily.SARAMA in families and (is_often or rebalance_timeout_ms == _DEFAULT_OF_SARAMA_MS)


def commit_slack_ms(families: Families) -> int:
    """How long before its last commit a member may have let go, ms."""
    return COMMIT_SLACK_AFTER_FETCHES_MS if ClientFamily.SARAMA in families else COMMIT_SLACK_MS


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """One partition between the record that gave it to its old owner and the one that gives it on."""

    owner: MemberMetadata
    resource: Resource
    held: frozenset[Resource]
    """All that the owner held and gives up together; commits of any of these speak for it."""
    between: Between
    is_gone: bool
    """The owner left the group meanwhile."""
    gone: Attempt | None
    """The first record without it."""
    departure: Departure | None
    inferred: Cause | None
    """How it went by its silence, where no line says so."""
    families: Families
    """The client libraries that the owner may be of."""
    lets_go_one_by_one: bool
    """Each partition's handler may have ended by itself: only its own commits speak for it."""
    message_gap_ms: float | None
    """The time between two messages of the slowest partition that it held. None: not known, or not needed."""
    quiet_ms: int | None
    """The longest time in which no message came while it waited for a fetch. None: not known, or not needed."""
    in_transactions: bool
    """It commits in transactions alone, or those before it did: when it lets go it commits nothing."""
    was_idle: bool
    """It may have had nothing to commit: the age of its last commit says nothing."""
    may_be_dropped: bool
    """No line says how it went, and others may have waited for it in vain."""
    shares_client_id: bool
    """Another member has the same client id: a new member with that client id may be either of them."""
    returned: Attempt | None
    """The record in which the same client is there again under a new member id, if that came soon."""
    revoked: Attempt | None
    """The attempt that took the partition away without giving it on."""
    closed_off_beat: bool = False
    """Of a member that may close without leaving: it commits on a timer, which was not the reason of its last
    commit."""
    fenced: LogEvent | None = None
    """A static member whose place another process took while it worked: the line that shows it."""

    @property
    def is_taken_for_java(self) -> bool:
        """Whether it may be Java's, as most are, and its rebalance timeout is not sarama's default."""
        return ClientFamily.JAVA in self.families and self.owner.rebalance_timeout != _DEFAULT_OF_SARAMA_MS

    @property
    def commit_slack_ms(self) -> int:
        """How long before its last commit the old owner may have let go, ms."""
        if self.is_of_streams:
            return COMMIT_SLACK_OF_TASKS_MS
        return COMMIT_SLACK_ONE_BY_ONE_MS if self.lets_go_one_by_one else commit_slack_ms(self.families)

    @property
    def commit_basis(self) -> Basis:
        """The kind of evidence that the commit is which the owner made when it gave up."""
        if self.is_of_streams:
            return Basis.COMMIT_OF_TASKS
        if self.lets_go_one_by_one:
            return Basis.COMMIT_AFTER_FETCHES
        if self.is_kafkajs:
            return Basis.COMMIT_BEFORE_QUIET
        return Basis.COMMIT_AFTER_CALLBACK if commits_after_callback(self.families) else Basis.COMMIT_AS_IT_LET_GO

    @property
    def is_kafkajs(self) -> bool:
        return self.families == KAFKAJS

    def let_go_at(self, commit: tuple[int, str], detail: str) -> Mark:
        """The estimate that it let go at this commit."""
        at_ms, ref = commit
        if self.in_transactions:
            return self._let_go_after(at_ms, ref)
        if self.commit_basis is Basis.COMMIT_BEFORE_QUIET:
            return self._let_go_in_the_quiet(at_ms, detail, ref)
        if self.commit_basis is Basis.COMMIT_AFTER_FETCHES:
            return after_fetches(at_ms, self.message_gap_ms, detail, ref)
        return recorded(ESTIMATE, at_ms, detail, ref, rank=2, basis=self.commit_basis)

    def _let_go_after(self, commit_at_ms: int, ref: str) -> Mark:
        """Its last transaction is behind it, and the next one did not come."""
        left_at_ms = None if self.departure is None else self.departure.at_ms
        until_ms = left_at_ms if self.is_gone else self.between.joined_at_ms
        gap_ms = MAX_WAIT_MS if self.quiet_ms is None else self.quiet_ms
        if until_ms is not None and until_ms <= commit_at_ms + TRANSACTIONS_MISSED * gap_ms:
            detail = "it commits in transactions, not as it lets go: the end of the join phase, or its leave"
            return recorded(ESTIMATE, until_ms, detail, ref, rank=2, basis=Basis.AFTER_TRANSACTIONS)
        ends = [ms for ms in (commit_at_ms + gap_ms, until_ms) if ms is not None]
        window = commit_at_ms, max(commit_at_ms, min(ends))
        detail = "after its last transaction, before the next one, which did not come"
        return died_between(window, sum(window) // 2, detail, ref, rank=2, tier=EvidenceTier.RECORDED)

    def _let_go_in_the_quiet(self, commit_at_ms: int, detail: str, ref: str) -> Mark:
        """kafkajs commits what it has read, and learns of a rebalance only when its fetch is back. The fetch brings a
        message, which it commits, too, or it is empty. So no message came between its last commit and the moment it let
        go."""
        until_ms = commit_at_ms + (MAX_WAIT_MS if self.quiet_ms is None else self.quiet_ms)
        if self.is_gone:
            left_at_ms = None if self.departure is None else self.departure.at_ms
            since_ms = commit_at_ms
            if left_at_ms is not None:
                since_ms, until_ms = max(since_ms, left_at_ms - (until_ms - commit_at_ms)), left_at_ms
            return in_the_quiet((since_ms, until_ms), (since_ms + until_ms) // 2, detail, ref)
        joined_at_ms = self.between.joined_at_ms
        if joined_at_ms is None:
            return in_the_quiet((commit_at_ms, until_ms), commit_at_ms, detail, ref)
        is_alone = self.between.survivor_count == 1 and not self.between.may_have_waited
        if is_alone and joined_at_ms - commit_at_ms > REJOIN_MS[0]:
            window = joined_at_ms - REJOIN_MS[0], joined_at_ms - REJOIN_MS[1]
            return in_the_quiet(
                window, sum(window) // 2, "nobody else had to re-join: it did, and the join phase ended", ref
            )
        return in_the_quiet((commit_at_ms, min(until_ms, joined_at_ms)), commit_at_ms, detail, ref)

    @property
    def is_of_streams(self) -> bool:
        """Whether the group's elected assignor is Kafka Streams'."""
        value = self.gone.value if self.gone is not None else None
        given = self.between.given.value
        return is_of_streams(given if isinstance(given, GroupMetadataValue) else value)

    @property
    def closes_silently(self) -> bool:
        """Whether its members do not leave when they are closed: static ones and Streams'."""
        return self.owner.group_instance_id is not None or self.is_of_streams
