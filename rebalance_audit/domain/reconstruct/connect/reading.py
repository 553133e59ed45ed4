"""Reads the generations of a Connect group: from its records, and where there is none from its workers' own logs.

Bytes hold increments under `compatible` and `sessioned` and everything under `default`; a worker's log line always
holds the merged whole. Source: docs/kafka_writes.md#connect-increments (ExtendedAssignment.java, KIP-415).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from rebalance_audit.domain.kinds import Mode, Outcome
from rebalance_audit.domain.log_lines.numbers import java_int
from rebalance_audit.domain.model import LogEvent
from rebalance_audit.domain.protocols import connect_protocol
from rebalance_audit.domain.protocols.connect_protocol import ConnectAssignment, ConnectorTask, ConnectWorkerState
from rebalance_audit.domain.reconstruct.attempts.attempt import Attempt
from rebalance_audit.domain.records import MemberMetadata
from rebalance_audit.domain.wire import DecodeError

from .lines import JoinedLines, WorkerLines
from .rounds import Resource, Round, Rounds, Worker, worker_id_of

SESSIONED = "sessioned"
MODES = {"default": Mode.EAGER, "compatible": Mode.INCREMENTAL, SESSIONED: Mode.INCREMENTAL}
PROTOCOL_NAMES = {0: "default", 1: "compatible", 2: SESSIONED}
_TASK_NAME = re.compile(r"(?P<connector>.+)-(?P<task>\d{1,10})\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _ReadMember:
    """A member of one record with its embedded bytes read."""

    member: MemberMetadata
    state: ConnectWorkerState | None
    """None: not readable."""
    assignment: ConnectAssignment | None
    """None: not readable, or of length zero: the leader gave it nothing new."""
    is_readable: bool
    """The assignment."""


def with_worker_lines(attempts: Sequence[Attempt], lines: WorkerLines) -> list[Attempt]:
    """The attempts, and those that only the workers' logs prove: a generation a worker joined is not missing."""
    result = list(attempts)
    places: dict[int, list[Attempt]] = {}
    for attempt in attempts:
        if not attempt.rewrite_seq:
            places.setdefault(attempt.number, []).append(attempt)
    for group in lines.joined:
        own = next((a for a in places.get(group.generation_id, ()) if group.is_near(a.known_at_ms)), None)
        if own is not None:
            if own.record is None and own.received is None and own.missing_to in (None, own.number):
                own.received, own.missing_to = group.first, None
            continue
        before = [i for i, a in enumerate(result) if a.known_at_ms is not None and a.known_at_ms <= group.first_at_ms]
        place = before[-1] + 1 if before else 0
        near = result[place - 1] if before else result[0] if result else None
        result.insert(
            place,
            Attempt(number=group.generation_id, incarnation=near.incarnation if near else 0, received=group.first),
        )
    return result


def rounds_of(attempts: Sequence[Attempt], lines: WorkerLines) -> Rounds:
    """Every generation of which the workers' work is known, in order."""
    read = {a.record.ref: [_read(m) for m in a.value.members] for a in attempts if a.record and a.value}
    shared = _shared_urls(read.values())
    urls = _urls(read.values(), lines)
    rounds: list[Round] = []
    for index, attempt in enumerate(attempts):
        value = attempt.value
        if attempt.rewrite_seq or attempt.missing_to is not None:
            continue
        if value is not None and attempt.record is not None:
            rounds.append(_from_record(index, attempt, read[attempt.record.ref], shared, lines))
        elif attempt.outcome == Outcome.EMPTIED:
            rounds.append(Round(index=index, attempt=attempt, mode=Mode.UNKNOWN, assignor=None, workers=()))
        else:
            group = lines.joined_near(attempt.number, attempt.known_at_ms)
            if group is not None:
                rounds.append(_from_lines(index, attempt, group, urls, lines))
    if any(_is_incremental(r) for r in rounds):
        # Up to 2.3 no line says the protocol (docs/versions.md#231).
        rounds = [replace(r, mode=Mode.INCREMENTAL) if _says_no_protocol(r) else r for r in rounds]
    return Rounds(rounds)


def _says_no_protocol(found: Round) -> bool:
    return found.is_partial and found.mode == Mode.UNKNOWN and found.assignor is None


def _is_incremental(found: Round) -> bool:
    """Whether it took something away, or announced a delay, as the eager protocol cannot."""
    return _says_no_protocol(found) and (bool(found.delay_ms) or any(w.taken for w in found.workers))


def _from_record(
    index: int, attempt: Attempt, read: Sequence[_ReadMember], shared: frozenset[str], lines: WorkerLines
) -> Round:
    value = attempt.value
    assert value is not None
    mode = MODES.get(value.protocol or "", Mode.UNKNOWN)
    workers: list[Worker] = []
    given: list[ConnectAssignment] = []
    for member in read:
        if member.assignment is not None:
            given.append(member.assignment)
        workers.append(_worker(member, mode, shared, lines, attempt))
    return Round(
        index=index,
        attempt=attempt,
        mode=mode if value.members else Mode.UNKNOWN,
        assignor=value.protocol,
        workers=tuple(sorted(workers, key=lambda w: w.member_id)),
        leader_member_id=value.leader,
        config_offset=max((a.config_offset for a in given), default=None),
        delay_ms=max((a.delay_ms for a in given), default=None),
        error=max((a.error for a in given), default=connect_protocol.ERROR_NONE),
    )


def _worker(read: _ReadMember, mode: Mode, shared: frozenset[str], lines: WorkerLines, attempt: Attempt) -> Worker:
    member, state, assignment = read.member, read.state, read.assignment
    url = state.url if state is not None else None
    worker_id = worker_id_of(url)
    is_eager = mode == Mode.EAGER or (mode == Mode.UNKNOWN and state is not None and state.version == 0)
    given = _resources(assignment.assigned) if assignment is not None else frozenset()
    taken = _resources(assignment.revoked) if assignment is not None and not is_eager else frozenset()
    held: frozenset[Resource] | None = None
    if state is not None and not is_eager:
        # The old revoked list and delay inside the allocation are history.
        held = _resources(state.allocation.assigned) if state.allocation is not None else frozenset()
    running: frozenset[Resource] | None = None
    if read.is_readable:
        running = given if is_eager else None if held is None else (held - taken) | given
    node = lines.node_of(member.member_id, worker_id)
    joined = lines.joined_at(node, attempt.number, attempt.known_at_ms or 0) if node is not None else None
    if running is None and joined is not None:
        running = _line_resources(joined, "connectors", "tasks")
    return Worker(
        key=member.member_id if worker_id is None or url in shared else worker_id,
        member_id=member.member_id,
        worker_id=worker_id,
        url=url,
        node=node,
        metadata=member,
        seen_config_offset=state.config_offset if state is not None else None,
        held=held,
        given=given,
        taken=taken,
        running=running,
        joined=joined,
    )


def _read(member: MemberMetadata) -> _ReadMember:
    state: ConnectWorkerState | None = None
    assignment: ConnectAssignment | None = None
    is_readable = True
    with suppress(DecodeError):
        state = connect_protocol.decode_worker_state(member.subscription)
    try:
        assignment = connect_protocol.decode_assignment(member.assignment) if member.assignment else None
    except DecodeError:
        is_readable = False
    return _ReadMember(member, state, assignment, is_readable)


def _from_lines(index: int, attempt: Attempt, group: JoinedLines, urls: dict[str, str], lines: WorkerLines) -> Round:
    first = group.first.fields
    version = first.get("protocol_version")
    protocol = PROTOCOL_NAMES.get(version) if isinstance(version, int) else None
    workers = []
    for node, line in sorted(group.by_node.items()):
        client_id = str(line.fields.get("client_id") or "")
        worker_id = client_id.removeprefix("connect-") if re.fullmatch(r"connect-.+:\d+", client_id) else None
        member_id = lines.member_of(node, attempt.number)
        url = urls.get(worker_id or "") or urls.get(member_id or "") or urls.get(node) or _like(urls, worker_id)
        worker_id = worker_id or worker_id_of(url)
        workers.append(
            Worker(
                key=worker_id or node,
                member_id=member_id or client_id or node,
                worker_id=worker_id,
                url=url,
                node=node,
                metadata=None,
                held=None,
                taken=_line_resources(line, "revoked_connectors", "revoked_tasks") or frozenset(),
                running=_line_resources(line, "connectors", "tasks"),
                joined=line,
            )
        )
    alike = lines.client_ids_of_several
    # Before 3.7 all workers may have the same client id: they are kept apart from the first on.
    workers = [
        replace(w, member_id=f"{w.member_id}@{w.node}", key=w.node or w.key) if w.member_id in alike else w
        for w in workers
    ]
    fields = [line.fields for line in group.by_node.values()]
    return Round(
        index=index,
        attempt=attempt,
        mode=MODES.get(protocol or "", Mode.UNKNOWN),
        assignor=protocol,
        workers=tuple(workers),
        leader_member_id=first.get("leader"),
        config_offset=_largest(f.get("config_offset") for f in fields),
        delay_ms=_largest(f.get("delay_ms") for f in fields),
        error=max(_error(f.get("error")) for f in fields),
        is_partial=True,
    )


def _urls(records: Iterable[Sequence[_ReadMember]], lines: WorkerLines) -> dict[str, str]:
    """URLs by host:port, by member id and by node: whatever a worker is known by, its address stays."""
    found: dict[str, str] = {}
    for read in (member for members in records for member in members):
        if read.state is not None:
            found[read.member.member_id] = found[worker_id_of(read.state.url) or ""] = read.state.url
    for group in lines.joined:
        for line in group.by_node.values():
            leader, url = line.fields.get("leader"), line.fields.get("leader_url")
            if leader and url:
                found[leader] = found[worker_id_of(url) or ""] = url
    for node, url in lines.addresses.items():
        found[node] = found[worker_id_of(url) or ""] = url
    for group in lines.joined:
        for node in group.by_node:
            url = found.get(lines.member_of(node, group.generation_id) or "")
            if url is not None:
                found.setdefault(node, url)
    return found


def _like(urls: dict[str, str], worker_id: str | None) -> str | None:
    """The URL of a worker whose address is known, in the form that the group's other workers' have."""
    if worker_id is None:
        return None
    known, url = next(((k, u) for k, u in sorted(urls.items()) if k == worker_id_of(u)), ("", ""))
    return url.replace(known, worker_id) if known else None


def _shared_urls(records: Iterable[Sequence[_ReadMember]]) -> frozenset[str]:
    """URLs that two workers of one generation claim: a badly set advertised name. They distinguish nobody."""
    shared: set[str] = set()
    for members in records:
        counts = Counter(m.state.url for m in members if m.state is not None)
        shared |= {url for url, count in counts.items() if count > 1}
    return frozenset(shared)


def _resources(tasks: Iterable[ConnectorTask]) -> frozenset[Resource]:
    return frozenset((t.connector, t.task) for t in tasks)


def _line_resources(line: LogEvent, connectors: str, tasks: str) -> frozenset[Resource] | None:
    if line.fields.get(connectors) is None and line.fields.get(tasks) is None:
        return None
    found: set[Resource] = {(name, None) for name in line.fields.get(connectors) or ()}
    for name in line.fields.get(tasks) or ():
        match = _TASK_NAME.match(name)
        if match and (task := java_int(match["task"])) is not None:
            found.add((match["connector"], task))
    return frozenset(found)


def _error(word: object) -> int:
    """The error as the line has it: a number in every release seen."""
    text = str(word)
    if text.isdecimal() and len(text) < 6:
        return int(text)
    return connect_protocol.ERROR_NONE if word is None else connect_protocol.ERROR_CONFIG_MISMATCH


def _largest(values: Iterable[object]) -> int | None:
    return max((v for v in values if isinstance(v, int)), default=None)
