"""What is copied of an incident: short, in words, and no client's text becomes a link or a mention."""

from dataclasses import replace
from datetime import UTC

from app import sentences
from app.answers.rows import ChainLink, GroupCost, IncidentRow

LOST = IncidentRow(
    cluster_id="shop", incident_id="in:1", kind="connect_worker", root_cause="member_session_expired",
    root_cause_tier="logged", culprits=("http://w3:8083/",), group_ids=("connect",), first_at_ms=1_795_624_578_084,
    last_at_ms=1_795_624_610_108, status="over", expected=False, severity="warning", cost_seconds=91.647,
    cost_lower_seconds=66.1, cost_upper_seconds=101.0, cost_likely_lower_seconds=87.5, cost_likely_upper_seconds=95.8,
    title="worker w3 of connect vanished", story="worker w3 of connect vanished. It cost much. It was over.",
    advice="Bring @here back", chain=(ChainLink(at_ms=1_795_624_578_084, what="last sign", evidence=()),), unit="task",
)  # fmt: skip
COST = GroupCost(
    group_id="connect", team=None, rebalance_count=2, unit="task", estimate=91.647, lower=66.1, upper=101.0
)
URL = "http://app/incident"
NOW = LOST.last_at_ms + 7_200_000


def test_a_postmortem_says_in_words_who_what_and_how_long() -> None:
    text = sentences.postmortem(LOST, "connect", [COST], NOW, UTC, URL)
    assert "2026-11-25 16:36:18.084 UTC to 2026-11-25 16:36:50.108 UTC (32.0 s)" in text
    assert "\n\nw3:8083: no heartbeat until the session expired, why is not known (said by a log line)\n\n" in text
    assert "91.6 task-seconds, likely 87.5 to 95.8; for certain 66.1 \u2026 101." in text
    assert "| cost, for certain between |" in text
    assert text.index("## Time line") < text.index("*Picture: save it with the button PNG") < text.index("## Cause")
    assert "| connect | - | 2 | 91.6 task-seconds (66.1 \u2026 101) |" in text


def test_a_message_for_a_chat_says_both_ranges_of_the_cost_and_mentions_nobody() -> None:
    text = sentences.for_chat(LOST, "connect", NOW, UTC, URL)
    assert "Cost: 91.6 task-seconds, likely 87.5 to 95.8; for certain 66.1 \u2026 101." in text
    assert "@here" not in text
    assert text.splitlines()[-1] == URL


def test_what_is_copied_of_an_open_incident_says_since_when_it_is_not_known_how_it_stands() -> None:
    ended = replace(LOST, status="open", still="waiting", evidence_ended_at_ms=LOST.last_at_ms + 60_000)
    for text in (
        sentences.for_chat(ended, "connect", NOW, UTC, URL),
        sentences.postmortem(ended, "connect", [COST], NOW, UTC, URL),
    ):
        assert "open, tasks still wait at 2026-11-25 16:37 UTC, not known since" in text
    assert "[warning, open, tasks still wait] " in sentences.for_chat(ended, "connect", NOW - 6_900_000, UTC, URL)


def test_a_message_for_a_chat_says_what_whose_doing_what_it_cost_and_what_to_do() -> None:
    lines = sentences.for_chat(LOST, "connect", NOW, UTC, URL).splitlines()
    assert [line.split(":")[0] for line in lines[1:4]] == ["Whose doing", "Cost", "What to do"]
    assert lines[1] == "Whose doing: w3:8083: no heartbeat until the session expired, why is not known."
    move = replace(LOST, cost_seconds=None, group_ids=(), kind="reassignment", root_cause="throttle")
    assert "Cost: no downtime seen." in sentences.for_chat(move, "broker 3", NOW, UTC, URL)


def test_a_name_has_a_backslash_only_where_it_would_do_something_in_a_chat() -> None:
    said = {
        "orders_app-v2.1": "orders_app-v2.1", "_x_": r"\_x\_", "a*b": r"a\*b", "[a](http://b)": r"\[a\](http://b)",
        "# a": r"\# a", "a # b > c": "a # b > c", "1. a": r"1\. a", "<!here>": r"\<!here>", "`a`": r"\`a\`",
    }  # fmt: skip
    for name, shown in said.items():
        text = sentences.postmortem(replace(LOST, story=name), "connect", [], NOW, UTC, URL)
        assert f"## Summary\n\n{shown}\n\n" in text


def test_commands_of_the_advice_stay_commands_and_names_beside_them_call_nobody() -> None:
    told = replace(LOST, advice="Run `rebalance-audit whatif my_app`, then ask @here or *x*.")
    line = r"What to do: Run `rebalance-audit whatif my_app`, then ask @" + "\u200b" + r"here or \*x\*."
    assert line in sentences.for_chat(told, "connect", NOW, UTC, URL).splitlines()


def test_a_story_beside_the_cost_does_not_say_it_again_with_another_rounding() -> None:
    told = "x. It took 2 rebalances and cost 91.6 (likely 87.5 to 95.8) task-seconds: 3 tasks moved."
    assert sentences.story(replace(LOST, story=told)) == "x. It took 2 rebalances: 3 tasks moved."
