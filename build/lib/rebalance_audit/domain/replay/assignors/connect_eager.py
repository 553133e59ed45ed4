"""Connect's eager assignor, which remembers nothing. Source: EagerAssignor of Kafka 4.3.0."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .java_order import text_key

Task = tuple[str, int]


def assign_connect_eagerly(
    connectors: Mapping[str, int], worker_ids: Iterable[str]
) -> dict[str, tuple[list[str], list[Task]]]:
    """(connectors, tasks) by worker; `connectors` says how many tasks each has. One each in turn, connectors first."""
    workers = sorted(worker_ids, key=text_key)
    found: dict[str, tuple[list[str], list[Task]]] = {worker: ([], []) for worker in workers}
    names = sorted(connectors, key=text_key)
    for turn, name in enumerate(names):
        found[workers[turn % len(workers)]][0].append(name)
    tasks = [(name, number) for name in names for number in range(connectors[name])]
    for turn, task in enumerate(tasks, len(names)):
        found[workers[turn % len(workers)]][1].append(task)
    return found
