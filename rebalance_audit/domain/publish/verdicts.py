"""Finds the latest verdict of each data-quality check."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

Verdict = Mapping[str, Any]
"""A row of gold.check."""


def last_verdicts(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """The newest verdict of each check, by stages and by hand each for itself; by table and check.

    A batch is named by who ran it and by the versions of its inputs, which only rise; as text they do not sort.
    """
    last: dict[tuple[str, str, str], tuple[list[int], Verdict]] = {}
    for row in verdicts:
        ran_by, _, versions = row["batch_id"].partition(":")
        order = [int(number) for number in re.findall(r"\d+", versions)]
        key = (row["table_name"], row["check_name"], ran_by)
        if key not in last or order >= last[key][0]:
            last[key] = (order, row)
    return [last[key][1] for key in sorted(last)]
