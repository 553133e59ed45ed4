"""The files of a warehouse in an object store."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs
from obstore.exceptions import AlreadyExistsError, PreconditionError

from rebalance_audit.warehouse.object_store import SCHEMES, arrow_file_system, bucket, name_location
from rebalance_audit.warehouse.storage import Stored, WarehouseError


class ObjectFiles:
    is_local = False

    def __init__(self, url: str) -> None:
        scheme, _, path = url.partition("://")
        if scheme not in SCHEMES or not path.strip("/"):
            raise WarehouseError(
                f"{url} is no warehouse's URL; give a folder, or an object store's as s3://bucket/place "
                f"(known: {', '.join(f'{known}://' for known in SCHEMES)})."
            )
        self.fs: pafs.FileSystem = arrow_file_system(scheme)
        self.uri = url.rstrip("/")
        name_location(self.uri)
        self.root = path.rstrip("/")
        self._store, self._inside = bucket(self.uri)

    def path(self, name: str) -> str:
        return f"{self.root}/{name}"

    def _key(self, name: str) -> str:
        return f"{self._inside}/{name}" if self._inside else name

    def is_there(self, name: str) -> bool:
        with contextlib.suppress(FileNotFoundError):
            self._store.head(self._key(name))
            return True
        return False

    def read(self, name: str) -> bytes | None:
        stored = self.read_tagged(name)
        return None if stored is None else stored.content

    def read_tagged(self, name: str) -> Stored | None:
        try:
            answer = self._store.get(self._key(name))
            return Stored(answer.bytes().to_bytes(), answer.meta["e_tag"] or "")
        except FileNotFoundError:
            return None

    def write(self, name: str, data: bytes | pa.Buffer) -> None:
        self._store.put(self._key(name), bytes(data))  # an object appears when its upload ends

    def write_new(self, name: str, data: bytes) -> bool:
        return self.write_if(name, data, None) is not None

    def write_if(self, name: str, data: bytes, tag: str | None) -> str | None:
        try:
            done = self._store.put(self._key(name), data, mode="create" if tag is None else {"e_tag": tag})
            return done["e_tag"] or ""
        except (AlreadyExistsError, PreconditionError):
            # The answer to our own put may have been lost, and this be the answer to its repetition.
            now = self.read_tagged(name)
            return now.tag if now is not None and now.content == data else None

    def release(self, name: str, tag: str) -> None:
        self.write_if(name, b"{}", tag)  # a conditional delete is not known to all stores

    def age_ms(self, name: str) -> int | None:
        probe = self._key(f"{name}.now")
        try:
            written = self._store.head(self._key(name))["last_modified"]
        except FileNotFoundError:
            return None
        self._store.put(probe, b"")
        now = self._store.head(probe)["last_modified"]
        return int((now - written).total_seconds() * 1000)

    def make_folder_of(self, name: str) -> None:
        """Does nothing: a store has no folders."""

    def delete(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._store.delete(self._key(name))

    def delete_folder(self, name: str) -> None:
        for chunk in self._store.list(f"{self._key(name)}/"):
            self._store.delete([entry["path"] for entry in chunk])

    def names(self, folder: str) -> list[str]:
        return sorted(name for name, _ in self._listed(folder))

    def older_than(self, folder: str, until_ns: int) -> list[str]:
        until = datetime.fromtimestamp(until_ns / 1e9, UTC)
        return [name for name, written in self._listed(folder) if written < until]

    def _listed(self, folder: str) -> list[tuple[str, datetime]]:
        prefix = f"{self._key(folder)}/"
        found = self._store.list_with_delimiter(prefix)["objects"]
        return [(entry["path"].removeprefix(prefix), entry["last_modified"]) for entry in found]

    def take(self, file: str, name: str) -> None:
        if "://" in file:
            self._store.copy(bucket(file)[1], self._key(name))
        else:
            self._store.put(self._key(name), Path(file))
