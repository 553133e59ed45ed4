"""A real server on loopback and a real browser, for the browser test and for looking."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM_ARGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def chromium_path() -> str | None:
    return (
        os.environ.get("CHROMIUM")
        or shutil.which("chromium")
        or shutil.which("chromium-browser")
        or shutil.which("google-chrome")
    )


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port: int = s.getsockname()[1]
        return port


def app_on(warehouse: Path | str | None) -> contextlib.AbstractContextManager[str]:
    """The address of the app, served for this warehouse until the block ends."""
    return _served(["streamlit", "run", "app/asgi.py"], warehouse)


def served_as_ui(warehouse: Path | str) -> contextlib.AbstractContextManager[str]:
    """The same by `app.server`, as `rebalance-audit ui` starts it."""
    return _served(["app.server"], warehouse)


@contextlib.contextmanager
def _served(module: list[str], warehouse: Path | str | None) -> Iterator[str]:
    port = free_port()
    env = {k: v for k, v in os.environ.items() if k != "REBALANCE_AUDIT_WAREHOUSE"}
    if warehouse is not None:
        env["REBALANCE_AUDIT_WAREHOUSE"] = str(warehouse)
    server = subprocess.Popen(
        [sys.executable, "-m", *module, "--server.port", str(port), "--server.address", "127.0.0.1"],
        cwd=ROOT,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        _wait_until_up(f"http://127.0.0.1:{port}/_stcore/health", server)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait(10)


def _wait_until_up(address: str, server: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 240  # of a machine that is busy
    while time.monotonic() < until:
        if server.poll() is not None:
            said = server.stdout.read().decode(errors="replace") if server.stdout else ""
            raise RuntimeError(f"the app's server ended with {server.returncode}: {said[-2000:]}")
        with contextlib.suppress(OSError), urllib.request.urlopen(address, timeout=2) as answer:
            if answer.status == 200:
                return
        time.sleep(0.2)
    raise RuntimeError("the app's server was not up within 240 s")


@contextlib.contextmanager
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=chromium_path(), args=CHROMIUM_ARGS)
        try:
            yield found
        finally:
            found.close()


def settled(page: Any) -> None:
    """Until the app has finished its run and the pictures are drawn."""
    page.wait_for_selector(".ra-title", timeout=30_000)
    page.wait_for_function("!document.querySelector('[data-test-script-state=running]')", timeout=30_000)
    page.wait_for_timeout(350)
