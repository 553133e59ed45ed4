"""`serve` (Prometheus) and `ui` (the app): both on loopback unless another address is given."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rebalance_audit.commands import options
from rebalance_audit.commands.collect import until_stopped
from rebalance_audit.commands.options import ENVIRONMENT_WAREHOUSE, CommandError
from rebalance_audit.commands.output import note

if TYPE_CHECKING:
    from rebalance_audit.settings.choices import AppLogin

LOOPBACK = "127.0.0.1"
Port = Annotated[int, typer.Option("--port", metavar="P", min=0, max=65535)]
Host = Annotated[str, typer.Option("--host", metavar="H", help="Address to listen on.")]


def serve(
    warehouse: options.Warehouse,
    port: Port = 9464,
    host: Host = LOOPBACK,
    every: Annotated[str, typer.Option("--every", metavar="TIME", help="Look at the warehouse this often.")] = "15s",
    marks: Annotated[
        Path | None,
        typer.Option("--marks", metavar="FILE", help="Take marks at POST /marks from whoever has the token in it."),
    ] = None,
    quiet: options.Quiet = False,
    config: options.Config = None,
) -> None:
    """Serve Prometheus metrics from the published tables."""
    from rebalance_audit.commands.mark_hook import PATH, token_in, with_marks
    from rebalance_audit.exporter import Exporter
    from rebalance_audit.warehouse.warehouse import Warehouse

    opened = Warehouse.open(warehouse)
    every_s = options.duration_ms(every) / 1000
    token = None if marks is None else token_in(marks)
    exporter = Exporter(opened)
    exporter.refresh()
    try:
        server_port = exporter.listen(
            host, port, around=lambda metrics: metrics if token is None else with_marks(metrics, opened.location, token)
        )
    except OSError as error:
        raise _cannot_listen(host, port, error) from error
    where = f"http://{host}:{server_port}"
    taken = "" if token is None else f", and marks are taken at {where}{PATH}"
    note(f"Metrics are at {where}/metrics{taken}; Ctrl-C ends.", quiet=quiet)
    with until_stopped() as stopped:
        while not stopped.wait(every_s):
            exporter.refresh()
    exporter.close()


def ui(
    warehouse: options.Warehouse,
    port: Port = 8501,
    host: Host = LOOPBACK,
    quiet: options.Quiet = False,
    config: options.Config = None,
) -> None:
    """Serve the app. Without `app.login` in the settings it asks nobody who they are: keep it on loopback then."""
    from rebalance_audit.settings.choices import links_of, login_of
    from rebalance_audit.warehouse.warehouse import Warehouse

    chosen = options.settings(config)
    login = login_of(chosen)
    if login is None and host not in (LOOPBACK, "localhost", "::1"):
        note(f"Whoever reaches {host}:{port} can read everything; docs/login.md puts a log-in before it.", quiet=quiet)
    location = Warehouse.open(warehouse).location
    serve_app(location, port, host=host, quiet=quiet, login=login, links=links_of(chosen))


def serve_app(
    location: str,
    port: int,
    *,
    host: str = LOOPBACK,
    quiet: bool,
    login: AppLogin | None = None,
    links: str | None = None,
) -> None:
    """Serve the app until it is stopped. Raises CommandError if the app does not come up."""
    app = start_app(location, port, host, login, links)
    try:
        note(f"The app is at {app.address}; Ctrl-C ends.", quiet=quiet)
        with until_stopped() as stopped:
            while not stopped.wait(0.5):
                app.raise_if_ended()
    finally:
        app.stop()


class App:
    """The Streamlit server as a child process."""

    def __init__(
        self, process: subprocess.Popen[bytes], address: str, output: Path, secrets: Path | None = None
    ) -> None:
        self._process, self.address, self._output, self._secrets = process, address, output, secrets

    def wait_until_up(self, timeout_s: float = 120) -> None:
        from urllib.request import urlopen  # a tenth of the time of --help

        give_up_at = time.monotonic() + timeout_s
        while time.monotonic() < give_up_at:
            self.raise_if_ended()
            try:
                with urlopen(f"{self.address}/_stcore/health", timeout=2) as answer:
                    if answer.status == 200:
                        return
            except OSError:
                time.sleep(0.2)
        raise CommandError(f"The app did not answer at {self.address} within {timeout_s:.0f} s; see {self._output}.")

    def raise_if_ended(self) -> None:
        if self._process.poll() is not None:
            said = self._output.read_text(errors="replace").strip().splitlines()[-1:] or ["it said nothing"]
            raise CommandError(f"The app ended with status {self._process.returncode}: {said[0]}")

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._output.unlink(missing_ok=True)
        if self._secrets is not None:
            self._secrets.unlink(missing_ok=True)


def require_streamlit(hint: str = "") -> None:
    """Raises CommandError, whose sentence ends with the hint."""
    from importlib.util import find_spec

    if find_spec("streamlit") is None:
        remedy = "pip install 'rebalance-audit[ui]', or make setup in a checkout"
        raise CommandError(f"The app needs Streamlit: {remedy}{hint}.")


def start_app(
    location: str, port: int, host: str = LOOPBACK, login: AppLogin | None = None, links: str | None = None
) -> App:
    """Port 0: any that is free. Comes back when the app answers. `links`: see `settings.choices.links_of`."""
    import tempfile
    from importlib.util import find_spec

    require_streamlit()
    port = free_port(host, port)
    output = Path(tempfile.mkstemp(prefix="rebalance-audit-app-", suffix=".txt")[1])
    command = [
        sys.executable, "-m", "app.server", "--server.address", host, "--server.port", str(port),
        "--server.headless", "true", "--browser.gatherUsageStats", "false", "--server.fileWatcherType", "none",
        "--client.showErrorDetails", "none", "--client.toolbarMode", "minimal",
    ]  # fmt: skip
    environment, secrets = os.environ | {ENVIRONMENT_WAREHOUSE: location}, None
    environment.pop("REBALANCE_AUDIT_ACCESS", None)
    environment.pop("REBALANCE_AUDIT_LINKS", None)
    if links is not None:
        environment["REBALANCE_AUDIT_LINKS"] = links
    if login is not None:
        if find_spec("authlib") is None:
            raise CommandError("A log-in needs authlib: pip install 'rebalance-audit[ui]'.")
        secrets = Path(tempfile.mkstemp(prefix="rebalance-audit-login-", suffix=".toml")[1])  # for this user alone
        secrets.write_text(login.secrets)
        environment["REBALANCE_AUDIT_ACCESS"] = login.rules
        command += ["--secrets.files", str(secrets)]
    with output.open("wb") as said:
        process = subprocess.Popen(
            command,
            cwd=Path(__file__).parents[2],  # where `app` is, and no other program's .streamlit
            env=environment,
            stdout=said,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        )
    reached = LOOPBACK if host == "0.0.0.0" else host
    app = App(process, f"http://{reached}:{port}", output, secrets)
    try:
        app.wait_until_up()
    except BaseException:
        app.stop()
        raise
    return app


def free_port(host: str, wanted: int) -> int:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, wanted))
        except OSError as error:
            raise _cannot_listen(host, wanted, error) from error
        return int(probe.getsockname()[1])


def _cannot_listen(host: str, port: int, error: OSError) -> CommandError:
    is_host = isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL
    remedy = "give an address of this machine with --host" if is_host else "choose another with --port"
    return CommandError(f"Cannot listen on {host}:{port}: {error.strerror or error}; {remedy}.")
