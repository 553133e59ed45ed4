"""Small files of a warehouse, on a folder or an object store."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import sys
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.fs as pafs

from rebalance_audit.warehouse import unwritten


class WarehouseError(Exception):
    """The warehouse cannot be used as asked: one sentence with the fault, the place and the remedy."""


class BeingWrittenError(WarehouseError):
    """Another process writes the warehouse just now."""


class TableGoneError(WarehouseError):
    """A table that was published is not there any more."""


def located(uri: str) -> tuple[pafs.FileSystem, str]:
    """The file system that a path or an object-store URL is on, and its name there."""
    unwritten.write([uri])
    scheme, has_scheme, path = uri.partition("://")
    if not has_scheme:
        return pafs.LocalFileSystem(), uri
    from rebalance_audit.warehouse.object_store import arrow_file_system  # a tenth of a second to import

    return arrow_file_system(scheme), path


def folder_of(name: str) -> str:
    """The folder of the table `layer.noun`, in the warehouse."""
    return name.replace(".", "/")


def relation(files: Sequence[str], *, with_name: bool = False, with_row: bool = False, are_alike: bool = True) -> str:
    """These Parquet files as a query of DuckDB names them; with the columns `filename` and `file_row_number` if asked.
    Unless all are alike, a column that one lacks is null in it: then each file's footer is read first.

    Not DeltaTable.to_pyarrow_dataset: a string filter on it fails in DuckDB (decision 0002).
    """
    from rebalance_audit.warehouse.queries import quoted  # a collector needs no DuckDB

    unwritten.write(files)
    return (
        f"read_parquet([{quoted(files)}], hive_partitioning = false, filename = {str(with_name).lower()}, "
        f"file_row_number = {str(with_row).lower()}, union_by_name = {str(not are_alike).lower()})"
    )


def store_fault(error: BaseException) -> str | None:
    """One sentence for an error that an object store is the cause of; None for any other."""
    store = sys.modules.get("rebalance_audit.warehouse.object_store")
    return None if store is None else store.fault_sentence(error)


_DISK = {
    errno.ENOSPC: "free some space, nothing stored before is harmed",
    errno.EFBIG: "raise the limit of a file's size (`ulimit -f`), nothing stored before is harmed",
    errno.EDQUOT: "free some space or have the quota raised, nothing stored before is harmed",
    errno.EROFS: "mount it writable, or name another place; verbs that only read work without",
}


def disk_fault(error: BaseException) -> str | None:
    """One sentence for a disk that takes nothing more; None for any other error. Tables' own libraries pass on no
    number, only the system's words."""
    number = error.errno if isinstance(error, OSError) else None
    if number is None:
        number = next((each for each in _DISK if os.strerror(each) in str(error)), None)
    if number not in _DISK:
        return None
    return f"{getattr(error, 'filename', None) or 'The disk'}: {os.strerror(number)}; {_DISK[number]}."


def passing_fault(error: BaseException) -> str | None:
    """One sentence for what may have ended when it is tried again: a store that is away, a disk that is full."""
    return store_fault(error) or disk_fault(error)


@dataclass(frozen=True, slots=True)
class Stored:
    """A file's content, and the condition under which it may be replaced."""

    content: bytes
    tag: str


class Files(Protocol):
    """The files of a warehouse by their names in it. A write appears whole or not at all."""

    fs: pafs.FileSystem
    root: str
    uri: str
    is_local: bool

    def path(self, name: str) -> str:
        """A file's name on `fs`."""

    def is_there(self, name: str) -> bool:
        """A file of that name; a store has no folders."""

    def read(self, name: str) -> bytes | None: ...

    def read_tagged(self, name: str) -> Stored | None: ...

    def write(self, name: str, data: bytes | pa.Buffer) -> None: ...

    def write_new(self, name: str, data: bytes) -> bool:
        """Write what is not there yet. False: another was quicker."""

    def write_if(self, name: str, data: bytes, tag: str | None) -> str | None:
        """Replace what had this tag (None: write what is not there yet). Its new tag; None if another was quicker."""

    def release(self, name: str, tag: str) -> None:
        """Gives up the file that had this tag. If another process took it meanwhile, that process keeps it."""

    def age_ms(self, name: str) -> int | None:
        """Milliseconds since a file was written, by the store's own clock; None where there is no such clock."""

    def make_folder_of(self, name: str) -> None: ...

    def delete(self, name: str) -> None:
        """Deletes the file. It is no error if there is none."""

    def delete_folder(self, name: str) -> None: ...

    def names(self, folder: str) -> list[str]:
        """Names of the files right in a folder, sorted."""

    def older_than(self, folder: str, until_ns: int) -> list[str]:
        """Names of the files right in a folder that were written before."""

    def take(self, file: str, name: str) -> None:
        """Gives a file of this warehouse, named by path or URL, this name as well."""


def files_at(location: str) -> Files:
    """A folder, as path or `file:` URL; or the URL of an object store."""
    scheme, has_scheme, _ = location.partition("://")
    if has_scheme and scheme != "file":
        from rebalance_audit.warehouse.object_files import ObjectFiles

        return ObjectFiles(location)
    return FolderFiles(unquote(urlsplit(location).path) if has_scheme else location)


class FolderFiles:
    is_local = True

    def __init__(self, location: str) -> None:
        self.fs: pafs.FileSystem = pafs.LocalFileSystem()
        self.root = os.path.realpath(os.path.expanduser(location))
        self.uri = self.root

    def path(self, name: str) -> str:
        return f"{self.root}/{name}"

    def is_there(self, name: str) -> bool:
        return os.path.exists(self.path(name))

    def read(self, name: str) -> bytes | None:
        try:
            with open(self.path(name), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def read_tagged(self, name: str) -> Stored | None:
        content = self.read(name)
        return None if content is None else Stored(content, content.hex())

    def write(self, name: str, data: bytes | pa.Buffer) -> None:
        path = self.path(name)
        self.make_folder_of(name)
        unfinished = f"{path}.{os.getpid()}.{uuid.uuid4().hex[:8]}.tmp"
        try:
            with open(unfinished, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(unfinished, path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(unfinished)
            raise
        folder = os.open(os.path.dirname(path), os.O_RDONLY)
        try:
            os.fsync(folder)  # else the rename itself may be lost with the power
        finally:
            os.close(folder)

    def write_new(self, name: str, data: bytes) -> bool:
        path = self.path(name)
        unfinished = f"{path}.{uuid.uuid4().hex[:8]}.tmp"
        try:
            with open(unfinished, "wb") as file:
                file.write(data)
            os.link(unfinished, path)  # appears whole, and only where there is none
        except FileExistsError:
            return False
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(unfinished)
        return True

    def write_if(self, name: str, data: bytes, tag: str | None) -> str | None:
        with self._alone(name):
            now = self.read_tagged(name)
            if (None if now is None else now.tag) != tag:
                return None
            self.write(name, data)
            return data.hex()

    def release(self, name: str, tag: str) -> None:
        with self._alone(name):
            now = self.read_tagged(name)
            if now is not None and now.tag == tag:
                self.delete(name)

    def age_ms(self, name: str) -> int | None:
        return None

    @contextlib.contextmanager
    def _alone(self, name: str) -> Iterator[None]:
        """While this is entered, nobody else on this host replaces that file."""
        import fcntl  # here, since Windows lacks it and may still read

        self.make_folder_of(name)
        with open(self.path(f"{name.removesuffix('.json')}.lock"), "ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def make_folder_of(self, name: str) -> None:
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)

    def delete(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path(name))

    def delete_folder(self, name: str) -> None:
        shutil.rmtree(self.path(name), ignore_errors=True)

    def names(self, folder: str) -> list[str]:
        try:
            with os.scandir(self.path(folder)) as entries:
                return sorted(entry.name for entry in entries if entry.is_file())
        except FileNotFoundError:
            return []

    def older_than(self, folder: str, until_ns: int) -> list[str]:
        with contextlib.suppress(FileNotFoundError), os.scandir(self.path(folder)) as entries:
            return [e.name for e in entries if e.is_file() and e.stat().st_mtime_ns < until_ns]
        return []

    def take(self, file: str, name: str) -> None:
        target = self.path(name)
        self.make_folder_of(name)
        try:
            os.link(file, target)
        except OSError:  # another file system, or one without links
            unfinished = f"{target}.tmp"
            shutil.copyfile(file, unfinished)
            os.replace(unfinished, target)
