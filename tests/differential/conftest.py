from __future__ import annotations

import pytest

from tests.differential.counted import LINES


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "differential: a JVM with Kafka's own classes from Maven")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """A run that compared nothing must not look like one that found nothing."""
    for line in LINES:
        terminalreporter.write_line(f"differential: {line}")
