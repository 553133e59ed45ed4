"""Units and image, as far as this machine can judge them: nothing here starts systemd or builds an image."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.captures import GOLDEN

INFRA = GOLDEN.parents[1] / "infra"
UNITS = sorted((INFRA / "systemd").glob("*.service"))
COMMAND = "/opt/rebalance-audit/venv/bin/rebalance-audit"


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_systemd_understands_every_line_of_a_unit(unit: Path, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    text = unit.read_text()
    assert COMMAND in text
    there = tmp_path / unit.name
    there.write_text(text.replace(COMMAND, "/bin/true"))  # that it is installed there is not the question
    done = subprocess.run(["systemd-analyze", "verify", there], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_page_and_the_units_name_the_same_places() -> None:
    page = (INFRA.parent / "docs" / "install.md").read_text()
    units = {unit.name: unit.read_text() for unit in UNITS}
    (started,) = re.findall(r"^systemctl enable --now (.+)$", page, re.MULTILINE)
    for name in started.split():
        assert re.sub("@.+", "@", name) + ".service" in units
    (settings,) = re.findall("REBALANCE_AUDIT_CONFIG=(.+)", units["rebalance-audit-watch@.service"])
    assert page.count(settings) == 2
    assert COMMAND in page
    for user in re.findall("^User=(.+)$", "\n".join(units.values()), re.MULTILINE):
        assert f"useradd --system {user}" in page


def test_the_image_has_two_stages_and_ends_as_a_user_without_rights() -> None:
    text = (INFRA / "Dockerfile").read_text()
    build, run = re.split(r"^FROM debian:bookworm-slim\n", text, flags=re.MULTILINE)
    assert "AS build" in build
    let_through = (INFRA.parent / ".dockerignore").read_text().splitlines()
    assert "python3.11-venv" not in run
    assert re.findall(r"^USER (.+)$", run, re.MULTILINE) == ["10001"]
    for source in re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE):
        for name in source.split():
            assert (INFRA.parent / name).exists(), name
            assert f"!{name}" in let_through, f"{name} is not there for a builder: .dockerignore keeps it out"


def test_every_service_has_a_read_only_root_and_no_rights() -> None:
    services = yaml.safe_load((INFRA / "compose.yml").read_text())["services"]
    assert set(services) == {"watch", "ui", "metrics"}
    for service in services.values():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))
