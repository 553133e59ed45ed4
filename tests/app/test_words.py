import html
from datetime import UTC
from zoneinfo import ZoneInfo

import pytest

from app import words
from app.words import fill
from rebalance_audit.commands.output import csv_cell
from rebalance_audit.domain import tables
from rebalance_audit.domain.detect.wording import shown
from rebalance_audit.domain.visible import visible


@pytest.mark.parametrize(
    ("ms", "said"),
    [
        (None, "not known"),
        (0, "0 ms"),
        (48, "48 ms"),
        (999.4, "999 ms"),
        (999.6, "1.0 s"),
        (12_310, "12.3 s"),
        (59_949, "59.9 s"),
        (59_951, "1 min"),
        (245_000, "4 min 5 s"),
        (3_599_600, "1 h"),
        (12_000_000, "3 h 20 min"),
        (187_200_000, "2 d 4 h"),
        (-2_000, "\u22122.0 s"),
    ],
)
def test_a_duration_is_said_as_people_say_it(ms: float | None, said: str) -> None:
    assert words.duration(ms) == said


@pytest.mark.parametrize(
    ("lower", "estimate", "upper", "said"),
    [
        (10_020, 12_310, 13_400, "12.3 s (10.0 … 13.4)"),
        (30, 50, 90, "50 ms (30 … 90)"),
        (30, 1_500, 70_000, "1.5 s (30 ms … 1 min 10 s)"),
        (2_970, 3_000, None, "3.0 s (3.0 … no upper bound)"),
        (None, 40, None, "40 ms (no bounds)"),
        (0, 0, 0, "0 ms (0 … 0)"),
        (None, None, None, "not known: no evidence of when it stopped or went on"),
    ],
)
def test_bounds_stand_beside_the_estimate_and_share_its_unit(
    lower: int | None, estimate: int | None, upper: int | None, said: str
) -> None:
    assert words.bounds(lower, estimate, upper) == said


def test_a_negative_pause_is_two_owners_and_no_pause() -> None:
    assert words.pause(-2_000, -1_500, -900) == "none, but two owners for 1.5 s (at most 2.0 s)"
    assert words.pause(-20, 30, 90) == "30 ms (from two owners for 20 ms … 90 ms)"


def test_small_damage_is_not_said_to_be_none() -> None:
    assert words.seconds(0.04, "partition") == "0.04 partition-seconds"
    assert words.seconds(0.001, "partition") == "under 0.01 partition-seconds"
    assert words.seconds(0.0, "partition") == "0.0 partition-seconds"
    assert words.seconds(1_234.4, "task") == "1,234 task-seconds"
    assert words.seconds(None, "task") == "not known: task-seconds"


def test_of_two_costs_the_one_that_is_none_is_left_out() -> None:
    assert words.costs(132.0, 91.6) == "132 partition-seconds and 91.6 task-seconds"
    assert words.costs(132.0, 0.0) == "132 partition-seconds"
    assert words.costs(0.0, 91.6) == "91.6 task-seconds"
    assert words.costs(0.0, 0.0) == "0.0 partition-seconds"
    assert words.costs(None, 0.0) == "0.0 task-seconds"
    assert words.costs(None, None) == ""
    assert words.unit_of_costs(132.0, 91.6) == "resource"
    assert words.unit_of_costs(132.0, 0.0) == "partition"
    assert words.unit_of_costs(None, 91.6) == "task"
    assert words.unit_of_costs(0.0, None) is None


def test_no_line_ends_inside_a_duration_and_names_stay_as_they_are() -> None:
    said = fill("{c} stood for {t}, at 14:03, in 3 generations", c=words.code("5 min job"), t="39 min 53 s")
    assert words.unbroken(said) == (
        "<code>5 min job</code> stood for 39\u00a0min\u00a053\u00a0s, at 14:03, in 3 generations"
    )
    assert words.unbroken(fill("{s}", s="91.6 task-seconds, 12.3 s (10.0 \u2026 13.4)")) == (
        "91.6\u00a0task-seconds, 12.3\u00a0s (10.0 \u2026 13.4)"
    )
    assert words.unbroken(fill('<i title="{t}">{t}</i>', t="4 h")) == '<i title="4 h">4\u00a0h</i>'


def test_every_control_and_direction_character_is_seen() -> None:
    assert words.visible("a\n\x00\x1b[31m\x7f\x07\u202eb\u200b") == "a\\n\\x00\\x1b[31m\\x7f\\x07\\u202eb\\u200b"
    assert words.visible("Größe 漢字 naïve") == "Größe 漢字 naïve"


def test_a_tab_in_a_name_looks_alike_in_the_app_in_stored_titles_and_on_a_terminal() -> None:
    name = "a\tb\u00a0c\x85"
    assert words.name(name) == shown(name) == visible(name) == csv_cell(name) == "a\\tb\\xa0c\\x85"


def test_a_lone_surrogate_does_not_break_a_page() -> None:
    words.fill("{x}", x=words.visible("a\ud800b")).encode()


def test_long_text_loses_its_middle() -> None:
    assert words.cut("abcdefghij", 7) == "abc…hij"
    assert words.cut("abcdefg", 7) == "abcdefg"
    assert len(words.cut("x" * 500, 60)) == 60


def test_foreign_text_is_escaped_and_ours_is_not() -> None:
    hostile = "<script>alert(1)</script>\" onload='x'"
    page = words.fill("<b>{a}</b>{b}", a=hostile, b=words.Html("<i>ok</i>"))
    assert page == f"<b>{html.escape(hostile)}</b><i>ok</i>"
    assert "<script" not in words.code(hostile)


def test_a_cut_name_keeps_the_whole_of_it_in_its_tooltip() -> None:
    shown = words.code("a" * 40 + '"' + "b" * 40, 20)
    assert 'title="' + "a" * 40 + "&quot;" + "b" * 40 + '"' in shown
    assert "…" in shown


def test_advice_is_cut_where_a_sentence_ends() -> None:
    said = "Look at the host; its log says why. If it restarts, a static member keeps its partitions."
    assert words.whole_sentences(said, 200) == said
    assert words.whole_sentences(said, 60) == "Look at the host; its log says why."
    assert words.whole_sentences(said, 30) == "Look at the host."
    assert words.whole_sentences("a" * 40, 11) == "aaaaa\u2026aaaaa"


def test_an_absent_name_and_an_empty_one_differ() -> None:
    assert words.name(None) == "not known"
    assert words.name("") == "‹empty›"


def test_a_label_read_as_markdown_cannot_become_a_link_picture_formula_or_emoji() -> None:
    said = words.markdown("**b** [x](y) ![p](q) $z$ :smile: <i> a_b")
    for sign in ("**", "[x]", "](", "$z$", ":smile:", "<i>", "a_b"):
        assert sign not in said


def test_an_instant_is_said_in_the_readers_zone() -> None:
    at = 1_795_269_011_231
    assert words.instant(at, UTC) == "2026-11-21 13:50:11.231 UTC"
    assert words.instant(at, ZoneInfo("Europe/Berlin")) == "2026-11-21 14:50:11.231 CET"
    assert words.minute(at, UTC) == "2026-11-21 13:50 UTC"
    assert words.instant(None) == "not known"


def test_a_time_that_is_no_date_is_said_to_be_none() -> None:
    assert words.instant(2**62, UTC) == f"not a date: {2**62} ms"
    assert words.clock(-(2**62), UTC) == "not known"


def test_an_unknown_zone_is_read_as_utc() -> None:
    assert words.zone("Mars/Olympus") is UTC
    assert words.zone("../../etc/passwd") is UTC
    assert words.zone(None) is UTC


def test_what_began_days_ago_has_its_date() -> None:
    at, now = 1_795_269_011_231, 1_795_269_011_231 + 26 * 3_600_000
    assert words.began(at, now, ZoneInfo("Europe/Berlin")) == "21 Nov 14:50"
    assert words.began(now - 12 * 60_000, now, UTC) == "12 min ago"


def test_ago_is_rough_above_a_minute() -> None:
    assert words.ago(0, 45 * 86_400_000 + 14 * 3_600_000) == "45 d ago"
    assert words.ago(0, 12 * 60_000 + 7_000) == "12 min ago"
    assert words.ago(0, 9 * 3_600_000 + 50 * 60_000) == "9 h 50 min ago"
    assert words.ago(0, 14 * 3_600_000 + 50 * 60_000) == "15 h ago"  # or it does not fit its column
    assert words.ago(0, 50 * 3_600_000 + 50 * 60_000) == "2 d 3 h ago"
    assert words.ago(10_000, 0) == "in 10.0 s"
    assert words.ago(None, 0) == "not known when"


def test_runs_of_partitions_are_said_as_runs() -> None:
    assert words.resources(("o-3", "o-0", "o-1", "o-2", "o-10")) == "o-0 … o-3, o-10"
    assert words.resources(("o-4", "o-5")) == "o-4, o-5"
    assert words.resources(()) == "nothing"
    assert words.resources(None) == "not known"
    assert words.resources(tuple(f"t{i}-0" for i in range(9)), 3) == "t0-0, t1-0, t2-0 and 6 more"


def test_counts_agree_with_their_noun() -> None:
    assert words.count(1, "rebalance") == "1 rebalance"
    assert words.count(2_014, "rebalance") == "2,014 rebalances"
    assert words.count(None, "member") == "not known: number of members"


def test_every_value_of_the_contract_has_its_words() -> None:
    assert set(words.OUTCOME_WORDS) == set(tables.OUTCOMES)
    assert set(words.MODE_WORDS) == set(tables.MODES)
    assert set(words.TIER_WORDS) == set(words.TIER_SENTENCES) == set(tables.TIERS)
    assert set(words.SEVERITY_WORDS) == set(tables.SEVERITIES)
    assert set(words.FAMILY_WORDS) == set(words.FAMILY_SIGN) == set(words.FAMILIES)


@pytest.mark.parametrize("trigger", tables.TRIGGERS)
def test_every_cause_ends_a_sentence(trigger: str) -> None:
    assert words.because(trigger).startswith(("because ", "as ", "for "))


def test_a_round_of_the_protocol_is_no_reason() -> None:
    assert words.because("cooperative_follow_up") == "as the second round of a cooperative change"
    assert words.because("member_left") == "because a member left"
    assert words.because("unknown") == "for a cause not known"


def test_a_number_says_which_kind_it_is() -> None:
    assert words.number_of(7, None) == "generation 7"
    assert words.number_of(None, 12) == "epoch 12"
    assert words.number_of(7, None, 1) == "generation 7, rewritten (1)"
    assert words.number_of(None, None) == "number not known"


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("range", "range"),
        (None, None),
        ("org.apache.kafka.coordinator.group.assignor.SimpleAssignor@1734b7b1", "SimpleAssignor"),
        ("com.example.Mine", "com.example.Mine"),
        ("<b>a.B@1f</b>", "<b>a.B@1f</b>"),
    ],
)
def test_an_assignor_that_java_printed_as_an_object_is_its_class(written: str | None, said: str | None) -> None:
    assert words.assignor(written) == said


def test_times_that_a_finding_says_in_utc_are_said_in_the_readers_zone() -> None:
    text = "c3 at 2026-11-21 23:14:38 UTC, 2026-13-41 00:00:00 UTC, 2026-11-21 12:00:00 CET"
    assert words.utc_in(text, ZoneInfo("Europe/Berlin")) == (
        "c3 at 2026-11-22 00:14:38 CET, 2026-13-41 00:00:00 UTC, 2026-11-21 12:00:00 CET"
    )


def test_what_a_group_hands_out_is_named_after_its_protocol() -> None:
    assert [words.things(p, 2) for p in ("consumer", "share", "streams", "connect", None)] == [
        "2 partitions", "2 partitions", "2 tasks", "2 tasks and connectors", "2 partitions",
    ]  # fmt: skip


def test_a_cost_is_said_with_its_likely_range() -> None:
    assert words.seconds_likely(88.0, 91.6, 95.2, "task") == "91.6 task-seconds, likely 88.0 to 95.2"
    assert words.seconds_likely(2.0, 2.0, 2.0, "partition") == "2.0 partition-seconds"
    assert words.seconds_likely(None, 2.0, 3.0, "partition") == "2.0 partition-seconds"
    assert words.seconds_likely(None, None, None, "task") == "not known: task-seconds"


@pytest.mark.parametrize(
    ("text", "at_ms"),
    [
        ("2026-11-21 14:00", 1_795_266_000_000),
        ("2026-11-21T14:00:00Z", 1_795_269_600_000),
        ("1795269600000", 1_795_269_600_000),
        ("-2h", 1_000_000_000_000 - 7_200_000),
        ("now", 1_000_000_000_000),
        ("yesterday", None),
        ("99999-01-01", None),
        ("12", None),
        ("-2000-01-01", None),
        ("<b>", None),
        ("", None),
    ],
)
def test_a_typed_time_is_in_the_readers_zone_or_its_own(text: str, at_ms: int | None) -> None:
    assert words.moment(text, words.zone("Europe/Berlin"), 1_000_000_000_000) == at_ms


def test_a_likely_range_stands_in_front_and_what_is_certain_beside_it() -> None:
    assert words.pause_likely(2_000, 10_500, 18_100, 9_600, 11_400) == "10.5 s, likely 9.6 to 11.4 s"
    assert words.pause_likely(0, 950, None, 400, 1_400) == "950 ms, likely 400 ms to 1.4 s"
    assert words.pause_likely(0, 14, 5_100, 14, 14) == "14 ms"
    assert words.pause_likely(2_000, 10_500, 18_100, None, None) == "10.5 s (2.0 … 18.1)"
    assert words.pause_likely(-900, -500, 100, -600, -400) == words.pause(-900, -500, 100)
    assert words.ends(-3, None) == "0 ms … no upper bound"


def test_commands_in_a_sentence_are_set_apart_and_nothing_in_it_is_markup() -> None:
    assert words.with_code("a `run` <b>") == "a <code>run</code> &lt;b&gt;"
    assert words.with_code("`<i>` and one ` more") == "<code>&lt;i&gt;</code> and one ` more"


def test_a_piece_of_evidence_says_what_it_is() -> None:
    assert words.evidence_says("GroupMetadata") == "the group's record"
    assert words.evidence_says(None, "orders-3") == "commit of orders-3"
    assert words.evidence_says("worker_config_read") == "worker config read"
    assert words.evidence_says(None) is None
