"""What the commit kernel says of a row, beside what the domain says of it."""

from __future__ import annotations

from base64 import urlsafe_b64encode

import pyarrow as pa

from rebalance_audit.domain.records import OffsetCommitKey, OffsetCommitValue, decode_record
from rebalance_audit.domain.wire import DecodeError
from spark_jobs.commits.kernel import DecodedCommits, decode_commits
from spark_jobs.commits.keys import COMMIT, NO_REASON, OTHER, REASONS, REFUSED, TOMBSTONE

Pair = tuple[bytes | None, bytes | None]


def decoded(pairs: list[Pair]) -> DecodedCommits:
    keys, values = zip(*pairs, strict=True)
    return decode_commits(pa.array(keys, pa.binary()), pa.array(values, pa.binary()))


def by_domain(key: bytes | None, value: bytes | None) -> tuple[object, ...]:
    try:
        typed = decode_record(key, None).key
    except DecodeError as refused:
        return REFUSED, refused.reason, refused.at
    if not isinstance(typed, OffsetCommitKey):
        return (OTHER,)
    try:
        read = decode_record(key, value).value
    except DecodeError as refused:
        return REFUSED, refused.reason, refused.at
    named = (typed.group, typed.topic, typed.partition)
    if read is None:
        return TOMBSTONE, *named
    assert isinstance(read, OffsetCommitValue)
    return (
        COMMIT,
        *named,
        read.offset,
        read.commit_timestamp,
        read.leader_epoch,
        read.expire_timestamp,
        read.topic_id,
    )


def rows(commits: DecodedCommits) -> list[tuple[object, ...]]:
    """As `by_domain` says it."""
    groups, topics = commits.keys.group.to_pylist(), commits.keys.topic.to_pylist()
    none_if_minus_one = {-1: None}
    found: list[tuple[object, ...]] = []
    for row, verdict in enumerate(commits.verdict.tolist()):
        code = int(commits.key_code[row])
        named = (groups[code], topics[code], int(commits.keys.partition[code]))
        if verdict == REFUSED:
            found.append((verdict, REASONS[commits.reason[row]], int(commits.at[row])))
            continue
        assert commits.reason[row] == NO_REASON
        if verdict == OTHER:
            found.append((verdict,))
        elif verdict == TOMBSTONE:
            found.append((verdict, *named))
        else:
            epoch, expires = int(commits.leader_epoch[row]), int(commits.expire_timestamp[row])
            topic_id = commits.topic_id[row].tobytes()
            found.append(
                (
                    verdict,
                    *named,
                    int(commits.offset[row]),
                    int(commits.commit_timestamp[row]),
                    none_if_minus_one.get(epoch, epoch),
                    none_if_minus_one.get(expires, expires),
                    urlsafe_b64encode(topic_id)[:22].decode() if any(topic_id) else None,
                )
            )
    return found


def assert_as_the_domain_reads(pairs: list[Pair]) -> None:
    actual = rows(decoded(pairs))
    for pair, row in zip(pairs, actual, strict=True):
        assert row == by_domain(*pair), pair
