"""What clients wrote is shown as text; no page says None."""

import json
import re
from pathlib import Path

import pytest

from tests.app.gold_rows import CLUSTER, HOSTILE_GROUP, HOSTILE_MARKDOWN
from tests.app.opening import FAILED, Open, long_tables, markup, said

PAGES = [
    ("home", {}),
    ("groups", {}),
    ("group", {"cluster": CLUSTER, "group": HOSTILE_GROUP}),
    ("rebalance", {"cluster": CLUSTER, "rebalance": "hostile/1"}),
    ("findings", {}),
    ("findings", {"cluster": CLUSTER, "finding": "f-forged"}),
    ("trust", {}),
    ("connect", {}),
    ("connect", {"by": "workers"}),
    ("rebalance", {"cluster": CLUSTER, "rebalance": "connect-lab/8"}),
    ("compare", {}),
    ("compare", {"a": json.dumps([CLUSTER, HOSTILE_GROUP]), "b": json.dumps([CLUSTER, "orders"])}),
    ("reassignments", {}),
    ("reassignment", {"cluster": CLUSTER, "reassignment": "hostile@1"}),
    ("evidence", {"cluster": CLUSTER, "ref": "record:__consumer_offsets-2@5"}),
]


@pytest.mark.parametrize(("view", "params"), PAGES)
def test_no_clients_text_becomes_markup(opened: Open, full_warehouse: Path, view: str, params: dict[str, str]) -> None:
    at = opened(full_warehouse, view, **params)
    assert FAILED not in said(at)
    for tag in ("<script", "<img", "<u>", "onerror=alert(3)>"):
        assert tag not in markup(at)
    for label in [b.label for b in at.button]:
        assert "](" not in label
        assert ":smile:" not in label
        assert "<" not in re.sub(r"\\<", "", label)
    for other in [*at.markdown, *at.title, *at.header, *at.subheader, *at.caption]:
        assert HOSTILE_MARKDOWN[:8] not in other.value
        assert "<script" not in other.value


def test_hostile_text_is_shown_as_what_it_is(opened: Open, full_warehouse: Path) -> None:
    text = said(opened(full_warehouse, "rebalance", cluster=CLUSTER, rebalance="hostile/1"))
    assert "<script>alert(1)</script>\\n[20…" in text
    assert "</p><script>alert(4)</script>\\x1b[31mred." in text
    assert "1 partition had two owners at once, for up to 1.5 s." in text


@pytest.mark.parametrize(
    ("view", "params"), [("connect", {}), ("rebalance", {"cluster": CLUSTER, "rebalance": "connect-lab/8"})]
)
def test_no_cell_of_a_table_is_a_formula(opened: Open, full_warehouse: Path, view: str, params: dict[str, str]) -> None:
    at = opened(full_warehouse, view, **params)
    texts = [v for table in long_tables(at) for v in table.to_numpy().ravel() if isinstance(v, str)]
    assert any(v.startswith("'=HYPERLINK(1)<script>") for v in texts)
    assert not [v for v in texts if v.startswith(("=", "+", "-", "@"))]


@pytest.mark.parametrize(("view", "params"), PAGES)
def test_no_page_says_none_or_nan(opened: Open, full_warehouse: Path, view: str, params: dict[str, str]) -> None:
    text = said(opened(full_warehouse, view, **params))
    assert not re.search(r"\b(None|nan|NaN|NaT)\b", text.replace("None: this number", ""))
