import pytest

from app.answers import evidence, places
from app.answers.evidence import LineEvidence, RecordEvidence
from app.answers.places import Field
from app.queries import Questions
from tests.app.gold_rows import CLUSTER, FILE_ID


@pytest.mark.parametrize(
    ("ref", "place"),
    [
        ("record:__consumer_offsets-7@231", ("__consumer_offsets", 7, 231)),
        ("record:a-b-0@0", ("a-b", 0, 0)),
        ("record:a-b@0", None),
        ("record:-1@0", None),
        ("record:a-1@-2", None),
        ("log:x", None),
        ("", None),
        ("record:a-1@\u0661", None),
        ("record:a-1@99999999999999999999", None),
    ],
)
def test_a_record_ref_leads_to_topic_partition_and_offset(ref: str, place: tuple[str, int, int] | None) -> None:
    assert evidence.parse_record_ref(ref) == place


def test_evidence_of_one_place_is_counted_instead_of_named_again() -> None:
    refs = [
        "log:broker-1/a.log#ff@1",
        "record:a-1@7",
        "log:broker-1/a.log#ff@2",
        "log:broker-2/a.log#ff@1",
        "record:a-1@8",
    ]
    assert evidence.places_in_words(refs) == ["log of broker-1", "record", "2nd line", "log of broker-2", "2nd record"]


@pytest.mark.parametrize(
    ("ref", "place"),
    [
        ("log:broker-1/server.log#ab12@88", ("broker-1", "server.log", "ab12", 88)),
        ("log:n/a#b@c.log#ff@5", ("n", "a#b@c.log", "ff", 5)),
        ("log:n/server.log@5", None),
        ("log:server.log#ff@5", None),
        ("record:a-1@1", None),
        ("log:n/f#x@y", None),
    ],
)
def test_a_log_ref_leads_to_node_file_and_byte(ref: str, place: tuple[str, str, str, int] | None) -> None:
    assert evidence.parse_log_ref(ref) == place


def test_a_record_is_decoded_beside_its_bytes(reader: Questions) -> None:
    found = evidence.find(reader, CLUSTER, "record:__consumer_offsets-7@231")
    assert isinstance(found, RecordEvidence)
    assert (found.kind, found.group_id, found.problem) == ("GroupMetadata", "orders", None)
    by_path = {f.path: f for f in found.fields}
    assert by_path["value.generation"].text == "7"
    assert by_path["value.members[0].assignment.partitions"].text == "orders-0 … orders-2"
    leader = by_path["value.leader"]
    assert found.value is not None
    assert leader.start is not None
    assert leader.end is not None
    assert found.value[leader.start : leader.end] == b"c1-0001"


def test_a_commit_is_decoded_although_no_table_keeps_it(reader: Questions) -> None:
    found = evidence.find(reader, CLUSTER, "record:__consumer_offsets-7@228")
    assert isinstance(found, RecordEvidence)
    assert found.group_id == "orders"
    assert ("committed_offset", "5000") in [(f.path, f.text) for f in found.fields]


def test_a_broken_record_says_where_it_broke(reader: Questions) -> None:
    found = evidence.find(reader, CLUSTER, "record:__consumer_offsets-7@229")
    assert isinstance(found, RecordEvidence)
    assert found.problem is not None
    assert found.problem.startswith("short_buffer")
    assert found.problem_part == "value"
    assert found.problem_at is not None
    assert found.problem_at <= 40
    assert found.fields == ()


def test_a_log_line_stands_in_its_surroundings(reader: Questions) -> None:
    found = evidence.find(reader, CLUSTER, f"log:broker-1/server.log#{FILE_ID}@88123")
    assert isinstance(found, LineEvidence)
    assert [x.byte for x in found.before] == [87_200]
    assert [x.byte for x in found.after] == [88_480]
    assert (found.kind, found.group_id) == ("preparing", "orders")
    marks = {f.path: found.text[f.start : f.end] for f in found.fields if f.start is not None}
    assert marks["group_id"] == "orders"
    assert marks["generation_id"] == "6"


def test_a_rotated_label_still_leads_to_the_line(reader: Questions) -> None:
    found = evidence.find(reader, CLUSTER, f"log:broker-1/server.log.2026-11-21-13#{FILE_ID}@88123")
    assert isinstance(found, LineEvidence)


@pytest.mark.parametrize(
    "ref", ["record:__consumer_offsets-7@999", "log:broker-9/server.log#ff@1", "metadata:1@5", "nonsense", ""]
)
def test_what_is_not_there_is_none(reader: Questions, ref: str) -> None:
    assert evidence.find(reader, CLUSTER, ref) is None


def test_a_text_that_occurs_twice_is_marked_in_order() -> None:
    fields = places.located_in_bytes([("a", "xy"), ("b", "xy")], None, b"..xy..xy")
    assert [(f.start, f.end) for f in fields] == [(2, 4), (6, 8)]


def test_a_number_is_not_marked_inside_another_number() -> None:
    (field,) = places.located_in_text([("generation_id", 6)], "id 16 and 6.")
    assert (field.start, field.end) == (10, 11)


def test_hex_rows_know_the_owner_of_each_byte() -> None:
    fields = (Field(path="a", text="", part="key", start=1, end=3),)
    rows, left_out = places.hex_rows(bytes(range(18)), "key", fields)
    assert [r.start for r in rows] == [0, 16]
    assert left_out == 0
    assert [owner for _, owner in rows[0].cells[:4]] == [None, 0, 0, None]
    assert places.hex_rows(b"\0" * 70_000, "key", ())[1] == 70_000 - 65_536
