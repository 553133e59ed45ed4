"""Rows of the tables, each held against what a page shows of it."""

from __future__ import annotations

import html
import re
from collections import Counter

import pytest

from rebalance_audit.warehouse.warehouse import Warehouse
from tests.app.reading import Known, Shown, durations
from tests.app.table_numbers import Row, Walk, hold, of


def words_for(trigger: str) -> str:
    from app import words

    return words.trigger(trigger)


def holds_pause(said: str, r: Row) -> None:
    """A pause is said by its estimate; two owners by the length of their overlap; nothing known by no number."""
    numbers = list(durations(said))
    if r["pause_estimate_ms"] is None:
        assert not numbers, said
    else:
        assert numbers[0].is_near(abs(r["pause_estimate_ms"])), (said, r["pause_estimate_ms"])
        assert ("two owners for" in said) >= (r["pause_estimate_ms"] < 0), said


def check_rebalance(walk: Walk, gold: dict[str, list[Row]], r: Row) -> None:
    key = {"cluster_id": r["cluster_id"], "rebalance_id": r["rebalance_id"]}
    moved, members = of(gold, "movement", **key), of(gold, "rebalance_member", **key)
    page = walk("rebalance", cluster=r["cluster_id"], rebalance=r["rebalance_id"])
    known = Known(
        r,
        moved,
        members,
        [i for i in of(gold, "incident", cluster_id=r["cluster_id"]) if r["rebalance_id"] in i["rebalance_ids"]],
    )
    known.add(of(gold, "mark", cluster_id=r["cluster_id"]))
    moments = [r[c] for c in ("started_at_ms", "started_lower_ms", "joined_at_ms", "assigned_at_ms", "ended_at_ms")]
    moments += [
        m[c]
        for m in moved
        for c in ("stopped_at_lower_ms", "stopped_at_upper_ms", "resumed_at_lower_ms", "resumed_at_upper_ms")
    ]
    known.between(*moments)
    pause, window = max(1, r["pause_estimate_ms"] or 1), max(1, r["broker_window_ms"] or 1)
    known.counts.add(max(pause / window, window / pause))
    kinds = Counter(m["kind"] for m in moved)
    known.counts |= set(kinds.values()) | {
        kinds["returned"] + kinds["restarted"],
        sum(bool(m["overlap_ms"]) for m in moved),
    }
    known.counts |= set(Counter((m["from_member_id"], m["to_member_id"]) for m in moved).values())
    known.counts |= set(Counter(m["from_client_id"] for m in moved).values())
    refs = {
        *r["evidence"],
        *(e for t in r["triggers"] for e in t["evidence"]),
        *(e for m in moved for e in m["evidence"]),
    }
    known.counts.add(len(refs) - 24)  # folded away
    facts = page.facts()
    assert facts["members"].split()[0] == f"{r['member_count']:,}" if r["member_count"] is not None else True
    window_said = list(durations(facts["broker's own window"]))
    assert [n.is_near(r["broker_window_ms"]) for n in window_said] == ([] if r["broker_window_ms"] is None else [True])
    if r["pause_estimate_ms"] is not None:
        holds_pause(facts["longest downtime"], r)
    if moved:
        table = page.frames[0].to_dict("records")
        assert len(table) == len(moved)
        for cells in table:
            m = next(
                m for m in moved if m["resource"] == cells["resource"] or len(moved) == 1 or not m["resource"].isascii()
            )
            if m["resource"] == cells["resource"]:
                holds_pause(cells["downtime"], m)
    hold(page, known)


def words_after(page: Shown, tag: str) -> str:
    found = next((h.value for h in page.at.html if "ra-cost" in h.value), "")
    return " ".join(re.sub(r"<[^>]+>", "", found.partition(tag)[2].partition("</summary>")[0]).split())


def same(a: float | None, b: float | None) -> bool:
    return a is b is None or a == pytest.approx(b, abs=1e-6)


def check_reassignment(walk: Walk, gold: dict[str, list[Row]], r: Row) -> None:
    page = walk("reassignment", cluster=r["cluster_id"], reassignment=r["reassignment_id"])
    steps = of(gold, "reassignment_step", cluster_id=r["cluster_id"], reassignment_id=r["reassignment_id"])
    known = Known(
        r,
        steps,
        of(gold, "finding", cluster_id=r["cluster_id"]),
        of(gold, "leader_election", cluster_id=r["cluster_id"]),
    )
    known.add([of(gold, "rebalance", cluster_id=r["cluster_id"]), of(gold, "reassignment", cluster_id=r["cluster_id"])])
    known.between(
        *(r[c] for c in ("started_at_ms", "ended_at_ms", "stalled_since_ms", "standstill_from_ms")),
        *(s["at_ms"] for s in steps),
    )
    known.between(*(p[c] for p in r["progress"] for c in ("started_at_ms", "in_isr_at_ms")), r["started_at_ms"])
    known.counts |= set(range(len(steps) + 1))
    facts = page.facts()
    if facts:
        for name, column in (
            ("fewer in sync than before", "under_replicated_ms"),
            ("without leader", "without_leader_ms"),
        ):
            said = list(durations(facts[name]))
            assert [n.is_near(r[column]) for n in said] == ([True] if r[column] else []), facts[name]
    hold(page, known)


def refs_of(gold: dict[str, list[Row]], cluster: str) -> list[str]:
    """All that is cited of this cluster's evidence, in a fixed order."""
    rows = [r for t in ("rebalance", "movement", "finding", "incident") for r in of(gold, t, cluster_id=cluster)]
    return sorted({ref for r in rows for ref in r["evidence"]})


def check_record(page: Shown, walked: Warehouse, cluster: str, ref: str) -> None:
    place, _, offset = ref.rpartition("@")
    where, params = 'cluster_id = ? AND "offset" = ?', [cluster, int(offset.rpartition(":")[2])]
    if not ref.startswith("metadata:"):
        topic, _, partition = place.removeprefix("record:").rpartition("-")
        where, params = f"{where} AND topic = ? AND partition = ?", [*params, topic, int(partition)]
    else:
        name = offset.rpartition(":")[0]
        params = [*params, f"__cluster_metadata@{name}" if name else "__cluster_metadata"]
        where = f"{where} AND topic = ?"
    found = walked.query(f"SELECT * FROM bronze.record WHERE {where}", params).to_pylist()
    raws = [{"key": r["key"], "value": r["value"]} for r in found]
    assert f"offset {found[0]['offset']:,} of" in page.words
    dumps = [h.value for h in page.at.html if 'class="ra-hex"' in h.value]
    shown = [bytes.fromhex("".join(hex_of(line) for line in d.splitlines())) for d in dumps]
    raw = next(r for r in raws if next(v for v in r.values() if v is not None).startswith(shown[0]))
    for part, value in zip([p for p in ("key", "value") if raw[p] is not None], shown, strict=True):
        assert value == raw[part][: len(value)]
        assert len(value) == len(raw[part]) or "more</span>" in dumps[-1]
        assert f"{part}, {len(raw[part]):,} byte" in page.words
    for said, where in re.findall(
        r"<td>[^<]*</td><td>(.*?)</td><td class='ra-num'>(.*?)</td>", "\n".join(h.value for h in page.at.html)
    ):
        at = re.fullmatch(r"(key|value) ([0-9a-f]+) … ([0-9a-f]+)", where)
        if at is not None and (number := re.match(r"-?\d+(?=<|$)", said)):
            held = raw[at[1]][int(at[2], 16) : int(at[3], 16) + 1]
            assert int(number[0]) in readings(held), (said, where, held)


def hex_of(line: str) -> str:
    """Of one row of a dump: its bytes, without its place before and its text after them."""
    bare = re.sub(r"<[^>]+>", "", line)
    return "".join(re.findall(r"\b[0-9a-f]{2}\b", bare[8 : 8 + 16 * 3])) if re.match(r"[0-9a-f]{6}  ", bare) else ""


def readings(held: bytes) -> set[int]:
    """The whole numbers that these bytes may stand for in Kafka's formats: big-endian, or a varint with or without
    zigzag; of JSON, its digits; and how many there are."""
    found = {int.from_bytes(held, "big", signed=True), int.from_bytes(held, "big")}
    varint = sum((b & 0x7F) << 7 * i for i, b in enumerate(held[:10]))
    found |= {varint, (varint >> 1) ^ -(varint & 1), varint - 1}
    text = held.decode("ascii", "replace").strip('" ')
    return found | ({int(text)} if re.fullmatch(r"-?\d+", text) else set())


def check_line(page: Shown, walked: Warehouse, cluster: str, ref: str) -> None:
    file, _, byte = ref.rpartition("@")
    row = walked.query(
        "SELECT text FROM bronze.log_line WHERE cluster_id = ? AND file_id = ? AND byte = ?",
        [cluster, file.rpartition("#")[2], int(byte)],
    ).to_pylist()[0]
    assert f"byte {int(byte):,} of" in page.words
    markup = next(h.value for h in page.at.html if "ra-this" in h.value)
    (this,) = re.findall(r'<div class="ra-this">(.*?)</div>', markup, re.S)
    line = row["text"].rstrip("\r\n")
    if line.isprintable():
        assert html.unescape(re.sub(r"<[^>]+>", "", this)) == line
    for table in page.tables():
        for cells in table:
            for number in re.findall(r"\d+", cells["value"]):
                assert number in re.sub(r"\D+", " ", line).split() or number.lstrip("0") in line, (cells, line)
