from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "infra" / "prometheus"
RULES = (FOLDER / "rules.yml").read_text(encoding="utf-8")
CASES = (FOLDER / "rules_test.yml").read_text(encoding="utf-8")
ALERTS = re.findall(r"^ +- alert: (\w+)$", RULES, flags=re.MULTILINE)


def _promtool() -> str:
    found = shutil.which("promtool")
    if found is None:
        reason = "promtool is not installed (Debian package prometheus): the alert rules were not tried"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return found


def test_the_alert_rules_fire_and_do_not_fire_as_their_cases_say() -> None:
    run = subprocess.run(
        [_promtool(), "test", "rules", "rules_test.yml"], cwd=FOLDER, capture_output=True, text=True, timeout=120
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_each_alert_has_a_case_that_fires_and_one_that_does_not() -> None:
    assert len(ALERTS) == len(set(ALERTS)) > 5
    for alert in ALERTS:
        answers = re.findall(rf"alertname: {alert}\n +exp_alerts:( \[\])?", CASES)
        assert "" in answers, f"{alert} never fires in {FOLDER / 'rules_test.yml'}"
        assert " []" in answers, f"{alert} has no case in which it is silent"


def test_each_alert_links_to_a_heading_of_the_runbook() -> None:
    headings = {
        h.lower() for h in re.findall(r"^## (\S+)$", (ROOT / "docs" / "runbook.md").read_text("utf-8"), re.MULTILINE)
    }
    links = re.findall(r"runbook_url: '([^']*)'", RULES)
    assert len(links) == len(ALERTS)
    for link in links:
        file, _, anchor = link.partition("#")
        assert file == "docs/runbook.md"
        assert anchor in headings or anchor == "{{ $labels.rule | toLower }}"


def test_only_metrics_that_the_exporter_has_are_asked_for() -> None:
    from rebalance_audit.exporter import METRICS, PREFIX

    asked = {name.removesuffix("_total") for name in re.findall(rf"(?<![:\w]){PREFIX}_(\w+)", RULES + CASES)}
    assert asked <= set(METRICS), asked - set(METRICS)


def test_no_label_holds_what_only_one_member_has() -> None:
    assert not re.search(r"\b(member_id|client_id|client_host)\b\s*(=|!=|,|\}|\))", RULES)
