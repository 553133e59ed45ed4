"""What code, documents and tests cite is in the repository: files, headings of documents, decisions by their number."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.test_repository import MAKEFILE, ROOT, tracked_files

DOCS = ROOT / "docs"
TOP_FOLDERS = ("app", "bench", "dags", "docs", "infra", "ingest", "rebalance_audit", "spark_jobs", "tests")

_OF_OTHERS = frozenset({"CONFIGURATION.md", "app/runbook.md"})
"""Documents that are not here: librdkafka's, and the runbook's copy in the package."""
_DOCUMENT = re.compile(r"(?<![\w*<>/.-])((?:\.\./|[\w-]+/)*[\w-]+\.md)(?:#([\w-]+))?")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_PATH = re.compile(rf"(?<![\w./-])((?:{'|'.join(TOP_FOLDERS)})/[\w./-]+\.(?:py|java|sql|ya?ml|json|toml|txt))(?![\w/])")
_DOMAIN_PATH = re.compile(r"`(domain/[\w./-]+\.py)`")
_DECISION = re.compile(r"decisions? (\d{4})(?:(?:,| and) (\d{4}))*")
_HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


@cache
def texts() -> tuple[tuple[Path, str], ...]:
    """Every document and every file of code that git knows, but for this one and the captures."""
    wanted = {".py", ".md", ".java", ".go", ".toml", ".yml", ".yaml", ".sql", ".json", ""}
    return tuple(
        (path, path.read_text(errors="replace"))
        for path in tracked_files()
        if path.suffix in wanted and path != Path(__file__) and ROOT / "tests" / "golden" not in path.parents
    )


@cache
def anchors(document: Path) -> frozenset[str]:
    """As GitHub makes them of a document's headings."""
    seen: dict[str, int] = {}
    found = set()
    for heading in _HEADING.findall(_FENCE.sub("", document.read_text())):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        found.add(slug if slug not in seen else f"{slug}-{seen[slug]}")
        seen[slug] = seen.get(slug, 0) + 1
    return frozenset(found)


def cited_documents() -> Iterator[tuple[Path, str, str | None]]:
    for path, text in texts():
        for name, anchor in _DOCUMENT.findall(text):
            if name not in _OF_OTHERS:
                yield path, name, anchor or None


def place(path: Path, name: str) -> Path | None:
    """The document that a name in a file means: beside it, below the root, or in docs."""
    candidates = (path.parent / name, ROOT / name, DOCS / name)
    return next((c.resolve() for c in candidates if c.is_file()), None)


def where(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_every_document_that_is_cited_exists() -> None:
    """Or is made by the Makefile."""
    made = set(re.findall(r"\bmv \S+ (\S+\.md)", MAKEFILE))
    cited = ((path, name) for path, name, _ in cited_documents() if name not in made)
    missing = {f"{where(path)}: {name}" for path, name in cited if place(path, name) is None}
    assert missing == set()


def test_every_heading_that_is_cited_exists() -> None:
    missing = {
        f"{where(path)}: {name}#{anchor}"
        for path, name, anchor in cited_documents()
        if anchor is not None and (document := place(path, name)) is not None and anchor not in anchors(document)
    }
    assert missing == set()


def test_every_link_of_a_document_leads_somewhere() -> None:
    missing = set()
    for path, text in texts():
        if path.suffix != ".md":
            continue
        for target in _LINK.findall(_FENCE.sub("", text)):
            name, _, anchor = target.partition("#")
            if re.match(r"[a-z]+:", target):
                continue
            document = (path.parent / name).resolve() if name else path
            if not document.exists() or (anchor and document.suffix == ".md" and anchor not in anchors(document)):
                missing.add(f"{where(path)}: {target}")
    assert missing == set()


@pytest.mark.parametrize("suffixes", [(".md",), (".py", ".toml", ".yml", "")], ids=["documents", "code"])
def test_every_file_that_is_cited_by_its_path_exists(suffixes: tuple[str, ...]) -> None:
    missing = {
        f"{where(path)}: {name}"
        for path, text in texts()
        if path.suffix in suffixes
        for name in [*_PATH.findall(text), *(f"rebalance_audit/{n}" for n in _DOMAIN_PATH.findall(text))]
        if not (ROOT / name).exists()
    }
    assert missing == set()


def test_every_decision_that_is_cited_by_its_number_exists() -> None:
    numbers = {path.name[:4] for path in (DOCS / "decisions").glob("*.md")}
    missing = {
        f"{where(path)}: {number}"
        for path, text in texts()
        for match in _DECISION.finditer(text)
        for number in re.findall(r"\d{4}", match[0])
        if number not in numbers
    }
    assert missing == set()


def test_every_span_of_time_in_the_domain_says_where_it_comes_from() -> None:
    """A number in milliseconds is measured (its docstring cites docs/measured.md), a default of Kafka, or a choice."""
    silent = [
        f"{where(path)}: {match[1]}"
        for path, text in texts()
        if ROOT / "rebalance_audit" / "domain" in path.parents
        for match in re.finditer(r"^(?!(?:QUARTER_)?HOUR)(_?[A-Z][A-Z_]*_MS) = [\d_]+\n(?!\"\"\")", text, re.MULTILINE)
    ]
    assert silent == []


def test_every_place_the_vocabulary_names_exists() -> None:
    text = (DOCS / "vocabulary.md").read_text()
    named = set(re.findall(r"`((?:domain|spark_jobs|ingest)(?:/[\w./]+)?)`", text))
    places_of = {name: ROOT / ("rebalance_audit" if name.startswith("domain") else ".") / name for name in named}
    assert [name for name, found in places_of.items() if not found.exists()] == []
