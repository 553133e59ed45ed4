"""The closed sets of values that tables hold, one type each. What started a rebalance has more to it: `causes`."""

from __future__ import annotations

from enum import StrEnum


class EvidenceTier(StrEnum):
    """How sure a claim is, best first."""

    RECORDED = "recorded"
    """A record of the broker says so."""
    LOGGED = "logged"
    """Only a log line says so."""
    INFERRED = "inferred"
    """It follows from a difference between records."""
    UNKNOWN = "unknown"


class GroupType(StrEnum):
    """Kinds of groups, by the protocol that members speak with the coordinator."""

    CLASSIC = "classic"
    """Connect's groups are classic too; `protocol_type` sets them apart."""
    CONSUMER = "consumer"
    """KIP-848."""
    SHARE = "share"
    """KIP-932."""
    STREAMS = "streams"
    """KIP-1071."""


class RebalanceKind(StrEnum):
    REBALANCE = "rebalance"
    STATIC_REWRITE = "static_rewrite"
    """A static member came back: the same number is written again."""


class Outcome(StrEnum):
    """How a rebalance ended."""

    COMPLETED = "completed"
    EMPTIED = "emptied"
    """The record without members."""
    SUPERSEDED = "superseded"
    """Another one began before its assignment was delivered."""
    FAILED = "failed"
    """Its preparation ended without a generation."""
    MISSING = "missing"
    """Its number was skipped, and nothing shows why."""
    OPEN = "open"
    """It runs now, or evidence ends inside it."""


class Mode(StrEnum):
    """What members give up before they are assigned again."""

    EAGER = "eager"
    """All they hold."""
    COOPERATIVE = "cooperative"
    """What goes to others, in a second round (KIP-429)."""
    INCREMENTAL = "incremental"
    """The same in Connect (KIP-415)."""
    SERVER = "server"
    """What goes to others, member by member: KIP-848, share, streams."""
    UNKNOWN = "unknown"


class MemberChange(StrEnum):
    JOINED = "joined"
    LEFT = "left"
    STAYED = "stayed"
    REPLACED = "replaced"
    """A static member under a new member id."""


class MovementKind(StrEnum):
    """What happened to one resource."""

    MOVED = "moved"
    RETURNED = "returned"
    """Given up, and given back to the same owner."""
    ASSIGNED = "assigned"
    """Nobody had held it."""
    REVOKED = "revoked"
    """Taken away; a later rebalance gives it to somebody."""
    RESTARTED = "restarted"
    """A Connect task, in place, for a new configuration."""


STOOD_STILL = frozenset({MovementKind.MOVED, MovementKind.RETURNED, MovementKind.RESTARTED})
"""Kinds of movement that have a pause."""


class ResourceType(StrEnum):
    PARTITION = "partition"
    TASK = "task"
    """A task of a connector."""
    CONNECTOR = "connector"
    STREAM_TASK = "stream_task"


class Bound(StrEnum):
    """How a mark bounds an instant: from below, from above, or as an estimate."""

    LOWER = "lower"
    """It was not before."""
    UPPER = "upper"
    """It was not after."""
    ESTIMATE = "estimate"


LOWER, UPPER, ESTIMATE = Bound.LOWER, Bound.UPPER, Bound.ESTIMATE
"""Looked up once: in Python 3.11 an enum's member takes longer to find than a mark's field to fill."""


class Basis(StrEnum):
    """The kind of evidence an estimate rests on: how far from the truth it lies is known by kind (measure/errors)."""

    OWN_LINE = "own_line"
    """The client's or the worker's own log line of that moment."""
    WORKER_LINE = "worker_line"
    """A line of the worker some steps before: it began to stop, to shut down, to join."""
    CREATION = "creation"
    """A connector was created; its start() is called in a thread of its own."""
    STATUS = "status"
    """RUNNING in the status topic, of a worker that ran others before."""
    STATUS_OF_NEW_WORKER = "status_of_new_worker"
    """The first RUNNING of a worker's process: it loads its classes and opens its producer before it writes them."""
    STATUS_OF_OLD_START = "status_of_old_start"
    """A task's RUNNING of a worker that may be of 2.3 to 2.6: they write it before they call start()."""
    STATUS_OF_STOP = "status_of_stop"
    """UNASSIGNED there, right after stop(): a connector's, or a task's of a worker known to be of 3.7 or later."""
    STATUS_OF_OLD_STOP = "status_of_old_stop"
    """A task's of a worker that may be of 2.3 to 2.6: they call stop() first, and write when poll() has returned."""
    COMMIT_AS_IT_LET_GO = "commit_as_it_let_go"
    """The commit that a client makes when it gives partitions up, before its revoked callback."""
    COMMIT_AFTER_CALLBACK = "commit_after_callback"
    """The same of librdkafka and kafka-go, which commit after the callback."""
    COMMIT_AFTER_FETCHES = "commit_after_fetches"
    """The same of a member that may be sarama's: it commits when the fetches on their way are back, up to half a second
    after its handlers ended."""
    COMMIT_BEFORE_QUIET = "commit_before_quiet"
    """kafkajs's last commit: it let go then, or when the fetch after it came back without a message."""
    COMMIT_OF_TASKS = "commit_of_tasks"
    """Kafka Streams' commit as it suspends its tasks: inside the callback, after their producers are flushed."""
    COMMIT_WHEN_ASKED = "commit_when_asked"
    """The first commit after the coordinator asked a KIP-848 member to revoke."""
    AFTER_TRANSACTIONS = "after_transactions"
    """It commits in transactions alone, not as it lets go: the end of the join phase, or its LeaveGroup."""
    LAST_COMMIT = "last_commit"
    """The last one before it came back or was removed: it may have gone on for a while."""
    SIGNS_OF_LIFE = "signs_of_life"
    """It died between its last sign of life and the next one, which did not come."""
    CLOSED_OR_DEAD = "closed_or_dead"
    """The last commit and last sign of life of a member that closes without leaving: it closed then, or died before the
    next sign."""
    TAKEN_AWAY = "taken_away"
    """The record that takes a partition away in a cooperative group."""
    TAKEN_AWAY_AFTER_FETCHES = "taken_away_after_fetches"
    """The same for a member that may be sarama's: it lets go of each partition when the fetch on its way is back."""
    ASKED_TO_REVOKE = "asked_to_revoke"
    """The record by which a KIP-848 member was asked to revoke."""
    REJOIN = "rejoin"
    """The client asked to join again, as it does right after it gave all up."""
    BACK_AFTER_EXPIRY = "back_after_expiry"
    """It asked to join again after its session had ended, and its heartbeats wait for its application: that was busy
    until then, or the process stood still since its last sign of life."""
    LEAVE = "leave"
    """The member left the group, or an administrator removed it."""
    GONE = "gone"
    """It is missing in a record, and nothing shows when it stopped before."""
    MAY_LIVE_ON = "may_live_on"
    """Its last sign of life, and it may have been put out while it worked on."""
    JOIN_PHASE = "join_phase"
    """It let go somewhere in the join phase."""
    DELIVERY = "delivery"
    """The record that gives partitions to a classic member that was there before."""
    DELIVERY_TO_NEW = "delivery_to_new"
    """The same to a member that is new and may be Java's or sarama's: a process loads its classes before the first
    callback."""
    DELIVERY_SOON = "delivery_soon"
    """The same to a member that is neither Java's nor sarama's, and may be of kafka-go or of a library of Python's."""
    DELIVERY_AT_ONCE = "delivery_at_once"
    """The same to a member of librdkafka, franz-go or kafkajs: nothing comes before its callback."""
    DELIVERY_AFTER_FETCHES = "delivery_after_fetches"
    """What a cooperative member that may be sarama's is given beside others: it begins when fetches of those are back,
    and commits within an interval."""
    TASK_DELIVERY = "task_delivery"
    """The record that gives tasks to a Streams member of the classic protocol: it makes them before they run."""
    EPOCH_RECORD = "epoch_record"
    """The record by which a KIP-848 member holds a partition for the first time."""
    TASK_EPOCH_RECORD = "task_epoch_record"
    """The same of a streams group (KIP-1071)."""
    CONNECT_ROUND = "connect_round"
    """The record of a Connect generation, which takes away and gives."""


class TaskState(StrEnum):
    """The state of a connector or task: the status topic's words, and two of ours."""

    RUNNING = "RUNNING"
    UNASSIGNED = "UNASSIGNED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"
    FAILED = "FAILED"
    RESTARTING = "RESTARTING"
    WAITING = "WAITING"
    """It has no worker, by design: Connect's scheduled delay, or a hand-over."""
    LOST = "LOST"
    """Its worker is dead or gone."""


class Severity(StrEnum):
    """The least first."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


class FindingStatus(StrEnum):
    OPEN = "open"
    RESOLVED = "resolved"


def found_at_once(kind: type[StrEnum]) -> None:
    """Let `Kind.MEMBER` be a plain look-up, as it is from Python 3.12 on: 3.11 calls a function for each."""
    for name, member in kind.__members__.items():
        type.__setattr__(kind, name, member)


for _kind in StrEnum.__subclasses__():
    if _kind.__module__ == __name__:
        found_at_once(_kind)
