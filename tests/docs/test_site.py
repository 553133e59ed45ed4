"""The site is whole, and what its how-to pages say to type does what they say."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml

from rebalance_audit.domain.detect.wording import counted
from rebalance_audit.warehouse.upgrading import lacking
from rebalance_audit.warehouse.warehouse import Warehouse
from tests.captures import GOLDEN
from tests.docs.pages import DOCS, HOW_TO, ROOT, run, typed
from tests.webhook import Webhook

CAPTURE = GOLDEN / "4.3.0" / "eager_join_leave_kill"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", str(folder)], cwd=ROOT, capture_output=True,
        text=True, check=False, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_page_is_reached_and_no_link_is_dead(site: Path) -> None:
    """The strict build refuses dead links and anchors, and pages that are not in the navigation."""
    pages = {page.stem for page in site.glob("*.html")} - {"404"}
    assert pages == {page.stem for page in DOCS.glob("*.md")}
    assert (site / "pictures" / "home.png").exists()
    assert (site / "settings.schema.json").exists()  # what the page about settings leads to


def test_the_search_finds_what_pages_are_about(site: Path) -> None:
    found = json.loads((site / "search" / "search_index.json").read_text("utf-8"))["docs"]
    for word, page in (("kafka-acls", "access.html"), ("storm", "runbook.html"), ("quarantine", "checks.html")):
        assert any(word in entry["text"].lower() and entry["location"].startswith(page) for entry in found), word


def test_the_index_of_decisions_has_each_with_its_title() -> None:
    folder = DOCS / "decisions"
    titles = {page.name: page.read_text("utf-8").split("\n", 1)[0][2:] for page in folder.glob("0*.md")}
    listed = re.findall(r"^- \[(\d{4})\]\((.+?)\) (.+)$", (folder / "index.md").read_text("utf-8"), re.M)
    assert {page: f"{number} {title}" for number, page, title in listed} == titles
    assert len(listed) == len(titles)


def test_no_page_fetches_anything_when_it_is_read(site: Path) -> None:
    for page in site.glob("*.html"):
        assert not re.findall(
            r'<(?:script|link)[^>]+(?:src|href)="https?://(?!.*rel="canonical")', page.read_text("utf-8")
        )


def test_how_to_pages_are_those_of_the_navigation() -> None:
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))["nav"]
    how_to = next(part["How to"] for part in nav if "How to" in part)
    assert {name.removesuffix(".md") for entry in how_to for name in entry.values()} | {"index"} == set(HOW_TO)


@pytest.mark.parametrize("page", HOW_TO)
def test_commands_stand_in_blocks_that_are_typed(page: str) -> None:
    """What stands in a block of plain text is an answer, or the usage of a verb with placeholders."""
    text = (DOCS / f"{page}.md").read_text("utf-8")
    for block in re.findall(r"^```text\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        assert not re.search(r"^(rebalance-audit|airflow|kafka-)", block, re.MULTILINE), block


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A warehouse with one cluster in it."""
    run(f"rebalance-audit import -q {CAPTURE} -w w --cluster-id shop && rebalance-audit run -q -w w", tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", ["sizing", "checks", "audit", "operate"])
def test_what_a_page_says_about_a_warehouse_works(kept: Path, page: str) -> None:
    yours = {
        "W": f"{kept}/w", "KEY": f"{kept}/audit.pem", "REBALANCE_AUDIT_HEADS": f"{kept}/heads",
        "BACKUP": f"{kept}/copy",
    }  # fmt: skip
    said = run(typed(page, yours), kept)
    if page in ("audit", "operate"):
        assert said.stdout.startswith("Intact: ")
    if page == "audit":
        assert list((kept / "heads").iterdir())
    if page == "checks":
        assert "gold.rebalance" in (kept / "checks.csv").read_text()


def test_the_settings_of_the_services_are_understood(tmp_path: Path) -> None:
    said = run(typed("install", {"REBALANCE_AUDIT_CONFIG": f"{tmp_path}/settings.yaml"}), tmp_path)
    assert "1 cluster, 0 teams" in said.stderr


def test_what_the_page_says_to_copy_is_all_that_an_answer_needs(tmp_path: Path) -> None:
    broker = shutil.copytree(CAPTURE / "data" / "broker-1", tmp_path / "broker-1")
    cluster_id = json.loads((CAPTURE / "meta.json").read_text())["cluster_id"]
    (broker / "meta.properties").write_text(f"cluster.id={cluster_id}\n")
    yours = {"DATA": str(broker), "LOGS": f"{CAPTURE}/logs/broker-1", "DIR": f"{tmp_path}/copied"}
    assert "orders-app" in run(typed("evidence_folders", yours), tmp_path).stdout
    copied, whole = (
        run(f"rebalance-audit explain orders-app -o json --evidence {folder}", tmp_path).stdout
        for folder in (tmp_path / "copied", CAPTURE)
    )
    assert json.loads(copied)["rebalances"] == json.loads(whole)["rebalances"]


def test_the_upgrade_page_leads_from_the_first_release_to_this_one(tmp_path: Path) -> None:
    with tarfile.open(ROOT / "tests/warehouse/releases/0.1.0.tar.gz") as packed:
        packed.extractall(tmp_path, filter="data")
    assert lacking(Warehouse.open(tmp_path / "w"))
    said = run(typed("upgrade", {"W": f"{tmp_path}/w"}), tmp_path)
    assert "\nIntact: " in said.stdout
    assert lacking(Warehouse.open(tmp_path / "w")) == []


def test_alerts_go_out_once_as_the_page_says(kept: Path) -> None:
    webhook = Webhook()
    try:
        said = run(typed("alerting", {"W": f"{kept}/w", "TARGET": webhook.url}), kept)
    finally:
        webhook.close()
    incidents = [alert["labels"]["incident_id"] for alert in webhook.alerts]
    assert incidents
    assert len(incidents) == len(set(incidents))
    assert f"{counted(len(incidents), 'message')} would be sent." in said.stderr
    assert "0 incidents sent." in said.stderr  # the second time


@pytest.mark.airflow
def test_the_tour_leads_from_nothing_to_a_verified_audit(tmp_path: Path) -> None:
    """In a clone, typing only what the page says; the environment is the one that is there, so that `make setup` has
    nothing to do (`python -m tests.docs.tour` makes it again)."""
    from tests.docs.tour import check, clone

    folder = clone(tmp_path / "clone", has_environment=True)
    check(folder)


@pytest.mark.broker
def test_the_first_answer_and_the_rights_work_on_a_real_cluster(tmp_path: Path) -> None:
    """With Kafka's own tool for rights, which the lab has as a class and not as a script."""
    from confluent_kafka import Consumer
    from confluent_kafka.admin import AdminClient, NewTopic

    from infra.lab.cluster import Cluster
    from infra.lab.jars import libs, tool
    from infra.lab.shape import ClusterShape

    rights = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin" / "kafka-acls.sh"
    script.write_text(
        f'#!/bin/sh\nexec {tool("java")} -cp "{libs("4.3.0")}/*" org.apache.kafka.tools.AclCommand "$@"\n'
    )
    script.chmod(0o755)
    for name in ("admin.properties", "client.properties"):
        (tmp_path / name).write_text("security.protocol=PLAINTEXT\n")
    with Cluster(ClusterShape(broker_properties=rights), folder=tmp_path / "lab") as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic("orders", 2)])["orders"].result(30)
        for _ in range(2):
            consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "orders-app"})
            consumer.subscribe(["orders"])
            while not consumer.assignment():
                consumer.poll(0.2)
            consumer.close()
        yours = {
            "KAFKA": cluster.bootstrap, "LOGS": str(cluster.folder / "logs"), "GROUP": "orders-app",
            "ADMIN": "admin.properties", "WE": "User:ANONYMOUS", "CLIENT": "client.properties",
        }  # fmt: skip
        environment = {
            "PATH": os.pathsep.join([f"{tmp_path}/bin", str(Path(sys.executable).parent), os.environ["PATH"]])
        }
        said = run(typed("access", yours), tmp_path, environment)
        assert "operation=READ, permissionType=ALLOW" in said.stdout
        said = run(typed("first_answer", yours), tmp_path, environment)
        assert "orders-app" in said.stdout
        assert "a member joined" in said.stdout
