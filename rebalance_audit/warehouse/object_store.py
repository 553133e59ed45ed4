"""Object stores (`s3://…`, `gs://…`, `az://…`) for all who read and write a warehouse: one client, one set of limits.

Endpoint, region and credentials come from the store's usual environment variables (AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID,
AWS_REGION, …; docs/cluster.md lists them): they are in no file of ours and on no command line.
"""

from __future__ import annotations

import functools
import io
import os
import re
import threading
from collections import OrderedDict
from datetime import datetime, timedelta
from typing import Any

import obstore
import pyarrow.fs as pafs
from obstore.fsspec import FsspecStore

MAX_RETRIES = 6
"""How often a request is repeated that was throttled or got no answer. The waits double from 0.1 s, so that this takes
a little over six seconds."""
RETRY_WITHIN_S = 60
CONNECT_WITHIN_S = 5
ANSWER_WITHIN_S = 30
BLOCK_BYTES = 512 << 10
KEPT_BYTES = 64 << 20
"""The bytes of read blocks that are kept per process. A run reads the same files dozens of times, and they never
change."""

SCHEMES = ("s3", "s3a", "gs", "az", "abfs", "abfss")


def client_options() -> dict[str, Any]:
    return {
        "connect_timeout": timedelta(seconds=CONNECT_WITHIN_S),
        "timeout": timedelta(seconds=ANSWER_WITHIN_S),
        # An endpoint without TLS was named on purpose.
        "allow_http": _endpoint().startswith("http://") or os.environ.get("AWS_ALLOW_HTTP", "").lower() == "true",
    }


def retry_config() -> dict[str, Any]:
    return {"max_retries": MAX_RETRIES, "retry_timeout": timedelta(seconds=RETRY_WITHIN_S)}


def delta_options(location: str) -> dict[str, str] | None:
    """Options for deltalake beside the environment; None for a folder."""
    scheme, has_scheme, _ = location.partition("://")
    if not has_scheme:
        return None
    options = {
        "max_retries": str(MAX_RETRIES),
        "retry_timeout": f"{RETRY_WITHIN_S}s",
        "connect_timeout": f"{CONNECT_WITHIN_S}s",
        "timeout": f"{ANSWER_WITHIN_S}s",
    }
    if client_options()["allow_http"]:
        options["allow_http"] = "true"
    if scheme.startswith("s3"):
        # A commit is a put that fails if the version is there: of two writers one wins, without a table of locks.
        options["aws_conditional_put"] = "etag"
    return options


def _endpoint() -> str:
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""


def bucket(url: str) -> tuple[Any, str]:
    """The store of a URL's bucket, and the name in it."""
    scheme, _, path = url.partition("://")
    name, _, inside = path.partition("/")
    return _bucket(scheme, name, os.getpid()), inside.strip("/")


@functools.lru_cache(maxsize=32)
def _bucket(scheme: str, name: str, pid: int) -> Any:
    """`pid`: a client does not survive a fork."""
    return obstore.store.from_url(f"{scheme}://{name}", client_options=client_options(), retry_config=retry_config())


def file_system(scheme: str) -> BlockReadingStore:
    """The store as fsspec knows it, which is how DuckDB reads and writes there."""
    return _file_system(scheme, os.getpid())


def arrow_file_system(scheme: str) -> pafs.FileSystem:
    return _arrow_file_system(scheme, os.getpid())


@functools.lru_cache(maxsize=8)
def _file_system(scheme: str, pid: int) -> BlockReadingStore:
    return BlockReadingStore(
        scheme, client_options=client_options(), retry_config=retry_config(), skip_instance_cache=True
    )


@functools.lru_cache(maxsize=8)
def _arrow_file_system(scheme: str, pid: int) -> pafs.FileSystem:
    return pafs.PyFileSystem(pafs.FSSpecHandler(_file_system(scheme, pid)))


class BlockReadingStore(FsspecStore):  # type: ignore[misc]  # to mypy its types are Any
    """An object store whose Parquet files are read block by block, and each block once while it is remembered.

    A file of a warehouse never changes under its name. obstore's own reader asks for the size at each opening and for
    at least a megabyte at each place: six times the bytes of the table where columns of many row groups are read.
    """

    def __init__(self, protocol: str, **options: Any) -> None:
        super().__init__(protocol, **options)
        self._blocks = _Blocks()
        self._infos: OrderedDict[str, dict[str, Any]] = OrderedDict()

    async def _info(self, path: str, **options: Any) -> dict[str, Any]:
        path = self._without_scheme(path)
        known = self._infos.get(path)
        if known is None:
            known = await super()._info(path, **options)
            if path.endswith(".parquet") and known["type"] == "file":
                self._infos[path] = known
                while len(self._infos) > 4096:
                    self._infos.popitem(last=False)
        return known

    async def _exists(self, path: str, **options: Any) -> bool:
        try:
            await self._info(path)
        except FileNotFoundError:
            return False
        return True

    async def _isfile(self, path: str) -> bool:
        """fsspec's own takes every error for a file that is not there."""
        try:
            return bool((await self._info(path))["type"] == "file")
        except FileNotFoundError:
            return False

    def modified(self, path: str) -> datetime:
        """DuckDB asks at each opening whether a file is still the one whose footer it remembers."""
        when: datetime = self.info(path)["last_modified"]
        return when

    def _open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        if mode != "rb" or not path.endswith(".parquet"):
            return super()._open(path, mode, **options)
        store, name = bucket(f"{self.protocol}://{self._without_scheme(path)}")
        size = int(self.info(path)["size"])
        return io.BufferedReader(_Blockwise(self._without_scheme(path), store, name, size, self._blocks), 1 << 16)

    def _without_scheme(self, path: str) -> str:
        return path.removeprefix(f"{self.protocol}://")


class _Blocks:
    """The blocks that were read last, of all files of one store."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, int], bytes] = OrderedDict()
        self._bytes = 0

    def get(self, key: tuple[str, int]) -> bytes | None:
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
            return found

    def put(self, key: tuple[str, int], block: bytes) -> None:
        with self._lock:
            if key not in self._kept:
                self._bytes += len(block)
            self._kept[key] = block
            while self._bytes > KEPT_BYTES:
                self._bytes -= len(self._kept.popitem(last=False)[1])


class _Blockwise(io.RawIOBase):
    """One object, read in whole blocks; those beside each other that are missing come with one request."""

    def __init__(self, path: str, store: Any, name: str, size: int, blocks: _Blocks) -> None:
        self._key, self._store, self._name, self._size, self._blocks = path, store, name, size, blocks
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        start, end = self._at, min(self._at + len(view), self._size)
        if end <= start:
            return 0
        first, last = start // BLOCK_BYTES, (end - 1) // BLOCK_BYTES
        found = self._read(first, last)
        done = 0
        for number in range(first, last + 1):
            lower = max(start - number * BLOCK_BYTES, 0)
            part = found[number][lower : end - number * BLOCK_BYTES]
            view[done : done + len(part)] = part
            done += len(part)
        self._at = start + done
        return done

    def _read(self, first: int, last: int) -> dict[int, bytes]:
        found = {n: b for n in range(first, last + 1) if (b := self._blocks.get((self._key, n))) is not None}
        missing = [n for n in range(first, last + 1) if n not in found]
        if not missing:
            return found
        start, end = missing[0] * BLOCK_BYTES, min((missing[-1] + 1) * BLOCK_BYTES, self._size)
        content = obstore.get_range(self._store, self._name, start=start, end=end).to_bytes()
        for number in range(missing[0], missing[-1] + 1):
            block = content[(number - missing[0]) * BLOCK_BYTES : (number - missing[0] + 1) * BLOCK_BYTES]
            found[number] = block
            self._blocks.put((self._key, number), block)
        return found


# ---- what went wrong, in one sentence


_FAULTS: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("expiredtoken", "tokenrefreshrequired", "requestexpired", "token has expired", "400 bad request"),
        "the credentials for {store} have expired or are no longer accepted; renew them (AWS_ACCESS_KEY_ID, "
        "AWS_SESSION_TOKEN) and start again",
    ),
    (
        ("invalidaccesskeyid", "signaturedoesnotmatch", "unauthenticatederror", "401 unauthorized", "missingcredential",
         "169.254.169.254", "credentials"),
        "{store} does not accept the credentials; see that AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION "
        "(or the role of this machine) are those of a user who may use it",
    ),
    (
        ("nosuchbucket", "specified bucket does not exist"),
        "there is no bucket {bucket} at {store}; create it, or correct the URL",
    ),
    (
        ("accessdenied", "permissiondenied", "403 forbidden", "readonly", "methodnotallowed", "405 method"),
        "{store} refuses this; the user needs GetObject, PutObject, DeleteObject and ListBucket on {bucket} (reading "
        "verbs need only GetObject and ListBucket)",
    ),
    (
        ("quotaexceeded", "insufficientstorage", "507", "storagefull", "xminiostoragefull", "no space"),
        "{store} is full; free some space or raise its quota",
    ),
    (
        ("slowdown", "503 service", "429 too many", "toomanyrequests"),
        "{store} asks for fewer requests and went on so for longer than we wait; try again later",
    ),
    (
        ("timed out", "deadline"),
        "{store} does not answer in time; see that it is well, and try again",
    ),
    (
        ("connection refused", "error sending request", "dns error", "connect error", "connection reset", "unreachable",
         "connection closed", "tcp connect"),
        "{store} cannot be reached; see that it runs and that AWS_ENDPOINT_URL names it",
    ),
    (
        ("500 internal", "502 bad gateway", "504 gateway", "internalerror"),
        "{store} answers with errors of its own; look into its log, and try again",
    ),
)  # fmt: skip


_named: list[str] = []
"""Warehouses this process opened."""


def name_location(url: str) -> None:
    _named.append(url)


def fault_sentence(error: BaseException) -> str | None:
    """What a user can do about an error from a store; None if the store is not at fault.

    The libraries between us and the store pass its answer on as text only, so that is what is looked at. Nothing of the
    text is shown: a request's URL may carry a signature.
    """
    if not _named:
        return None
    location = _named[-1]
    texts: list[str] = []
    seen: BaseException | None = error
    while seen is not None and len(texts) < 8:
        said, _, debug = f"{type(seen).__name__} {seen}".partition("Debug source")  # where obstore says it, and alone
        texts += [said, "timed out" if "kind: Timeout" in debug or _was_silent(said) else ""]
        seen = seen.__cause__ or seen.__context__
    text = " ".join(texts).lower()
    if not any(word in text for word in _OF_A_STORE):
        return None
    store = _endpoint() or location.partition("://")[0] + "://"
    name = location.partition("://")[2].partition("/")[0]
    for words, sentence in _FAULTS:
        if any(word in text for word in words):
            fault = sentence.format(store=_without_secrets(store), bucket=name)
            return f"{location}: {fault}. What was committed before is whole; nothing half-written is visible."
    return None


_TRIES = re.compile(r" in ([\d.]+)s(?:, after (\d+) retries)?")


def _was_silent(text: str) -> bool:
    """Whether each try took as long as we wait for an answer. deltalake says "error sending request" and no more, of a
    store that is slow as of one that is away; but to one that is away no try takes longer than CONNECT_WITHIN_S."""
    tried = _TRIES.search(text)
    return tried is not None and float(tried[1]) >= ANSWER_WITHIN_S * (int(tried[2] or 0) + 1)


_OF_A_STORE = ("generic s3", "generic gcs", "generic microsoftazure", "error performing", "object at location")


def _without_secrets(url: str) -> str:
    """Somebody may write a password into an endpoint's URL."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"
