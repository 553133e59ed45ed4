"""An OpenID provider on this machine: npm's `oidc-provider`, fetched like the other lab programs."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from . import programs
from .processes import LabError, Process, free_ports, wait_until


class IdentityProvider:
    """Runs while it is entered. People log in with a name of `accounts` and any password."""

    def __init__(
        self, folder: Path, *, clients: Sequence[Mapping[str, Any]], accounts: Mapping[str, Mapping[str, Any]],
        audience: str = "urn:lab",
    ) -> None:  # fmt: skip
        (self._port,) = free_ports(1)
        settings = folder / "identity-provider.json"
        settings.write_text(
            json.dumps({"port": self._port, "clients": clients, "accounts": accounts, "audience": audience})
        )
        output = folder / "identity-provider.txt"
        command = programs.identity_provider(settings)
        self._process = Process("identity-provider", command, folder=folder, output=output)

    @property
    def issuer(self) -> str:
        return f"http://localhost:{self._port}"

    @property
    def metadata_url(self) -> str:
        return f"{self.issuer}/.well-known/openid-configuration"

    def __enter__(self) -> Self:
        self._process.start({**os.environ, **programs.environment()})
        try:
            wait_until(f"{self.metadata_url} answers", self._answers, timeout_s=30)
        except BaseException:
            self._process.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.stop()

    def _answers(self) -> bool:
        if not self._process.is_running():
            raise LabError(f"The identity provider ended while starting:\n{self._process.last_output()}")
        try:
            with urllib.request.urlopen(self.metadata_url, timeout=2) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False
