"""The scripts of the app's own components."""

from __future__ import annotations

from pathlib import Path

_HERE = Path(__file__).parents[1]


def script(*names: str) -> str:
    """The named files of `app` as one module, after `common.js`. The last one has the default export."""
    return "".join((_HERE / name).read_text(encoding="utf-8") for name in ("common.js", *names))
