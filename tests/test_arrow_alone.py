"""Arrow and DuckDB do their work without pandas, and pandas is there for others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def said(code: str, *arguments: str) -> str:
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_a_run_imports_no_pandas(golden: Path, tmp_path: Path) -> None:
    code = (
        "import contextlib, sys; from rebalance_audit.cli import main; folder, warehouse = sys.argv[1:]\n"
        "for command in (['import', folder, '-q'], ['run', '-q', '--engine', 'local'], ['report']):\n"
        "    with contextlib.suppress(SystemExit):\n"
        "        main([*command, '-w', warehouse])\n"
        "print('pandas' in sys.modules)"
    )
    assert said(code, str(golden / "4.3.0" / "admin_removal"), str(tmp_path / "w")).endswith("\nFalse")


def test_doctor_finds_pandas() -> None:
    code = "from rebalance_audit.cli import main; main(['doctor'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "packages" in done.stdout
    assert "missing: pandas" not in done.stdout, done.stdout


def test_pandas_is_there_for_whoever_asks_for_it() -> None:
    code = (
        "from rebalance_audit.arrow_alone import arrow_alone; arrow_alone(); "
        "import pyarrow as pa; import pandas as pd; import duckdb; "
        "frame = pa.table({'a': [1, None]}).to_pandas(); print(list(frame['a'].isna())); "
        "print(pa.Table.from_pandas(pd.DataFrame({'b': ['x', None]})).to_pylist(), pa.array(pd.Series([1.5, None]))); "
        "print(duckdb.execute('SELECT ? c', [1]).df()['c'][0])"
    )
    assert said(code).split() == [
        "[False,",
        "True]",
        "[{'b':",
        "'x'},",
        "{'b':",
        "None}]",
        "[",
        "1.5,",
        "null",
        "]",
        "1",
    ]
