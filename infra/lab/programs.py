"""Consumers written with other libraries than Java's and librdkafka's, and an OpenID provider: fetched as plain
packages and built once.

Each lives in `infra/lab/<language>` with its pinned packages, and is made in `.build/lab-clients/<language>`.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from .jars import BUILD, HERE, locked
from .processes import LabError

HOME = BUILD / "lab-clients"
GO_LIBRARIES = {"franz-go": "franz_go", "sarama": "sarama", "kafka-go": "kafka_go"}
PYTHON_LIBRARIES = {"kafka-python": "kafka_python_consumer.py", "aiokafka": "aiokafka_consumer.py"}
LIBRARIES = (*GO_LIBRARIES, "kafkajs", *PYTHON_LIBRARIES)


def command(library: str) -> list[str]:
    """The command that starts the consumer of that library; its packages are fetched the first time."""
    if library in GO_LIBRARIES:
        return [str(_made("go", _build_go) / GO_LIBRARIES[library])]
    if library == "kafkajs":
        _made("node", _install_node)
        return [_tool("node"), str(HERE / "node/kafkajs_consumer.js")]
    if library in PYTHON_LIBRARIES:
        python = _made("python", _install_python) / "bin/python"
        return [str(python), str(HERE / "python" / PYTHON_LIBRARIES[library])]
    raise LabError(f"There is no lab consumer for {library}; there is one for {', '.join(LIBRARIES)}.")


def identity_provider(settings: Path) -> list[str]:
    """The command that starts an OpenID provider with these settings."""
    _made("node", _install_node)
    return [_tool("node"), str(HERE / "node/identity_provider.js"), str(settings)]


def collector() -> Path:
    """The OpenTelemetry Collector, built from its Go modules the first time: a minute and a half of CPU."""
    return _made("collector", _build_collector) / "collector"


def environment() -> dict[str, str]:
    """Where Node finds its packages: not beside the program, which is part of the repository."""
    return {"NODE_PATH": str(HOME / "node/node_modules")}


def clock_environment(offset_ms: int) -> dict[str, str]:
    """Starts a process whose clock is ahead by so much; not one of Go, which asks the kernel itself."""
    found = next(iter(sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))), None)
    if found is None:
        raise LabError("This scenario needs Debian's package libfaketime; install it and try again.")
    return {"LD_PRELOAD": str(found), "FAKETIME": f"{offset_ms / 1000:+.3f}s", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


def versions() -> dict[str, str]:
    """The version of each library, as its own files pin it."""
    pinned: dict[str, str] = {}
    for line in (HERE / "go/go.mod").read_text().splitlines():
        words = line.split()
        for library in GO_LIBRARIES:
            if words and words[0].endswith(f"/{library}") and not line.endswith("// indirect"):
                pinned[library] = words[1].removeprefix("v")
    for line in (HERE / "python/requirements.txt").read_text().splitlines():
        name, _, version = line.partition("==")
        if name in PYTHON_LIBRARIES:
            pinned[name] = version
    pinned["kafkajs"] = (HERE / "node/package.json").read_text().partition('"kafkajs": "')[2].partition('"')[0]
    return pinned


def _made(language: str, make: Callable[[Path], None]) -> Path:
    """The folder in which the language's consumers are ready to run; made again when their sources changed."""
    folder, complete = HOME / language, HOME / f"{language}.complete"
    state = _fingerprint(HERE / language)
    with locked(HOME):
        if not complete.exists() or complete.read_text() != state:
            complete.unlink(missing_ok=True)
            folder.mkdir(parents=True, exist_ok=True)
            make(folder)
            complete.write_text(state)
    return folder


def _fingerprint(folder: Path) -> str:
    files = sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return hashlib.sha256(b"".join(path.name.encode() + path.read_bytes() for path in files)).hexdigest()


def _build_go(folder: Path) -> None:
    packages = [f"./{package}" for package in GO_LIBRARIES.values()]
    _run([_tool("go"), "build", "-trimpath", "-o", f"{folder}/", *packages], "Go", cwd=HERE / "go")


def _build_collector(folder: Path) -> None:
    _run([_tool("go"), "build", "-trimpath", "-o", f"{folder}/collector", "."], "Go", cwd=HERE / "collector")


def _install_node(folder: Path) -> None:
    for name in ("package.json", "package-lock.json"):
        shutil.copy(HERE / "node" / name, folder / name)
    _run([_tool("npm"), "ci", "--no-audit", "--no-fund"], "npm", cwd=folder)


def _install_python(folder: Path) -> None:
    _run([sys.executable, "-m", "venv", str(folder)], "venv")
    requirements = HERE / "python/requirements.txt"
    _run([str(folder / "bin/python"), "-m", "pip", "install", "-q", "-r", str(requirements)], "pip")


def _tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        package = {"go": "Go 1.26", "node": "Node.js 20", "npm": "npm"}[name]
        raise LabError(
            f"This scenario needs {package}, but there is no `{name}` on the PATH; install it and try again."
        )
    return found


def _run(words: list[str], what: str, *, cwd: Path | None = None) -> None:
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LabError(f"{what} could not make the lab's consumers: {(done.stderr or done.stdout)[-600:]}")
