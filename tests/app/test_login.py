"""The log-in as people see it: `rebalance-audit ui` behind a real OpenID provider, in a real browser."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rebalance_audit.warehouse.responses import responses
from rebalance_audit.warehouse.warehouse import Warehouse
from tests.app import gold_rows
from tests.app.serving import ROOT, _wait_until_up, free_port, settled
from tests.tools import need

pytestmark = pytest.mark.browser

ACCOUNTS = {
    "ada": {"email": "ada@example.org", "email_verified": True, "groups": ["orders-people"]},
    "eve": {"email": "eve@example.org", "email_verified": True, "groups": ["audit-people"]},
    "max": {"email": "max@example.org", "email_verified": True, "groups": ["tennis"]},
}


@pytest.fixture(scope="module")
def location(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("behind") / "w"
    gold_rows.write(place, many=0)
    return place


@pytest.fixture(scope="module")
def address(location: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of the app, which knows people by the provider alone."""
    from infra.lab.identity import IdentityProvider

    need("npm", "install Node.js 20: the identity provider is an npm package")

    folder = tmp_path_factory.mktemp("login")
    port = free_port()
    url = f"http://localhost:{port}"
    client = {"client_id": "rebalance-audit", "client_secret": "the-clients-secret",
              "redirect_uris": [f"{url}/oauth2callback"], "scope": "openid email profile"}  # fmt: skip
    with IdentityProvider(folder, clients=[client], accounts=ACCOUNTS) as provider:
        (settings := folder / "settings.yaml").write_text(f"""
warehouse: {location}
teams:
  - {{name: orders, groups: [orders], members: [orders-people]}}
  - {{name: others, groups: [checkout, payments], members: [other-people]}}
app:
  public_url: {url}
  auditors: [audit-people]
  login:
    metadata_url: {provider.metadata_url}
    client_id: rebalance-audit
    client_secret: {{env: THE_CLIENTS_SECRET}}
    cookie_secret: {{env: THE_COOKIES_SECRET}}
    prompt: login
""")
        environment = os.environ | {
            "THE_CLIENTS_SECRET": "the-clients-secret", "THE_COOKIES_SECRET": "0123456789abcdef0123456789abcdef"
        }  # fmt: skip
        command = ["rebalance_audit.cli", "ui", "--config", str(settings), "--port", str(port)]
        server = subprocess.Popen(
            [sys.executable, "-m", *command], cwd=ROOT, env=environment, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            _wait_until_up(f"http://127.0.0.1:{port}/_stcore/health", server)
            yield url
        finally:
            server.terminate()
            server.wait(20)


def logged_in(chromium: Any, address: str, login: str) -> Any:
    page = chromium.new_context().new_page()
    page.goto(address)
    page.get_by_role("button", name="Log in").click()
    page.fill("input[name=login]", login)
    page.fill("input[name=password]", "any")
    page.click("button[type=submit]")
    page.wait_for_selector("input[value=consent]", state="attached")
    page.click("button[type=submit]")
    page.wait_for_url(f"{address}/**", timeout=30_000)
    settled(page)
    return page


def test_nothing_is_shown_before_somebody_logs_in(chromium: Any, address: str) -> None:
    for path in ("", "/groups", "/group?cluster=lab-cluster&group=orders"):
        page = chromium.new_context().new_page()
        page.goto(f"{address}{path}")
        page.get_by_role("button", name="Log in").wait_for(timeout=30_000)
        text = page.inner_text("body")
        assert "orders" not in text
        assert "checkout" not in text


def test_a_member_sees_her_teams_groups_and_answers_in_her_name(chromium: Any, address: str, location: Path) -> None:
    page = logged_in(chromium, address, "ada")
    assert "ada@example.org" in page.inner_text("body")
    page.goto(f"{address}/groups?last=3650d")
    settled(page)
    assert "checkout" not in page.inner_text("body")
    page.goto(f"{address}/group?cluster=lab-cluster&group=checkout")
    settled(page)
    assert "Nothing is known of group checkout" in page.inner_text("body")
    incident = Warehouse.open(location).query(
        "SELECT incident_id FROM gold.incident WHERE list_contains(group_ids, 'orders') AND status = 'open'"
    )["incident_id"][0]
    page.goto(f"{address}/incident?cluster=lab-cluster&incident={incident}")
    settled(page)
    page.get_by_role("button", name="Acknowledge").click()
    page.get_by_role("button", name="I am on it").click()
    page.get_by_text("Acknowledged by ada@example.org").wait_for(timeout=30_000)
    assert [each.by for each in responses(Warehouse.open(location))] == ["ada@example.org"]


def test_an_auditor_sees_all_and_has_no_buttons(chromium: Any, address: str, location: Path) -> None:
    page = logged_in(chromium, address, "eve")
    assert "auditor" in page.inner_text("body")
    incident = Warehouse.open(location).query(
        "SELECT incident_id FROM gold.incident WHERE list_contains(group_ids, 'checkout')"
    )["incident_id"][0]
    page.goto(f"{address}/incident?cluster=lab-cluster&incident={incident}")
    settled(page)
    assert "checkout" in page.inner_text("body")
    assert page.get_by_role("button", name="Acknowledge").count() == 0
    page.goto(f"{address}/group?cluster=lab-cluster&group=nobody")  # a page that ends early
    settled(page)
    assert page.get_by_role("button", name="Log out").count() == 1


def test_who_belongs_to_no_team_reads_so(chromium: Any, address: str) -> None:
    page = logged_in(chromium, address, "max")
    assert "Your account belongs to no team" in page.inner_text("body")
    page.goto(f"{address}/groups?last=3650d")
    settled(page)
    assert "orders" not in page.inner_text("body")


def test_the_secrets_of_the_login_are_nobody_elses(address: str) -> None:
    import tempfile

    files = list(Path(tempfile.gettempdir()).glob("rebalance-audit-login-*.toml"))
    assert files
    for file in files:
        assert file.stat().st_mode & 0o077 == 0
    assert json.dumps("the-clients-secret") in "".join(file.read_text() for file in files)
