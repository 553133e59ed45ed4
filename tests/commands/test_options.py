"""The values of options that several verbs share."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from rebalance_audit import cli
from rebalance_audit.commands import options
from tests.tools import as_nobody


@pytest.mark.parametrize(
    ("text", "ms"), [("90s", 90_000), ("1h", 3_600_000), ("1.5d", 129_600_000), ("250ms", 250), ("2w", 1_209_600_000)]
)
def test_durations_are_read(text: str, ms: int) -> None:
    assert options.duration_ms(text) == ms


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2026-11-21T14:00", 1_795_269_600_000),
        ("2026-11-21T14:00:00Z", 1_795_269_600_000),
        ("2026-11-21T15:00:00.250+01:00", 1_795_269_600_250),
        ("1795269600000", 1_795_269_600_000),
        ("-1h", 1_795_266_000_000),
    ],
)
def test_instants_are_read_as_utc(text: str, ms: int) -> None:
    assert options.instant_ms("--at", text, now_ms=1_795_269_600_000) == ms


def test_log_folders_are_a_nodes_own_or_one_per_node(tmp_path: Path) -> None:
    for node in ("broker-1", "broker-2"):
        (tmp_path / node).mkdir()
        (tmp_path / node / "server.log").write_text("")
    (tmp_path / "unrelated").mkdir()
    assert options.log_folders([str(tmp_path)]) == [(n, tmp_path / n) for n in ("broker-1", "broker-2")]
    assert options.log_folders([str(tmp_path / "broker-1")]) == [("broker-1", tmp_path / "broker-1")]
    assert options.log_folders([f"kafka-7={tmp_path / 'broker-2'}"]) == [("kafka-7", tmp_path / "broker-2")]


def test_a_log_folder_that_may_not_be_listed_is_no_empty_one(capsys: pytest.CaptureFixture[str]) -> None:
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        (Path(place) / "closed").mkdir(mode=0)
        with as_nobody():
            status = cli.run(["explain", "-b", "127.0.0.1:1", "--logs", f"broker-1={place}/closed"])
    assert status == 1
    assert capsys.readouterr().err == (
        f"rebalance-audit: {place}/closed: Permission denied; check the path and your rights.\n"
    )


def test_connect_topics_are_named_with_their_kind() -> None:
    assert options.connect_topics(["a=config", "connect-status"]) == {"a": "config", "connect-status": "status"}
    assert options.connect_topics(None) is None
    with pytest.raises(options.UsageError, match="say which it is"):
        options.connect_topics(["things"])


@pytest.mark.parametrize(
    ("from_", "to", "why"),
    [
        ("2026-11-22", "2026-11-21", "--from 2026-11-22 is not before --to 2026-11-21"),
        ("2026-11-22", "2026-11-22", "is not before"),
        ("-99999999w", None, "--from -99999999w: no calendar has this time"),
        (None, "9" * 23, "no calendar has this time"),
        ("yesterday", None, "is no time"),
        ("2026-11-22", None, "--from 2026-11-22 lies in the future"),
    ],
)
def test_a_period_that_is_none_is_refused(from_: str | None, to: str | None, why: str) -> None:
    with pytest.raises(options.UsageError, match=why):
        options.period_ms(from_, to, 1_795_269_600_000)


def test_either_end_of_a_period_may_be_open() -> None:
    assert options.period_ms(None, None, 1) == (None, None)
    assert options.period_ms("-1h", "2026-11-21T14:00", 1_795_269_600_000) == (1_795_266_000_000, 1_795_269_600_000)
