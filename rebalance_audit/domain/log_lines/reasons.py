"""Why a rebalance began, out of the words of its `Preparing to rebalance` line and of the client that caused it."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from rebalance_audit.domain.causes import Cause
from rebalance_audit.domain.log_lines.templates import Template, template

NOT_PROVIDED = "not provided"
_CLIENT_REASON = "; client reason: "
_MAX_SEPARATORS = 4
_CACHED = 256
_CACHED_LENGTH = 1_024
"""One line is asked about several times: for its own rebalance, for who left and for who came. Longer ones are not
kept, so that the cache is bounded."""
_ENDS_IN_UUID = re.compile(r"-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\Z")
_AFTER_UUID = re.compile(r"(?<=-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}), ")
_INSTANCE = " with group instanceid "
_STATE = "PreparingRebalance|CompletingRebalance|Stable|Empty|Dead"


class ClassifiedReason(NamedTuple):
    """A cause in our words (docs/vocabulary.md)."""

    trigger: Cause
    member_ids: tuple[str, ...]
    """The members it names; often none."""
    detail: str
    """Kafka's and the client's own words, shortened to what the trigger does not say."""


class SplitReason(NamedTuple):
    reason: str
    client_reason: str | None
    """None: the client sent none."""


# Client reasons of joins, by how they begin; None: they do not say why. Each library has words of its own: Java's since
# 3.2 (KIP-800), franz-go's (consumer_group.go), sarama's (consumer_group_session.go). The others send none.
_JAVA_JOIN_REASONS: tuple[tuple[str, Cause | None], ...] = (
    ("need to revoke partitions", Cause.COOPERATIVE_FOLLOW_UP),
    ("cached metadata has changed", Cause.TOPIC_METADATA_CHANGED),
    ("subscription has changed", Cause.SUBSCRIPTION_CHANGED),
    ("received assignment does not match the current subscription", Cause.SUBSCRIPTION_CHANGED),
    ("rebalance enforced by user", Cause.CLIENT_REQUESTED),
    ("Shutdown requested", Cause.CLIENT_REQUESTED),
    ("Active tasks corrupted", Cause.CLIENT_REQUESTED),
    # A JoinGroup or SyncGroup went to a broker that was the coordinator no more, or not yet again.
    ("rebalance failed due to NotCoordinatorException", Cause.COORDINATOR_FAILOVER),
    ("rebalance failed due to CoordinatorLoadInProgressException", Cause.COORDINATOR_FAILOVER),
    ("rebalance failed due to ", None),
    ("group is already rebalancing", None),
    ("need to re-join with the given member-id", None),
    ("encountered ", None),
    ("consumer pro-actively leaving the group", None),
    ("offset commit failed since group is already rebalancing", None),
    ("authentication error in heartbeat thread", None),
    ("connect worker requested rejoin", None),
    # Streams 3.2 says this of a follow-up at once, too; from 3.3 on `_FOLLOW_UP` tells them apart.
    ("Scheduled probing rebalance", None),
)
_FRANZ_GO_JOIN_REASONS: tuple[tuple[str, Cause | None], ...] = (
    ("after revoking what we lost from a rebalance", Cause.COOPERATIVE_FOLLOW_UP),
    ("rejoining because we are the leader and noticed some topics have new partitions", Cause.TOPIC_METADATA_CHANGED),
    ("leader detected that partitions on topics another member is consuming", Cause.TOPIC_METADATA_CHANGED),
    ("rejoining because there are more topics to consume", Cause.SUBSCRIPTION_CHANGED),
    ("instance group leader restarted and was reassigned old plan", Cause.SUBSCRIPTION_CHANGED),
    ("topics purged from consuming", Cause.SUBSCRIPTION_CHANGED),
    ("from ForceRebalance", Cause.CLIENT_REQUESTED),
    ("beginning to manage the group lifecycle", None),
    ("rejoining from normal rebalance", None),
    ("rejoining after we previously errored and backed off", None),
    ("offset commit error: ", None),
)
_AFTER_AN_ERROR = ("rejoining after we previously errored and backed off", "offset commit error: ")
"""What such a member owns differs from before, so it is logged with other metadata, and its topics are the same."""
_SARAMA_JOIN_REASONS: tuple[tuple[str, Cause | None], ...] = (
    ("partitions were added to a subscribed topic", Cause.TOPIC_METADATA_CHANGED),
    ("group is rebalancing", None),
    ("member id is not known by the group coordinator", None),
    ("generation id is not current", None),
    ("group instance id has been fenced", None),
    ("a ConsumeClaim handler has exited", None),
    ("the heartbeat goroutine has stopped", None),
)
_JOIN_REASONS = _JAVA_JOIN_REASONS + _FRANZ_GO_JOIN_REASONS + _SARAMA_JOIN_REASONS
_FOLLOW_UP = re.compile(r"triggered followup rebalance scheduled for ([0-9]{1,19})")
_LEAVE_REASONS: tuple[tuple[str, Cause], ...] = (
    ("consumer poll timeout has expired", Cause.MEMBER_POLL_TIMEOUT),
    ("worker poll timeout has expired", Cause.MEMBER_POLL_TIMEOUT),
    ("member was removed by an admin", Cause.MEMBER_REMOVED_BY_ADMIN),
)

JAVA_REASONS = (
    *(words for words, _ in _JAVA_JOIN_REASONS),
    "triggered followup rebalance scheduled for ",
    "consumer poll timeout has expired",
    "the consumer unsubscribed from all topics",
)
"""How reasons begin that Java's clients alone send. `the consumer is being closed` is sarama's, too."""
FRANZ_GO_REASONS = (*(words for words, _ in _FRANZ_GO_JOIN_REASONS), "client leaving group per normal operation")
SARAMA_REASONS = tuple(words for words, _ in _SARAMA_JOIN_REASONS)
HANDLER_EXITED = "a ConsumeClaim handler has exited"
"""Sarama's reason where the application's handler returned before its session had ended."""


def split_reason(text: str) -> SplitReason:
    """The text inside `(reason: …)` as the coordinator's reason and the client's.

    Member ids and client reasons are free text and may contain the separator: the first place that leaves a known
    reason on its left is taken.
    """
    at = first = text.find(_CLIENT_REASON)
    for _ in range(_MAX_SEPARATORS):
        if at < 0 or _known(text[:at]) is not None:
            break
        at = text.find(_CLIENT_REASON, at + 1)
    else:
        at = first
    if at < 0:
        at = first
    if at < 0:
        return SplitReason(text.removesuffix("."), None)
    return SplitReason(text[:at], tidy_client_reason(text[at + len(_CLIENT_REASON) :]))


def tidy_client_reason(text: str | None) -> str | None:
    """None where the client sent nothing: 3.9 leaves it empty, later releases write `not provided`."""
    return None if text is None or text.strip() in ("", NOT_PROVIDED) else text


def option(text: str) -> str | None:
    """The x of Scala's `Some(x)`, or of a plain Java x; None for `None`, `null` and `Optional.empty`."""
    if text in ("None", "null", "Optional.empty"):
        return None
    return text[5:-1] if text.startswith("Some(") and text.endswith(")") else text


def split_member_ids(text: str) -> tuple[str, ...]:
    """The ids of `Set(a, b)`, `List(a)`, `[a, b]`, `a, b`. Ids may contain commas; those of brokers end in a UUID."""
    text = re.sub(r"\A(?:\w+\(|\[)", "", text)
    text = text.removesuffix(")").removesuffix("]")
    if not text:
        return ()
    by_uuid = _AFTER_UUID.split(text)
    if all(_ENDS_IN_UUID.search(member_id) for member_id in by_uuid):
        return tuple(by_uuid)
    return tuple(text.split(", "))


def ends_in_uuid(member_id: str) -> bool:
    """Whether it looks like a member id made by a broker."""
    return _ENDS_IN_UUID.search(member_id[-60:]) is not None


def is_known_reason(text: str) -> bool:
    """Whether Kafka could have written this inside `(reason: …)`."""
    return _known(split_reason(text).reason) is not None


def classify_reason(reason: str | None, client_reason: str | None = None) -> ClassifiedReason:
    """The cause a `Preparing to rebalance` line names. `reason` may still hold the client's part.

    With `reason` None or empty the client's reason is that of a departure. Connect's own causes (configuration,
    delay, follow-up) are not in these words: a worker's re-join is `leader_rejoined` or `subscription_changed` here.
    """
    is_short = len(reason or "") + len(client_reason or "") <= _CACHED_LENGTH
    return _classified(reason, client_reason) if is_short else _classified.__wrapped__(reason, client_reason)


@lru_cache(maxsize=_CACHED)
def _classified(reason: str | None, client_reason: str | None) -> ClassifiedReason:
    if not reason:
        return classify_leave(client_reason)
    if client_reason is None:
        reason, client_reason = split_reason(reason)
    known = _known(reason.removesuffix("."))
    if known is None:
        return ClassifiedReason(Cause.UNKNOWN, (), _detail(reason, client_reason))
    fields, classify = known
    return classify(fields, reason, tidy_client_reason(client_reason))


def instance_id_of(reason: str) -> str | None:
    """The group.instance.id in the reason of a `Preparing to rebalance` line up to 2.4:
    `with group instanceid Some(till-1)`. Later releases have a line of their own for it."""
    if _INSTANCE not in reason:
        return None
    known = _known(split_reason(reason).reason)
    text = None if known is None else known[0].get("group_instance_id")
    return None if text is None else option(text)


def is_in_free_words(client_reason: str) -> bool:
    """Whether no library here has these words of its own: enforceRebalance("…") of Java, or an error of sarama's."""
    return not client_reason.startswith(tuple(words for words, _ in _JOIN_REASONS)) and not _FOLLOW_UP.match(
        client_reason
    )


def classify_leave(client_reason: str | None, member_ids: tuple[str, ...] = ()) -> ClassifiedReason:
    """The cause behind an explicit LeaveGroup with this client reason."""
    client_reason = tidy_client_reason(client_reason)
    for beginning, trigger in _LEAVE_REASONS:
        if client_reason is not None and client_reason.startswith(beginning):
            return ClassifiedReason(trigger, member_ids, client_reason)
    return ClassifiedReason(Cause.MEMBER_LEFT, member_ids, client_reason or "")


def classify_fence(reason: str) -> ClassifiedReason:
    """The cause behind `Member … fenced from the group because <reason>` (KIP-848 and after)."""
    if "session expired" in reason:
        return ClassifiedReason(Cause.MEMBER_SESSION_EXPIRED, (), reason)
    if "failed to sync" in reason:
        return ClassifiedReason(Cause.MEMBER_SYNC_TIMEOUT, (), reason)
    if "failed to join" in reason or "failed to transition" in reason or "failed to revoke" in reason:
        return ClassifiedReason(Cause.MEMBER_DROPPED_AT_REBALANCE_TIMEOUT, (), reason)
    return ClassifiedReason(Cause.UNKNOWN, (), reason)


def _detail(reason: str, client_reason: str | None) -> str:
    return f"{reason}{_CLIENT_REASON}{client_reason}" if client_reason else reason


_Fields = dict[str, str | None]
_Classify = Callable[[_Fields, str, str | None], ClassifiedReason]


def _members(fields: _Fields) -> tuple[str, ...]:
    if ids := fields.get("member_ids"):
        return split_member_ids(ids)
    member_id = fields.get("member_id")
    return (member_id,) if member_id else ()


def _always(trigger: Cause) -> _Classify:
    def classify(fields: _Fields, reason: str, client_reason: str | None) -> ClassifiedReason:
        return ClassifiedReason(trigger, _members(fields), client_reason or reason)

    return classify


def _joined(fields: _Fields, reason: str, client_reason: str | None) -> ClassifiedReason:
    """A new member is the cause: what the client was doing when it came does not matter."""
    return ClassifiedReason(Cause.MEMBER_JOINED, _members(fields), client_reason or "")


def _left(fields: _Fields, reason: str, client_reason: str | None) -> ClassifiedReason:
    return classify_leave(client_reason, _members(fields))


def _rejoined(otherwise: Cause) -> _Classify:
    """A known member re-joined: the client's own words say why, if it sent any."""

    def classify(fields: _Fields, reason: str, client_reason: str | None) -> ClassifiedReason:
        members = _members(fields)
        if client_reason is None:
            return ClassifiedReason(otherwise, members, reason)
        if follow_up := _FOLLOW_UP.match(client_reason):
            trigger = Cause.STREAMS_FOLLOW_UP if int(follow_up[1]) == 0 else Cause.STREAMS_PROBING
            return ClassifiedReason(trigger, members, client_reason)
        for beginning, means in _JOIN_REASONS:
            if client_reason.startswith(beginning):
                if otherwise == Cause.SUBSCRIPTION_CHANGED and beginning in _AFTER_AN_ERROR:
                    return ClassifiedReason(Cause.UNKNOWN, members, client_reason)
                return ClassifiedReason(means or otherwise, members, client_reason)
        # A Java client sends its own reasons or the user's; sarama's may be any error's: see is_in_free_words.
        return ClassifiedReason(Cause.CLIENT_REQUESTED, members, client_reason)

    return classify


_REASONS: tuple[tuple[Template, _Classify], ...] = tuple(
    (template(text), classify)
    for text, classify in (
        ("Adding new member <member_id> with group instance id <group_instance_id>", _joined),
        (f"Adding new member <member_id>{_INSTANCE}<group_instance_id>", _joined),
        (f"Member <member_id> is joining group during <group_state:{_STATE}>", _rejoined(Cause.UNKNOWN)),
        (f"Member <member_id> joining group during <group_state:{_STATE}>", _rejoined(Cause.UNKNOWN)),
        (
            f"Updating metadata for member <member_id> during <group_state:{_STATE}>",
            _rejoined(Cause.SUBSCRIPTION_CHANGED),
        ),
        (f"leader <member_id> re-joining group during <group_state:{_STATE}>", _rejoined(Cause.LEADER_REJOINED)),
        (f"Leader <member_id> re-joining group during <group_state:{_STATE}>", _rejoined(Cause.LEADER_REJOINED)),
        ("removing member <member_id> on LeaveGroup", _left),
        ("Removing member <member_id> on LeaveGroup", _left),
        ("explicit `LeaveGroup` request for (<member_ids>) members", _left),
        ("removing member <member_id> on heartbeat expiration", _always(Cause.MEMBER_SESSION_EXPIRED)),
        ("Removing <member_ids> on pending sync request expiration", _always(Cause.MEMBER_SYNC_TIMEOUT)),
        (
            "Updating metadata for static member <member_id> with instance id <group_instance_id>",
            _always(Cause.STATIC_MEMBER_REPLACED),
        ),
        (
            "Group's selectedProtocol will change because static member <member_id> with instance id "
            "<group_instance_id> "
            "joined with change of protocol",
            _always(Cause.ASSIGNOR_CHANGED),
        ),
        ("error when storing group assignment during SyncGroup (member: <member_id>)", _always(Cause.APPEND_FAILED)),
        ("Error when storing group assignment during SyncGroup (member: <member_id>)", _always(Cause.APPEND_FAILED)),
        (
            "Error <error:word> when storing group assignment{ }?during SyncGroup (member: <member_id>)",
            _always(Cause.APPEND_FAILED),
        ),
        ("Freshly-loaded group <rest>over capacity <rest_of_it>", _always(Cause.COORDINATOR_FAILOVER)),
        ("Downgrade group <group_id> from consumer to classic<rest>", _always(Cause.GROUP_CONVERTED)),
    )
)


_BARE_REASONS: tuple[tuple[Template, _Classify], ...] = (
    (template("Adding new member <member_id>"), _joined),  # to 2.2
    (template("Updating metadata for member <member_id>"), _rejoined(Cause.SUBSCRIPTION_CHANGED)),  # to 2.5
)
"""These end in the member's id: nothing but its UUID shows that the text ends there."""
FORMS = tuple(form.text for form, _ in (*_REASONS, *_BARE_REASONS))
"""Every reason that is known, as it stands inside `(reason: …)`."""


def _known(reason: str) -> tuple[_Fields, _Classify] | None:
    """The fields of a known reason and how it is classified."""
    reason = reason.removesuffix(".")
    for form, classify in _REASONS:
        if form.needle in reason:
            readings = form.readings(reason)
            if readings:
                return readings[0], classify
    for form, classify in _BARE_REASONS:
        for fields in form.readings(reason):
            if ends_in_uuid(fields["member_id"] or ""):
                return fields, classify
    return None
