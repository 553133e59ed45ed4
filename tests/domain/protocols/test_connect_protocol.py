from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.segments import read_segment
from rebalance_audit.domain.protocols.connect_protocol import (
    ERROR_CONFIG_MISMATCH,
    ConnectorTask,
    decode_assignment,
    decode_worker_state,
)
from rebalance_audit.domain.records import GroupMetadataValue, decode_record
from rebalance_audit.domain.wire import DecodeError, DecodeReason
from tests import encoders as enc
from tests.domain.records.refusals import assert_read_or_refused

GOLDEN = Path(__file__).parents[2] / "golden"
CONNECTORS = st.dictionaries(st.text(min_size=1, max_size=4), st.lists(st.integers(-1, 5), max_size=3), max_size=3)


def tasks(connectors: dict[str, list[int]] | None) -> tuple[ConnectorTask, ...]:
    return tuple(
        ConnectorTask(connector=name, task=None if number == -1 else number)
        for name, numbers in (connectors or {}).items()
        for number in numbers
    )


@given(
    st.integers(0, 2),
    CONNECTORS,
    st.one_of(st.none(), CONNECTORS),
    st.integers(0, 1),
    st.integers(-1, 2**63 - 1),
    st.integers(0, 300_000),
)
def test_an_assignment_holds_what_its_version_has(
    version: int,
    assigned: dict[str, list[int]],
    revoked: dict[str, list[int]] | None,
    error: int,
    config_offset: int,
    delay_ms: int,
) -> None:
    data = enc.connect_assignment(
        assigned, revoked, version=version, error=error, config_offset=config_offset, delay_ms=delay_ms
    )
    read = decode_assignment(data)
    assert (read.version, read.error, read.config_offset) == (version, error, config_offset)
    assert (read.leader, read.leader_url) == ("connect-1", "http://localhost:8083/")
    assert read.assigned == tasks(assigned)
    assert read.revoked == (tasks(revoked) if version >= 1 else ())
    assert read.delay_ms == (delay_ms if version >= 1 else 0)
    mandatory = len(data) if version == 0 else len(enc.connect_assignment(None, version=0, config_offset=0)) - 4
    for cut in range(mandatory):
        with pytest.raises(DecodeError) as refused:
            decode_assignment(data[:cut])
        assert (refused.value.reason, refused.value.part) == (DecodeReason.SHORT_BUFFER, "assignment")


def test_null_and_empty_lists_mean_the_same() -> None:
    assert decode_assignment(enc.connect_assignment(None, None)).assigned == ()
    assert decode_assignment(enc.connect_assignment({}, {})) == decode_assignment(enc.connect_assignment(None, None))


def test_version_0_may_not_leave_out_its_list() -> None:
    with pytest.raises(DecodeError) as refused:
        decode_assignment(enc.connect_assignment(None, version=0))
    assert refused.value.reason is DecodeReason.NULL_NOT_ALLOWED


def test_last_fields_may_be_missing_but_not_half_there() -> None:
    full = enc.connect_assignment({"a": [0]}, {"b": [1]}, delay_ms=20_000)
    without_delay = decode_assignment(full[:-4])
    assert (without_delay.revoked, without_delay.delay_ms) == (tasks({"b": [1]}), 0)
    with pytest.raises(DecodeError) as refused:
        decode_assignment(full[:-2])
    assert (refused.value.field, refused.value.at) == ("delay", len(full) - 4)
    nothing_after_offset = full[: len(enc.connect_assignment(None, version=0)) - 4]
    assert decode_assignment(nothing_after_offset).assigned == ()


def test_a_task_a_connector_and_a_connector_with_a_tasks_name() -> None:
    read = decode_assignment(enc.connect_assignment({"alpha": [-1, 0], "alpha-0": [-1]}))
    assert [each.resource for each in read.assigned] == ["alpha", "alpha-0", "alpha-0"]
    assert len(set(read.assigned)) == 3


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_worker_state_carries_the_running_set_since_version_1(version: int) -> None:
    allocation = enc.connect_assignment({"alpha": [-1, 2]}, {"old": [0]}, version=1, delay_ms=7)
    data = enc.connect_worker_state("http://h:8083/", 12, allocation, version=version)
    read = decode_worker_state(data)
    assert (read.version, read.url, read.config_offset) == (version, "http://h:8083/", 12)
    if version == 0:
        assert read.allocation is None
    else:
        assert read.allocation is not None
        # Up to Kafka 3.2 the header inside says 1 even in a sessioned group, whose metadata say 2.
        assert read.allocation.version == 1
        assert read.allocation.assigned == tasks({"alpha": [-1, 2]})
    for cut in range(len(data)):
        if version and cut == len(enc.connect_worker_state("http://h:8083/", 12, version=0)):
            assert decode_worker_state(data[:cut]).allocation is None
            continue
        with pytest.raises(DecodeError) as refused:
            decode_worker_state(data[:cut])
        assert refused.value.part == "subscription"
        assert refused.value.at <= cut


def test_a_fresh_worker_has_no_allocation() -> None:
    assert decode_worker_state(enc.connect_worker_state("u", -1, None)).allocation is None


def test_a_broken_allocation_is_refused_at_its_place_in_the_subscription() -> None:
    data = enc.connect_worker_state("u", 1, enc.connect_assignment({"a": [0]})[:20])
    with pytest.raises(DecodeError) as refused:
        decode_worker_state(data)
    assert (refused.value.part, refused.value.at) == ("subscription", 2 + 3 + 8 + 4 + 17)


def test_a_failed_round_says_so() -> None:
    assert decode_assignment(enc.connect_assignment(None, error=1)).error == ERROR_CONFIG_MISMATCH


@settings(max_examples=200)
@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused_and_nothing_else(data: bytes) -> None:
    for read in (decode_worker_state, decode_assignment):
        assert_read_or_refused(read, data)


_JOINED = re.compile(
    r"Joined group at generation (\d+) with protocol version \d+ and got assignment: Assignment\{error=(\d+), "
    r"leader='([^']*)', leaderUrl='([^']*)', offset=(-?\d+), connectorIds=\[([^]]*)\], taskIds=\[([^]]*)\], "
    r"revokedConnectorIds=\[([^]]*)\], revokedTaskIds=\[([^]]*)\], delay=(\d+)\}"
)


def _names(text: str) -> set[str]:
    return set(filter(None, text.split(", ")))


@pytest.mark.parametrize("scenario", ["4.3.0/connect_worker_joins", "4.3.0/connect_worker_lost"])
def test_running_set_less_revoked_plus_assigned_is_what_the_workers_logged(scenario: str) -> None:
    """The workers' own log lines give the merged whole; the records give the increments."""
    logged: dict[tuple[int, str], tuple[str, ...]] = {}
    for file in (GOLDEN / scenario / "logs").glob("worker-*/connect.log.gz"):
        text = gzip.decompress(file.read_bytes()).decode()
        port = re.search(r"Advertised URI: (\S+)", text) or re.search(r"Advertised URI is (\S+)", text)
        for found in _JOINED.finditer(text):
            logged[int(found[1]), port[1] if port else file.parent.name] = found.groups()
    compared = 0
    for segment in (GOLDEN / scenario / "data").glob("*/__consumer_offsets-*/*.log.gz"):
        for batch in read_segment(segment):
            assert isinstance(batch, list)
            for _, _, key, value, *_ in batch:
                group = decode_record(key, value).value
                if not isinstance(group, GroupMetadataValue) or group.protocol_type != "connect":
                    continue
                for member in group.members:
                    state = decode_worker_state(member.subscription)
                    given = decode_assignment(member.assignment)
                    line = logged.get((group.generation, state.url))
                    if line is None:
                        continue  # another connector's group, or the worker died before it logged
                    running = set(state.allocation.assigned) if state.allocation else set()
                    running = running - set(given.revoked) | set(given.assigned)
                    assert (str(given.error), given.leader, given.leader_url) == line[1:4]
                    assert (str(given.config_offset), str(given.delay_ms)) == (line[4], line[9])
                    assert {each.resource for each in running if each.task is None} == _names(line[5])
                    assert {each.resource for each in running if each.task is not None} == _names(line[6])
                    assert {each.resource for each in given.revoked if each.task is None} == _names(line[7])
                    assert {each.resource for each in given.revoked if each.task is not None} == _names(line[8])
                    compared += 1
    assert compared >= 6


def test_an_allocation_has_the_cooperative_layout_whatever_its_header_says() -> None:
    """Kafka reads it so; a header of 0 in there was found by the differential test."""
    allocation = enc.int16(0) + enc.connect_assignment(None, {"orders": [1]}, delay_ms=5)[2:]
    read = decode_worker_state(enc.connect_worker_state("http://w:1/", 3, allocation))
    assert read.allocation is not None
    assert (read.allocation.version, read.allocation.assigned, read.allocation.delay_ms) == (0, (), 5)
    assert [each.resource for each in read.allocation.revoked] == ["orders-1"]
