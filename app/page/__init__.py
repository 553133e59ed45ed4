"""The frame around every view: which warehouse, which part of it (the address), how it is said, what opens what."""

from app.page.address import (
    choice_in_address,
    default_span,
    flag_in_address,
    go,
    group_in_address,
    link,
    number_param,
    open_target,
    param,
    span_of,
    span_words,
    switch_in_address,
    text_in_address,
    zone,
)
from app.page.frame import follow, not_known, reader, reader_with_groups, run, style
from app.page.picture import time_line
from app.page.saying import clickable_table, facts, heading, long_table, note, panel, say, table, title

__all__ = [
    "choice_in_address",
    "clickable_table",
    "default_span",
    "facts",
    "flag_in_address",
    "follow",
    "go",
    "group_in_address",
    "heading",
    "link",
    "long_table",
    "not_known",
    "note",
    "number_param",
    "open_target",
    "panel",
    "param",
    "reader",
    "reader_with_groups",
    "run",
    "say",
    "span_of",
    "span_words",
    "style",
    "switch_in_address",
    "table",
    "text_in_address",
    "time_line",
    "title",
    "zone",
]
