"""Small files of a warehouse, on a folder or an object store."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Sequence

import pyarrow.fs as pafs


class WarehouseError(Exception):
    """The warehouse cannot be used as asked: one sentence with the fault, the place and the remedy."""


def located(uri: str) -> tuple[pafs.FileSystem, str]:
    """The file system that a path or an object-store URL is on, and its name there."""
    return pafs.FileSystem.from_uri(uri) if "://" in uri else (pafs.LocalFileSystem(), uri)


def relation(files: Sequence[str], *, with_name: bool = False, with_row: bool = False) -> str:
    """These Parquet files as a query of DuckDB names them; with the columns `filename` and `file_row_number` if asked.

    Not DeltaTable.to_pyarrow_dataset: a string filter on it fails in DuckDB (decision 0002).
    """
    listed = ", ".join("'" + file.replace("'", "''") + "'" for file in files)
    return (
        f"read_parquet([{listed}], hive_partitioning = false, filename = {str(with_name).lower()}, "
        f"file_row_number = {str(with_row).lower()})"
    )


class Files:
    """The few small files beside the tables, on a folder or an object store. A write appears whole or not at all."""

    def __init__(self, location: str) -> None:
        self.is_local = "://" not in location
        self.fs, self.root = located(os.path.abspath(os.path.expanduser(location)) if self.is_local else location)
        self.uri = self.root if self.is_local else location.rstrip("/")

    def path(self, name: str) -> str:
        return f"{self.root}/{name}"

    def is_there(self, name: str) -> bool:
        return bool(self.fs.get_file_info(self.path(name)).type != pafs.FileType.NotFound)

    def read(self, name: str) -> bytes | None:
        try:
            with self.fs.open_input_stream(self.path(name)) as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            return None

    def write(self, name: str, data: bytes) -> None:
        if not self.is_local:
            self.make_folder_of(name)
            with self.fs.open_output_stream(self.path(name)) as stream:  # an object appears when its upload ends
                stream.write(data)
            return
        path = self.path(name)
        self.make_folder_of(name)
        unfinished = f"{path}.{os.getpid()}.{uuid.uuid4().hex[:8]}.tmp"
        with open(unfinished, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)

    def make_folder_of(self, name: str) -> None:
        self.fs.create_dir(self.path(name).rpartition("/")[0], recursive=True)

    def delete(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self.fs.delete_file(self.path(name))

    def names(self, folder: str) -> list[str]:
        """Names of the files in a folder, sorted."""
        selector = pafs.FileSelector(self.path(folder), allow_not_found=True)
        found = self.fs.get_file_info(selector)
        return sorted(f.base_name for f in found if f.type == pafs.FileType.File)
