from __future__ import annotations

import pytest

from tests.fuzz.counted import COUNTED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """A run that fuzzed nothing must not look like one that found nothing."""
    if COUNTED:
        terminalreporter.write_line(f"fuzz: {sum(COUNTED.values()):,} executions of {len(COUNTED)} targets")
