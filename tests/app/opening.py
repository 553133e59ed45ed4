"""A page of the app opened without a browser, and what it says."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pandas as pd
from streamlit.testing.v1 import AppTest

from app.queries import Questions

MAIN = Path(__file__).resolve().parents[2] / "app" / "main.py"


VIEWS = (
    "home", "groups", "group", "rebalance", "evidence", "connect", "reassignments", "reassignment", "findings", "trust",
    "compare", "incident",
)  # fmt: skip


FAILED = "This page could not be shown."


Open = Callable[..., AppTest]


def shown(view: str, params: Mapping[str, str], unfolded: str | None = None, folded: str | None = None) -> AppTest:
    """A page as it is drawn without a fault. `unfolded`: the key of what is folded away at first; `folded`: of what is
    not."""
    at = AppTest.from_file(str(MAIN), default_timeout=60)
    if view != "home":
        at.switch_page(f"views/{view}.py")
    for name, value in params.items():
        at.query_params[name] = value
    if unfolded is not None:
        at.session_state[unfolded] = True
    if folded is not None:
        at.session_state[folded] = False
    at.run()
    assert not at.exception
    return at


def markup(at: AppTest) -> str:
    return "\n".join(h.value for h in at.html if not h.value.startswith("<style"))


def said(at: AppTest) -> str:
    """The page's own words, as a reader sees them, without its large tables: see `cells`."""
    words = re.sub(r"<nav .*?</nav>\s*", "", markup(at))
    found = html.unescape(re.sub(r"<[^>]+>", "", words))
    return re.sub(r"\s+", " ", found)


def cells(at: AppTest) -> str:
    return "\n".join(str(table.to_string()) for table in long_tables(at))


def long_tables(at: AppTest) -> list[pd.DataFrame]:
    """The large tables, by the heads that a reader sees."""
    found = [e.proto for e in at.get("bidi_component") if e.proto.component_name == "rebalance_audit_long_table"]
    return [pd.DataFrame({c["head"]: c["cells"] for c in json.loads(proto.json)["columns"]}) for proto in found]


def links(at: AppTest) -> list[tuple[str, str]]:
    """Label and address of every link."""
    found = re.findall(r'<a class="ra-go" href="([^"]*)">(.*?)</a>', markup(at))
    return [(html.unescape(label), html.unescape(href)) for href, label in found]


def followed(at: AppTest, address: str) -> dict[str, str]:
    """The address after following a link from a page to itself, as the browser does."""
    at.query_params = dict(parse_qsl(urlsplit(address).query))
    at.run()
    assert not at.exception
    return dict(at.query_params)


def pressed(at: AppTest, label: str) -> dict[str, str]:
    return followed(at, next(address for said, address in links(at) if said == label))


def chosen(at: AppTest, label: str) -> dict[str, str]:
    """The same of one of a few choices side by side (`page.switch`)."""
    found = re.findall(r'<a class="ra-set" href="([^"]*)"[^>]*>(.*?)</a>', markup(at))
    return followed(at, next(html.unescape(href) for href, said in found if said == label))


def plain(label: str) -> str:
    return re.sub(r"\\(.)", r"\1", label)


def opening_lines(at: AppTest) -> list[dict[str, Any]]:
    """The lines that open in place, of all lists on the page, as the browser gets them."""
    found = [e.proto for e in at.get("bidi_component") if e.proto.component_name == "rebalance_audit_lines"]
    return [row for proto in found for row in json.loads(proto.json)["rows"]]


def filters(at: AppTest) -> dict[str, Any]:
    """The filters of the page's list, as the browser gets them."""
    (found,) = [e.proto for e in at.get("bidi_component") if e.proto.component_name == "rebalance_audit_filters"]
    data: dict[str, Any] = json.loads(found.json)
    return data


def opened_reader(location: Path) -> Questions:
    reader = Questions.open(location)
    reader.refresh()
    return reader
