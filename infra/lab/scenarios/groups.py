"""Groups side by side that all do the same at about the same time, each with members of its own library."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from infra.lab.clients import kip848_settings, plain_settings
from infra.lab.configs import version_key
from infra.lab.driver import Driver
from rebalance_audit.domain.causes import Cause

from .libraries import EAGER

TOPIC = "orders"
QUIET_S = 4.0


class Groups:
    """One group for each letter; its members are the letter and a number: `k1`, `k2`.

    `expect` writes the same row for each group. How many rows `expect_written` adds is the coordinator's word, since
    members that come or go within a second make one rebalance or several.
    """

    def __init__(
        self,
        driver: Driver,
        libraries: Mapping[str, str],
        *,
        partitions: int,
        per_second: int = 24,
        assignor: str | None = None,
        is_kip848: bool = False,
        own: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        """`libraries`: by letter. `assignor`: of every group, where it is not the library's own eager one. `own`: by
        letter, options of all members of that group."""
        self.driver, self.libraries, self.is_kip848 = driver, dict(libraries), is_kip848
        self._own = own or {}
        driver.topics(**{TOPIC: partitions})
        driver.produce(per_second=per_second)
        for letter, library in libraries.items():
            if is_kip848:
                facts: dict[str, Any] = {"group_type": "consumer", "mode": "server", "assignor": "uniform"}
                facts["first_number"] = 2 if version_key(driver.cluster.version) >= (4, 3) else 1
            else:
                chosen = assignor or EAGER.get(library, "range")
                mode = "cooperative" if chosen == "cooperative-sticky" else "eager"
                facts = {"group_type": "classic", "mode": mode, "assignor": chosen}
            driver.group(self.group(letter), **facts)

    def group(self, letter: str) -> str:
        return f"{letter}-{self.libraries[letter]}"

    def names(self, number: str) -> list[str]:
        return [f"{letter}{number}" for letter in self.libraries]

    def start(self, number: str, *, is_static: bool = False, **options: Any) -> None:
        """One in each group, and nothing is expected yet."""
        for letter, library in self.libraries.items():
            name, more = f"{letter}{number}", {**self._own.get(letter, {}), **options}
            if is_static:
                more["group_instance_id"] = f"{name}-instance"
            if self.is_kip848:
                server = library == "franz-go"
                more = {"settings": plain_settings("server", **more) if server else kip848_settings(**more)}
            self.driver.join(name, self.group(letter), [TOPIC], library=library, **more)

    def come(self, *numbers: str, **options: Any) -> None:
        """One after another."""
        for number in numbers:
            self.start(number, **options)
            self.expect(Cause.MEMBER_JOINED, number)
            self.settle()
            for letter, library in self.libraries.items():
                # It now and then drops the result of a join that went well, and joins again.
                while library == "kafka-python" and self.driver.expect_if_seen(
                    self.group(letter), Cause.LEADER_REJOINED, []
                ):
                    pass

    def each(self, number: str, act: Callable[[str], object]) -> None:
        for name in self.names(number):
            act(name)

    def leave(self, number: str, **facts: Any) -> None:
        self.each(number, self.driver.leave)
        self.expect(Cause.MEMBER_LEFT, number, **facts)

    def expect(self, trigger: str, numbers: str, *, members: str | None = None, **facts: Any) -> None:
        """`numbers`, `members`: of each group's members, one letter each: `12`."""
        for letter in self.libraries:
            if members is not None:
                facts["members"] = [f"{letter}{number}" for number in members]
            self.driver.expect(self.group(letter), trigger, [f"{letter}{number}" for number in numbers], **facts)

    def expect_written(self, trigger: str, numbers: str = "", *, members: str | None = None, **facts: Any) -> None:
        for letter in self.libraries:
            if members is not None:
                facts["members"] = [f"{letter}{number}" for number in members]
            by = [f"{letter}{number}" for number in numbers]
            while self.driver.expect_if_written(self.group(letter), trigger, by, **facts):
                pass

    def settle(self) -> None:
        for letter in self.libraries:
            self.driver.settle(self.group(letter), quiet_s=QUIET_S)
