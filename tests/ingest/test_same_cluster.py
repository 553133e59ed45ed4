"""Nodes of two clusters in one folder are refused, also without `meta.properties`; a little damage is no reason to."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ingest.errors import Misconfigured
from ingest.folders import open_folder
from tests.captures import GOLDEN
from tests.ingest.batch_encoder import a_batch, a_record

SEVERAL = sorted({c.parents[1] for c in GOLDEN.glob("*/*/data/*-2")})
"""Captures of several nodes."""


def copies(root: Path, **batches: list[bytes]) -> Path:
    for node, data in batches.items():
        place = root / "data" / node / "__consumer_offsets-0"
        place.mkdir(parents=True)
        (place / f"{0:020d}.log").write_bytes(b"".join(data))
    return root


def written(count: int, value: bytes, *, epoch: int = 0) -> list[bytes]:
    return [a_batch(n, [a_record(0, b"k", value)], leader_epoch=epoch) for n in range(count)]


def test_captures_of_two_clusters_in_one_folder_are_refused(tmp_path: Path) -> None:
    for capture in ("franz_go_scale_up", "killed_before_its_coordinator"):
        (data,) = GOLDEN.glob(f"*/{capture}/data")
        for node in data.iterdir():
            shutil.copytree(node, tmp_path / "data" / f"{capture}-{node.name}")
            (tmp_path / "data" / f"{capture}-{node.name}" / "meta.properties").unlink(missing_ok=True)
    with pytest.raises(Misconfigured, match=r"mixes nodes of several clusters: \S+ and \S+ hold different records"):
        open_folder(tmp_path)


@pytest.mark.parametrize("capture", SEVERAL, ids=lambda c: f"{c.parent.name}/{c.name}")
def test_the_nodes_of_one_cluster_are_read_together(capture: Path) -> None:
    found = open_folder(capture)
    assert found.partitions or found.metadata


def test_a_few_records_that_differ_are_left_to_the_reader(tmp_path: Path) -> None:
    forged = [*written(2, b"other"), *written(9, b"v")[2:]]
    assert open_folder(copies(tmp_path / "few", a=written(9, b"v"), b=forged)).partitions
    assert open_folder(copies(tmp_path / "two", a=written(2, b"v"), b=written(2, b"other"))).partitions


def test_another_leader_may_have_written_otherwise(tmp_path: Path) -> None:
    """An unclean election: what the old leader wrote alone is not on the new one, which has a later epoch."""
    assert open_folder(copies(tmp_path, a=written(9, b"v"), b=written(9, b"other", epoch=1))).partitions


def test_copies_that_differ_in_most_batches_name_the_nodes_and_the_place(tmp_path: Path) -> None:
    folder = copies(tmp_path, a=written(4, b"v"), b=written(4, b"v"), c=[*written(1, b"v"), *written(4, b"x")[1:]])
    with pytest.raises(Misconfigured, match=r"a and c .* 3 of 4 batches \(first in __consumer_offsets-0 at offset 1"):
        open_folder(folder)
