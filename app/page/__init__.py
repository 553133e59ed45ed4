"""The frame around every view: the warehouse, the part of it that the address names, how sentences and tables are
shown, and which link opens what."""

from app.page.address import (
    address,
    choice_in_address,
    flag_in_address,
    go,
    group_in_address,
    link,
    open_target,
    param,
    switch_in_address,
    text_in_address,
    unknown_page,
)
from app.page.frame import account, follow, gate, not_known, phone_navigation, reader, reader_with_groups, run, style
from app.page.incident_list import SIGNS, cause_of, cost_words, incident_list, subject_of
from app.page.lines import ADVICE, line, line_link, lines
from app.page.outward import outward
from app.page.palette import palette
from app.page.picture import time_line
from app.page.present import present
from app.page.saying import (
    clickable_table,
    downloads,
    facts,
    heading,
    long_table,
    not_read,
    note,
    nothing,
    panel,
    say,
    table,
    title,
)
from app.page.search import search
from app.page.time_range import default_span, number_param, set_span, show_all, span_of, span_words, zone, zone_name

__all__ = [
    "ADVICE",
    "SIGNS",
    "account",
    "address",
    "cause_of",
    "choice_in_address",
    "clickable_table",
    "cost_words",
    "default_span",
    "downloads",
    "facts",
    "flag_in_address",
    "follow",
    "gate",
    "go",
    "group_in_address",
    "heading",
    "incident_list",
    "line",
    "line_link",
    "lines",
    "link",
    "long_table",
    "not_known",
    "not_read",
    "note",
    "nothing",
    "number_param",
    "open_target",
    "outward",
    "palette",
    "panel",
    "param",
    "phone_navigation",
    "present",
    "reader",
    "reader_with_groups",
    "run",
    "say",
    "search",
    "set_span",
    "show_all",
    "span_of",
    "span_words",
    "style",
    "subject_of",
    "switch_in_address",
    "table",
    "text_in_address",
    "time_line",
    "title",
    "unknown_page",
    "zone",
    "zone_name",
]
