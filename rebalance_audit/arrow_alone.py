"""Keeps Arrow and DuckDB from importing pandas, for the command line, which does not need it."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from types import FrameType

_ASKING = ("importlib", "pyarrow", "duckdb")
_OURS = ("rebalance_audit", "spark_jobs", "ingest")
_WITH_PANDAS = ("spark_jobs.quality", "spark_jobs.worker_daemon", "rebalance_audit.doctor.runtime")
"""Our own modules that import pandas or look for it: they find it, as other libraries do."""


class _NoPandas:
    """Says to Arrow and DuckDB that there is no pandas."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name == "pandas":
            frame = sys._getframe(1)
            while frame.f_back is not None and _package(frame) in _ASKING:
                frame = frame.f_back
            if _package(frame) in _OURS and frame.f_globals["__name__"] not in _WITH_PANDAS:
                raise ModuleNotFoundError("pandas is not asked", name=name)
        return None


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def arrow_alone() -> None:
    """Let pyarrow and DuckDB do without pandas: wherever that is installed, the first array made of a list and the
    first parameter of a question import it, which takes a second of CPU and 58 MB. Other libraries that import pandas
    have it, and `to_pandas` works."""
    if not any(isinstance(finder, _NoPandas) for finder in sys.meta_path):
        sys.meta_path.insert(0, _NoPandas())
