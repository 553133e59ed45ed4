"""The doctor names what is missing, and what to do about it."""

from __future__ import annotations

import errno
import os
import pwd
import re
import tempfile
import tomllib
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from rebalance_audit import doctor
from rebalance_audit.doctor import Health, places, runtime
from rebalance_audit.settings.reading import parse_settings
from rebalance_audit.warehouse.object_files import ObjectFiles
from rebalance_audit.warehouse.warehouse import Warehouse
from tests import object_store as faults
from tests.object_store import ObjectStore


@pytest.mark.parametrize(
    ("version", "state"), [((3, 10, 12), "fault"), ((3, 11, 0), "ok"), ((3, 13, 2), "ok"), ((3, 14, 0), "fault")]
)
def test_python_must_be_one_that_everything_runs_on(version: tuple[int, ...], state: str) -> None:
    assert runtime.python(version).state == state


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime …', 17),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "25" 2025-09-16', 25),
        ("command not found", None),
    ],
)
def test_the_version_of_java_is_read(said: str, version: int | None) -> None:
    assert runtime.java_version(said) == version


def java_that_says(folder: Path, said: str) -> Path:
    home = folder / "jdk"
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho '{said}' >&2\n")
    program.chmod(0o755)
    return home


def test_a_java_too_old_for_spark_is_named_with_its_remedy(tmp_path: Path) -> None:
    home = java_that_says(tmp_path, 'openjdk version "11.0.2"')
    check = runtime.java({"JAVA_HOME": str(home)})
    assert check.state is Health.FAULT
    assert "Java 11" in check.detail
    assert "17" in check.remedy


def test_no_java_at_all_is_named_with_its_remedy() -> None:
    check = runtime.java({}, which=lambda name: None)
    assert check.state is Health.FAULT
    assert "apt-get install" in check.remedy


def test_a_java_home_without_java_is_named() -> None:
    check = runtime.java({"JAVA_HOME": "/nowhere"})
    assert check.state is Health.FAULT
    assert "unset JAVA_HOME" in check.remedy


def test_missing_packages_are_named_as_they_are_installed() -> None:
    found = list(runtime.packages(lambda module: None if module == "google_crc32c" else object()))
    assert found[0].state is Health.FAULT
    assert "google-crc32c" in found[0].detail


@pytest.mark.parametrize(("origin", "form"), [("/a/classic.py", "plain Python"), ("/a/classic.so", "compiled")])
def test_the_form_of_the_domain_is_named(origin: str, form: str) -> None:
    found = runtime.domain(lambda name: ModuleSpec(name, None, origin=origin))
    assert (found.state, found.detail) == (Health.OK, f"{form}, {origin}")


def test_an_extra_that_is_not_installed_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {check.subject: check for check in runtime.packages(lambda m: None if m in ("pyspark", "streamlit") else 1)}
    assert {name: check.state for name, check in found.items()} == {
        "packages": "ok", "collector": "ok", "spark": "optional", "ui": "optional", "otel": "ok"
    }  # fmt: skip
    assert found["spark"].detail.startswith("missing: pyspark; only needed for")
    assert found["ui"].remedy == "pip install 'rebalance-audit[ui]'"
    assert runtime.without_spark(runtime.java({}, which=lambda name: None)).state is Health.OPTIONAL


def test_the_extras_are_those_of_the_package() -> None:
    stated = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    wanted = {name: " ".join(needs) for name, needs in stated["optional-dependencies"].items()}
    for extra, (_, modules) in runtime.EXTRAS.items():
        assert all(package in wanted[extra] for package in modules.values())
    assert all(package in " ".join(stated["dependencies"]) for package in runtime.MODULES.values())


def test_every_secret_of_the_settings_that_is_lost_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("A", "B", "C", "D"):
        monkeypatch.delenv(name, raising=False)
    settings = parse_settings(
        "clusters: [{name: shop, bootstrap_servers: 'k:1', client: {sasl.password: {env: A}, sasl.jaas.config: "
        f"{{file: {tmp_path}/b}}}}}}]\n"
        "app: {public_url: 'https://a.b', login: {metadata_url: 'https://x/y', client_id: i, client_secret: {env: C}, "
        "cookie_secret: {env: D}}}\n",
        "s.yaml",
    )
    assert [(check.subject, check.state, check.detail) for check in doctor.settings(settings)] == [
        ("shop: client", "fault", "The environment variable A, named in the settings, is not set."),
        ("shop: client", "fault", f"{tmp_path}/b, named in the settings, cannot be read (No such file or directory)."),
        ("log-in", "fault", "The environment variable C, named in the settings, is not set."),
        ("log-in", "fault", "The environment variable D, named in the settings, is not set."),
    ]


def test_little_space_is_shown_before_a_run_ends_in_the_middle(tmp_path: Path) -> None:
    assert runtime.disk(tmp_path, 10 << 20).state is Health.FAULT
    assert runtime.disk(tmp_path, 500 << 20).state is Health.OPTIONAL
    assert runtime.disk(tmp_path, 5 << 30).state is Health.OK


def test_no_temporary_folder_at_all_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found in ['/tmp', '/']")

    monkeypatch.setattr(tempfile, "gettempdir", none)
    check = runtime.scratch()
    assert (check.state, check.remedy) == (Health.FAULT, "set TMPDIR to a writable folder")


def test_a_missing_maven_is_only_missing_for_the_lab(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    check = runtime.tool("mvn", "Maven", "real clusters", "maven")
    assert (check.state, check.remedy) == (Health.OPTIONAL, "apt-get install maven")


def test_a_file_that_may_not_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = tmp_path / "server.log"
    closed.write_text("x")
    (tmp_path / "controller.log").write_text("x")
    may = os.access
    # The tests may run as root, who may read everything.
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != closed and may(path, mode))
    (check,) = doctor.files([tmp_path])
    assert check.state is Health.FAULT
    assert str(closed) in check.detail
    me = pwd.getpwuid(os.geteuid()).pw_name
    assert check.remedy == f"as its owner: setfacl -R -m u:{me}:rX,d:u:{me}:rX {tmp_path}"  # files to come, too


def test_a_place_for_heads_is_opened_for_writing_and_nothing_above_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    for heads, first in ((tmp_path, ""), (tmp_path / "heads", "make the folder; ")):
        (check,) = doctor.settings(parse_settings(f"evidence_log: {{heads: '{heads}'}}\n", "s.yaml"))
        assert check.remedy is not None
        assert re.fullmatch(rf"{first}as its owner: setfacl -R -m (u:\w+:rwX),d:\1 {heads}", check.remedy)


def test_readable_files_are_counted(tmp_path: Path) -> None:
    (tmp_path / "server.log").write_text("x")
    (check,) = doctor.files([tmp_path])
    assert check.state is Health.OK
    assert check.detail.startswith("1 readable")


def test_a_host_that_does_not_answer_is_named() -> None:
    (check,) = doctor.cluster({"bootstrap.servers": "127.0.0.1:1"})
    assert check.state is Health.FAULT
    assert "127.0.0.1:1" in check.detail


def test_a_warehouse_nobody_published_is_distinguished_from_none(tmp_path: Path) -> None:
    (none,) = doctor.warehouse(str(tmp_path / "w"))
    assert "There is no warehouse" in none.detail
    assert none.state is Health.OPTIONAL
    Warehouse.open(tmp_path / "w", create=True)
    empty, writing = doctor.warehouse(str(tmp_path / "w"))
    assert "nothing published" in empty.detail
    assert "rebalance-audit run" in empty.remedy
    assert writing.state is Health.OK
    assert not list((tmp_path / "w" / "notes").iterdir())


@pytest.mark.parametrize(("is_written", "state"), [(False, Health.OPTIONAL), (True, Health.FAULT)])
def test_a_warehouse_that_may_only_be_read_is_found_out_by_writing(
    object_store: ObjectStore, store_url: str, asks_twice: None, *, is_written: bool, state: Health
) -> None:
    first, second = doctor.warehouse(store_url)
    assert (first.state, second.state) == (Health.OPTIONAL, Health.OK)
    Warehouse.open(store_url, create=True)
    object_store.fault = faults.refuses_writes(*faults.READ_ONLY)
    *_, writing = doctor.warehouse(store_url, is_written=is_written)
    assert (writing.subject, writing.state) == ("writing", state)
    assert "refuses this; the user needs GetObject, PutObject" in writing.detail


def test_a_disk_mounted_read_only_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Warehouse.open(tmp_path / "w", create=True)

    def refused(*_: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "replace", refused)
    *_, writing = doctor.warehouse(str(tmp_path / "w"))
    assert (writing.state, writing.detail.partition(";")[0]) == (Health.OPTIONAL, "The disk: Read-only file system")


def test_a_store_without_conditional_puts_is_a_fault(
    object_store: ObjectStore, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two writers would both commit, and nobody would see it."""
    put = ObjectFiles.write

    def careless(files: ObjectFiles, name: str, data: bytes, tag: str | None) -> str:
        put(files, name, data)
        return "tag"

    monkeypatch.setattr(ObjectFiles, "write_if", careless)
    writing = places.writing(store_url, is_needed=False)
    assert writing.state is Health.FAULT
    assert "conditional puts" in writing.remedy


def test_a_healthy_machine_has_no_fault_in_python_and_packages() -> None:
    states = {check.subject: check.state for check in doctor.machine()}
    assert states["python"] is Health.OK
    assert states["packages"] is Health.OK
