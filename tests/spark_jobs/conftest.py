"""The stages' tests run twice: in this process, and in Spark."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture(scope="session", params=["local", pytest.param("spark", marks=pytest.mark.spark)])
def engine(request: pytest.FixtureRequest) -> dict[str, Any]:
    """For `pipeline.run`: what carries the tasks."""
    if request.param == "local":
        return {"engine": "local"}
    return {"engine": "spark", "spark": request.getfixturevalue("spark")}
