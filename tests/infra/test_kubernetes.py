"""The manifests fit Kubernetes' own schemas, and say of our command line what it knows.

The operator's schema of SparkApplication is in no registry; docs/cluster.md says which one the manifest was held to.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import typer
import yaml

from rebalance_audit.cli import app

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "infra" / "kubernetes"
MANIFESTS = [
    pytest.param(manifest, id=f"{file.stem}-{manifest['kind']}")
    for file in sorted(FOLDER.glob("*.yaml"))
    for manifest in yaml.safe_load_all(file.read_text())
]


def commands(found: Any) -> list[list[str]]:
    """The arguments of every container and application in it."""
    if isinstance(found, dict):
        here = [found[name] for name in ("args", "arguments") if name in found]
        return here + [each for value in found.values() for each in commands(value)]
    return [each for value in found for each in commands(value)] if isinstance(found, list) else []


@pytest.mark.parametrize("manifest", MANIFESTS)
def test_a_manifest_fits_the_schema_of_its_kind(manifest: dict[str, Any]) -> None:
    if manifest["apiVersion"].startswith("sparkoperator"):
        assert manifest["spec"]["template"]["mainApplicationFile"].endswith("/submit.py")
        assert (ROOT / "infra" / "spark" / "submit.py").exists()
    else:
        kubernetes_validate.validate(manifest, kubernetes_validate.latest_version(), strict=True)


@pytest.mark.parametrize("manifest", MANIFESTS)
def test_its_commands_are_ours(manifest: dict[str, Any]) -> None:
    known = typer.main.get_command(app)
    for verb, *given in commands(manifest):
        of_verb = known.commands[verb]  # type: ignore[attr-defined]
        options = {name for parameter in of_verb.params for name in parameter.opts}
        assert {word for word in given if word.startswith("--")} <= options


def test_broken_manifests_are_refused() -> None:
    given: list[Any] = [param.values[0] for param in MANIFESTS]
    broken = next(manifest for manifest in given if manifest["kind"] == "StatefulSet")
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(
            {**broken, "spec": {**broken["spec"], "replica": 2}}, kubernetes_validate.latest_version(), strict=True
        )
