"""The domain's rows as Arrow, column by column, are what a dict of each would have been."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby, pairwise
from operator import attrgetter

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_audit.domain.detect import ASKED_OF_MEMBERS, ASKED_OF_MOVEMENTS, detect_group
from rebalance_audit.domain.kinds import Basis, EvidenceTier, FindingStatus, ResourceType, Severity
from rebalance_audit.domain.measure.pauses import measure
from rebalance_audit.domain.model import ConnectTask, Finding, Mark, Member, Movement, Rebalance, from_row, to_row
from rebalance_audit.domain.reconstruct import reconstruct
from rebalance_audit.warehouse.arrow_tables import arrow_schema, narrow_schema, rows_to_table, whole
from spark_jobs.measuring import with_numbers
from spark_jobs.structs import distinct_items, lists_of, objects_in, struct_array
from tests.captures import CAPTURES, gathered

TABLE = "silver.measured_rebalance"


@pytest.fixture(scope="module")
def rebalances() -> list[Rebalance]:
    """Of every third capture; all protocols are among them."""
    groups = (group for capture in CAPTURES[::3] for group in gathered(capture).groups)
    return [rebalance for group in groups for rebalance in reconstruct(group).rebalances]


@pytest.fixture(scope="module")
def unmeasured_rows(rebalances: list[Rebalance]) -> pa.Table:
    return rows_to_table(TABLE, [to_row(r) | {"place": n} for n, r in enumerate(rebalances)])


@pytest.fixture(scope="module")
def measured(rebalances: list[Rebalance]) -> list[Rebalance]:
    return list(map(measure, rebalances))


@pytest.fixture(scope="module")
def measured_rows(measured: list[Rebalance]) -> pa.Table:
    return rows_to_table(TABLE, [to_row(r) | {"place": n} for n, r in enumerate(measured)])


def test_columns_say_what_rows_say(rebalances: list[Rebalance], unmeasured_rows: pa.Table) -> None:
    made = struct_array(rebalances, pa.struct(list(arrow_schema(TABLE))), place=range(len(rebalances)))
    assert made.to_pylist() == unmeasured_rows.to_pylist()


def test_objects_come_back_as_they_were(measured: list[Rebalance], measured_rows: pa.Table) -> None:
    assert objects_in(Rebalance, measured_rows) == measured


def test_tasks_and_findings_come_back_as_they_were() -> None:
    task = ConnectTask(
        cluster_id="c", group_id="g", resource_type=ResourceType.TASK, connector="files", task=0, state="RUNNING",
        from_ms=1, evidence=("record:a",),
    )  # fmt: skip
    finding = Finding(
        cluster_id="c", finding_id="f", rule_id="RB001", severity=Severity.WARNING, subject_type="group", subject="g",
        status=FindingStatus.OPEN, first_seen_at_ms=1, last_seen_at_ms=2, title="a\nb", evidence=("x", "y"),
    )  # fmt: skip
    tasks = rows_to_table("silver.connect_task", [to_row(task), to_row(replace(task, evidence=()))])
    assert objects_in(ConnectTask, tasks) == [task, replace(task, evidence=())]
    findings = rows_to_table("silver.finding", [to_row(finding)])
    assert objects_in(Finding, findings) == [finding]
    assert objects_in(Finding, findings.drop_columns(["evidence"])) == [replace(finding, evidence=())]
    assert objects_in(Finding, findings.slice(1)) == []


def test_objects_that_say_the_same_share_it() -> None:
    """A group of long history is in memory as a whole."""
    members = [
        Member(member_id=f"c-{number}", session_timeout_ms=45_000, assigned=("orders-0", "orders-1"))
        for number in range(2)
    ]
    rebalance = Rebalance(cluster_id="c", rebalance_id="r", group_id="g", members=tuple(members))
    [found] = objects_in(Rebalance, rows_to_table(TABLE, [to_row(rebalance)]))
    one, other = found.members
    assert found == rebalance
    assert one.assigned is other.assigned
    assert one.session_timeout_ms is other.session_timeout_ms


def test_packed_objects_are_made_as_they_were(measured: list[Rebalance], measured_rows: pa.Table) -> None:
    packed = ("members", "movements", "triggers")
    for found, expected in zip(objects_in(Rebalance, measured_rows, packed), measured, strict=True):
        for name in packed:
            objects, made = getattr(found, name), getattr(expected, name)
            assert tuple(objects) == made
            assert (len(objects), bool(objects), objects[:1]) == (len(made), bool(made), made[:1])
        assert replace(found, **{name: getattr(expected, name) for name in packed}) == expected


def test_lists_that_are_not_known_are_as_from_a_row() -> None:
    rows = rows_to_table(TABLE, [to_row(Rebalance(cluster_id="c", rebalance_id="r", group_id="g")) | NOT_KNOWN])
    assert objects_in(Rebalance, rows) == [from_row(Rebalance, row) for row in rows.to_pylist()]


def test_narrowed_lists_lack_the_other_fields_alone(unmeasured_rows: pa.Table) -> None:
    rows, kept = unmeasured_rows, ("resource", "kind")
    narrow = whole(rows, narrow_schema(rows.schema, {"movements": kept}))
    assert narrow.drop_columns(["movements"]).equals(rows.drop_columns(["movements"]))
    assert narrow["movements"].to_pylist() == [
        [{name: movement[name] for name in kept} for movement in movements]
        for movements in rows["movements"].to_pylist()
    ]


def test_rules_find_the_same_without_what_they_do_not_ask(measured: list[Rebalance], measured_rows: pa.Table) -> None:
    asked = {"members": ASKED_OF_MEMBERS, "movements": ASKED_OF_MOVEMENTS}
    narrow = objects_in(Rebalance, whole(measured_rows, narrow_schema(measured_rows.schema, asked)), ("movements",))
    place = attrgetter("cluster_id", "group_id")
    for (_, narrow_group), (_, whole_group) in zip(groupby(narrow, place), groupby(measured, place), strict=True):
        assert detect_group(list(narrow_group)) == detect_group(list(whole_group))


NOT_KNOWN = {"triggers": None, "members": None, "movements": None, "evidence": None}


def test_measuring_columns_gives_what_measuring_each_rebalance_gives(
    unmeasured_rows: pa.Table, measured_rows: pa.Table
) -> None:
    batches = map(with_numbers, unmeasured_rows.to_batches(max_chunksize=50))
    assert pa.Table.from_batches(batches).to_pylist() == measured_rows.to_pylist()


MARKS = st.lists(
    st.builds(
        Mark,
        bound=st.sampled_from(["lower", "upper", "estimate"]),
        at_ms=st.integers(0, 400),
        tier=st.sampled_from([tier.value for tier in EvidenceTier]),
        rank=st.integers(1, 3),
        detail=st.sampled_from(["its commit", "its log"]),
        ref=st.sampled_from(["a", "b"]),
        basis=st.sampled_from([None, Basis.DELIVERY]),
    ),
    max_size=4,
).map(tuple)


def _of_rebalance(
    movement: st.SearchStrategy[Movement],
) -> st.SearchStrategy[tuple[int | None, int | None, list[Movement]]]:
    """(resources, when the assignment came, movements): quick, slow or nobody knows."""
    return st.tuples(st.sampled_from([None, 6]), st.sampled_from([None, 385, 399]), st.lists(movement, max_size=6))


@given(st.data())
def test_columns_with_any_marks_are_measured_as_each_rebalance_is(data: st.DataObject) -> None:
    few_marks = st.sampled_from(data.draw(st.lists(MARKS, min_size=1, max_size=3)))
    movement = st.builds(
        Movement,
        resource_type=st.just("partition"),
        resource=st.just("orders-0"),
        kind=st.sampled_from(["moved", "returned", "restarted", "assigned", "revoked"]),
        is_avoidable=st.sampled_from([None, True, False]),
        stop_marks=few_marks,
        resume_marks=few_marks,
        first_commit_at_ms=st.sampled_from([None, 200]),
    )
    rows = [
        Rebalance(
            cluster_id="c",
            rebalance_id=str(n),
            group_id="g",
            resource_count=count,
            movements=tuple(movements),
            joined_at_ms=380,
            assigned_at_ms=assigned_at_ms,
        )
        for n, (count, assigned_at_ms, movements) in enumerate(data.draw(st.lists(_of_rebalance(movement), max_size=4)))
    ]
    unmeasured = rows_to_table(TABLE, [to_row(r) | {"place": n} for n, r in enumerate(rows)])
    expected = rows_to_table(TABLE, [to_row(measure(r)) | {"place": n} for n, r in enumerate(rows)])
    measured = map(with_numbers, unmeasured.to_batches())
    assert [row for batch in measured for row in batch.to_pylist()] == expected.to_pylist()


def test_nothing_makes_an_empty_array() -> None:
    assert len(struct_array([], pa.struct(list(arrow_schema(TABLE))))) == 0


def test_a_null_list_is_an_empty_one_also_in_a_slice() -> None:
    lists = lists_of(pa.array([[9], [1, 2], None, [3]], pa.list_(pa.int64())).slice(1))
    assert (lists.items.to_pylist(), lists.offsets) == ([1, 2, 3], [0, 2, 2, 3])
    assert lists.around(lists.items).to_pylist() == [[1, 2], [], [3]]


def test_equal_lists_are_kept_once() -> None:
    a, b, unknown = {"n": 1, "s": "a"}, {"n": 1, "s": "b"}, {"n": 1, "s": None}
    lists = [[a, b], [a, b], [a], [], None, [b], [a, b], [unknown], [unknown], [b, a]]
    column = pa.array([[b], *lists], pa.list_(pa.struct({"n": pa.int64(), "s": pa.string()}))).slice(1)
    kept, places = lists_of(column).distinct()
    rows = kept.items.to_pylist()
    once = [rows[start:end] for start, end in pairwise(kept.offsets)]
    assert once == [[a, b], [a], [], [b], [unknown], [b, a]]
    assert [once[place] for place in places] == [one or [] for one in lists]


def test_of_no_lists_none_is_distinct() -> None:
    kept, places = lists_of(pa.array([], pa.list_(pa.struct({"n": pa.int64()})))).distinct()
    assert (kept.items.to_pylist(), kept.offsets, places) == ([], [0], [])


def test_equal_structs_are_kept_once_whatever_lists_they_hold() -> None:
    kind = pa.struct({"n": pa.int64(), "names": pa.list_(pa.string())})
    a, b, c = {"n": 1, "names": ["x", "y"]}, {"n": 1, "names": ["x,y"]}, {"n": 1, "names": ["y", "x"]}
    empty, unknown, of_unknown = {"n": 1, "names": []}, {"n": 1, "names": None}, {"n": 1, "names": [None]}
    items = [a, b, a, empty, unknown, c, of_unknown, empty, {"n": None, "names": ["x", "y"]}, unknown, of_unknown]
    alike, places = distinct_items(pa.array([c, *items], kind).slice(1))
    assert alike.to_pylist() == [a, b, empty, unknown, c, of_unknown, {"n": None, "names": ["x", "y"]}]
    assert [alike.to_pylist()[place] for place in places] == items
