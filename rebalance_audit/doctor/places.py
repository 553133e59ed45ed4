"""Whether a warehouse is whole, and which places can be read and written."""

from __future__ import annotations

import os
import shlex
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path

from rebalance_audit.doctor.diagnosis import Diagnosis, fault, ok, optional


def warehouse(location: str, *, is_written: bool = False) -> Iterator[Diagnosis]:
    """Diagnoses of a warehouse. `is_written`: somebody means to collect into it, so reading is not enough."""
    from rebalance_audit.warehouse.damage import damages
    from rebalance_audit.warehouse.storage import files_at, passing_fault
    from rebalance_audit.warehouse.warehouse import Warehouse, WarehouseError
    from rebalance_audit.warehouse.worked_out import by_another_release

    if "://" not in location and not Path(location).exists():
        yield optional("warehouse", f"There is no warehouse at {location} yet", _FIRST)
        if not os.access(parent := existing(Path(location)), os.W_OK):
            yield fault("warehouse", f"{parent} is not writable for this user", "choose another place")
        return
    try:
        place = files_at(location)
        if not place.is_local and not place.is_there("warehouse.json"):
            yield optional("warehouse", f"There is no warehouse at {location} yet", _FIRST)
            yield writing(location, is_needed=True)
            return
        opened = Warehouse.open(location)
        published = opened.published()
        landed = len(opened.landed("record")) + len(opened.landed("log_line"))
    except WarehouseError as error:
        yield fault("warehouse", str(error))
        return
    except Exception as error:
        if (sentence := passing_fault(error)) is None:
            raise
        yield fault("warehouse", sentence)
        return
    if not published:
        yield fault(
            "warehouse", f"{landed} landing files, nothing published yet", f"run `rebalance-audit run -w {location}`"
        )
    else:
        yield ok("warehouse", f"{len(published)} tables published, {landed} landing files")
    damaged = damages(opened)
    for name, why in damaged.items():
        yield fault(name, why.removeprefix(f"{name} "))
    if not damaged and (sentence := by_another_release(opened)) is not None:
        yield optional("answers", *sentence.removesuffix(".").split(": ", 1))
    yield writing(location, is_needed=is_written)


_FIRST = "the first `import`, `collect` or `watch` makes it"


_ANOTHER_TAG = f'"{"0" * 32}"'
"""A tag that no file of ours has."""


def writing(location: str, *, is_needed: bool) -> Diagnosis:
    """Whether this user may write there, tried by writing; in a store also whether of two writers one is refused."""
    from rebalance_audit.warehouse.storage import files_at, passing_fault

    files, name = files_at(location), f"notes/doctor-{uuid.uuid4().hex}"
    remedy = "only reading verbs work (`report`, `export`, `explain`, `serve`, `ui`)"
    try:
        if files.is_local:
            files.write(name, b"1")
        else:
            files.write_if(name, b"1", None)
            if files.write_if(name, b"2", None) is not None or files.write_if(name, b"3", _ANOTHER_TAG) is not None:
                files.delete(name)
                return fault(
                    "writing",
                    f"the store of {location} accepts a second put that it must refuse: two writers could both commit",
                    "use a store that supports conditional puts (If-None-Match, If-Match)",
                )
        files.delete(name)
    except Exception as error:
        sentence = passing_fault(error)
        if sentence is None and not isinstance(error, PermissionError):
            raise
        detail = sentence or f"{location} is not writable for this user"
        return fault("writing", detail) if is_needed else optional("writing", detail, remedy)
    return ok("writing", "a file was written and deleted")


def files(folders: Iterable[Path]) -> Iterator[Diagnosis]:
    """Diagnoses of folders: whether every file below them can be read."""
    for folder in folders:
        if not folder.is_dir():
            yield fault("files", f"{folder} is not a folder", "check the path")
            continue
        if not os.access(folder, os.R_OK | os.X_OK):
            yield fault("files", f"{folder} may not be listed by this user", allow(folder))
            continue
        found = [path for path in sorted(folder.rglob("*")) if path.is_file() or not os.access(path, os.R_OK)]
        closed = [path for path in found if not os.access(path, os.R_OK)]
        for path in closed[:5]:
            yield fault("files", f"{path} may not be read by this user", allow(folder))
        if len(closed) > 5:
            yield fault("files", f"{len(closed) - 5} more files below {folder} may not be read", allow(folder))
        if not closed:
            yield ok("files", f"{len(found)} readable below {folder}")


def allow(folder: Path, may: str = "rX") -> str:
    """How its owner lets this user into a folder, and into the files that come later: logs are rotated."""
    entry = f"u:{_this_user()}:{may}"
    return f"as its owner: setfacl -R -m {entry},d:{entry} {shlex.quote(str(folder))}"


def _this_user() -> str:
    """By the process's rights: LOGNAME is still another's after `runuser -u` or `sudo -u`."""
    import pwd  # here, since Windows lacks it and may still read

    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # a container's user may have no name
        return str(os.geteuid())


def existing(place: Path) -> Path:
    while not place.exists() and place != place.parent:
        place = place.parent
    return place
