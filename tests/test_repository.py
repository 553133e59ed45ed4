"""The repository itself: what its documents name is there, and nothing of the machine it was made on is in it."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GOLDEN = ROOT / "tests" / "golden"
NOT_YET = ROOT / "tests" / "not_yet"
"""Captures of which something is still wrong: scored, held by no test."""
GOLDEN_LIMIT_BYTES = 12 * 1024 * 1024
MAKEFILE = (ROOT / "Makefile").read_text()
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])

_TARGET = re.compile(r"^([a-z][a-z-]*):(?!=| export ).*?(?:##\s*(\S.*))?$", re.MULTILINE)
_MAKE_IN_TEXT = re.compile(r"`make ([a-z][a-z-]*)|^\s{0,4}(?:\$ )?make ([a-z][a-z-]*)", re.MULTILINE)
_MACHINE_PATH = re.compile(rb"(?<![\w.])/(?:root|home/[a-z]\w*|Users/\w+|work/\w+)/")
_REGISTRY_HOST = re.compile(
    rb"https?://[^/\s\"')]*(?:pypi|pythonhosted|maven|artifactory|nexus|registry|mirror|jfrog)[^/\s\"')]*/",
    re.IGNORECASE,
)
_REQUIREMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(?:\[[a-z0-9,_-]+\])?==[^\s;]+(?: ; .+)?")


def tracked_files() -> list[Path]:
    """What git knows, and what it would add; a copy without git cannot show strays."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
            cwd=ROOT, capture_output=True, check=True,
        ).stdout.decode()  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this copy has no git")
    return sorted(path for name in listed.split("\0") if name and (path := ROOT / name).is_file())


def test_every_make_target_a_document_names_exists() -> None:
    targets = {match[1] for match in _TARGET.finditer(MAKEFILE)}
    missing = [
        f"{document.relative_to(ROOT)}: make {name}"
        for document in DOCUMENTS
        for match in _MAKE_IN_TEXT.finditer(document.read_text())
        if (name := match[1] or match[2]) not in targets
    ]
    assert missing == []


def test_every_make_target_says_what_it_does() -> None:
    silent = [match[1] for match in _TARGET.finditer(MAKEFILE) if not match[2]]
    assert silent == []


def test_every_file_a_make_target_needs_is_there() -> None:
    named = re.findall(
        r"-m (bench\.\w+|infra\.\w+|spark_jobs\.\w+)|\$\(BIN\)/python ((?:bench|tests|infra)/\S+\.py)", MAKEFILE
    )
    for module, path in named:
        place = ROOT / (path or module.replace(".", "/"))
        assert place.exists() or place.with_suffix(".py").exists(), place


def test_a_tier_of_tests_is_marked_where_make_looks_for_it() -> None:
    """It looks for the mark's own words, in modules of tests and in what is shared by a folder of them."""
    marks = set(re.findall(r"^\t\$\(call tier,[^,]+,([a-z]+)", MAKEFILE, re.MULTILINE)) - {"not"}
    assert marks == {"spark", "broker", "differential", "airflow", "browser"}
    pattern = re.compile(rf"mark\.(?:{'|'.join(sorted(marks))})\b")
    elsewhere = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "tests").rglob("*.py")
        if not path.name.startswith("test_") and path.name != "conftest.py" and pattern.search(path.read_text())
    ]
    assert elsewhere == []


def test_no_path_of_a_machine_is_in_a_tracked_file() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {match[0].decode()}"
        for path in tracked_files()
        if path != Path(__file__) and path.suffix not in {".png", ".gz"}
        for match in _MACHINE_PATH.finditer(path.read_bytes())
    ]
    assert found == []


def test_no_package_index_is_in_a_tracked_file() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {match[0].decode()}"
        for path in tracked_files()
        if path != Path(__file__) and path.suffix not in {".png", ".gz"}
        for match in _REGISTRY_HOST.finditer(path.read_bytes())
        if not match[0].startswith(b"http://maven.apache.org/")  # the name of the pom's XML namespace
    ]
    assert found == []


@pytest.mark.parametrize("path", sorted((ROOT / "requirements").glob("*.txt")), ids=lambda p: p.name)
def test_requirements_hold_names_and_versions_only(path: Path) -> None:
    lines = [line for line in path.read_text().splitlines() if line.strip()]
    assert lines
    assert [line for line in lines if not _REQUIREMENT.fullmatch(line)] == []


def test_the_spark_provider_of_airflow_stays_out() -> None:
    """It brings pyspark-client, which overwrites pyspark's files (decision 0003)."""
    for path in (ROOT / "requirements").glob("*.txt"):
        names = {line.partition("==")[0] for line in path.read_text().splitlines()}
        assert not names & {"pyspark-client", "apache-airflow-providers-apache-spark"}, path.name


def test_golden_data_stays_small() -> None:
    kept = [path for folder in (GOLDEN, NOT_YET) for path in folder.rglob("*") if path.is_file()]
    assert 0 < sum(path.stat().st_size for path in kept) <= GOLDEN_LIMIT_BYTES


def test_a_capture_is_either_golden_or_not_yet() -> None:
    golden, not_yet = (
        {"/".join(path.parts[-3:-1]) for path in folder.glob("*/*/meta.json")} for folder in (GOLDEN, NOT_YET)
    )
    assert golden & not_yet == set()


@pytest.mark.parametrize(
    "capture", sorted(path.parent for path in GOLDEN.glob("*/*/meta.json")), ids=lambda p: f"{p.parent.name}-{p.name}"
)
def test_every_golden_folder_says_where_it_comes_from(capture: Path) -> None:
    origin = json.loads((capture / "origin.json").read_text())
    assert origin["kafka_version"] == capture.parent.name
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", origin["captured_on"])
    assert capture.name in origin["command"]


def test_every_golden_folder_is_a_capture() -> None:
    folders = {path for path in GOLDEN.glob("*/*") if path.is_dir()}
    assert folders == {path.parent for path in GOLDEN.glob("*/*/origin.json")}


def test_every_decision_has_its_four_parts() -> None:
    needed = ["Context", "Decision", "Evidence", "Consequences"]
    for path in {*(ROOT / "docs" / "decisions").glob("*.md")} - {ROOT / "docs" / "decisions" / "index.md"}:
        parts = re.findall(r"^\*\*(\w+)\.\*\* ", path.read_text(), re.MULTILINE)
        assert [part for part in parts if part in needed] == needed, path.name
        assert re.fullmatch(r"\d{4}-[a-z0-9-]+\.md", path.name)


def test_every_place_of_the_tour_is_there() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:rebalance_audit|spark_jobs|app|ingest|infra|tests|docs|dags|bench)(?:/[\w./]+)?)`", text)
    assert len(named) > 30
    missing = [path for path in named if "VERSION" not in path and not (ROOT / path).exists()]
    assert missing == []


def test_every_rule_has_a_heading_in_the_runbook() -> None:
    from rebalance_audit.domain.detect import GROUP_RULES, REASSIGNMENT_RULES, TABLE_RULES

    text = (ROOT / "docs" / "runbook.md").read_text()
    rules = (*GROUP_RULES, *TABLE_RULES, *REASSIGNMENT_RULES)
    missing = [rule for rule in rules if not re.search(rf"^#+ .*\b{rule}\b", text, re.MULTILINE)]
    assert missing == []


def test_python_files_are_named_by_what_they_hold() -> None:
    forbidden = {"utils", "util", "helpers", "helper", "common", "base", "manager", "misc"}
    named = [path for path in tracked_files() if path.suffix == ".py" and set(path.stem.split("_")) & forbidden]
    assert named == []


SHARED_NAMES = frozenset({
    "Cluster",  # one in the settings, one in the lab
    "Listener", "TruthConsumer",  # the lab's clients of each library: one part, played by each
    "LogFile",  # one read, one configured in the lab
    "News",  # private to a stage
})  # fmt: skip


def test_a_class_name_means_one_thing() -> None:
    places: dict[str, set[str]] = {}
    for path in tracked_files():
        if path.suffix == ".py" and path.relative_to(ROOT).parts[0] != "tests":
            for name in re.findall(r"^class _?(\w+)", path.read_text(), re.MULTILINE):
                places.setdefault(name, set()).add(str(path.relative_to(ROOT)))
    shared = {name: sorted(files) for name, files in places.items() if len(files) > 1 and name not in SHARED_NAMES}
    assert shared == {}
