"""Resident memory of a collector, and of two that share a topic, while they follow 100,000 records/s and while they
catch up as quickly as they can.

    python -m bench.collector_memory [--records 2000000] [--python ENVIRONMENT/bin/python]

Each collector is a process of its own, as `rebalance-audit collect` is one: what it has at most is the kernel's VmHWM.
`--python` is that of a small installation (the extra `collector` alone): where pandas is there, too, Arrow imports it
with the first list that it is given, tens of MB for nothing.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from confluent_kafka import Producer

from bench.collect import PARTITIONS, TOPIC, fill, offset_commit
from infra.lab.cluster import Cluster

RECORDS_PER_S = 100_000
FOLLOWED_S = 30
COLLECT = """
import sys, time
from rebalance_audit.commands.allocating import use_the_systems_malloc
use_the_systems_malloc()
from ingest.collect_settings import CollectSettings
from ingest.collector import collect
from ingest.landing import Landing
address, topic, warehouse, name, mode = sys.argv[1:]
until = time.monotonic() + float(mode) if mode != "end" else None
settings = CollectSettings(client_config={"bootstrap.servers": address}, offsets_topic=topic, connect_topics={},
                           share_as=name or None, until_end=mode == "end")
began = time.monotonic(), time.process_time()
count = collect(settings, Landing(warehouse), stop=lambda: until is not None and time.monotonic() > until).record_count
wall, cpu = time.monotonic() - began[0], time.process_time() - began[1]
print(count, wall, cpu, open("/proc/self/status").read().partition("VmHWM:")[2].split()[0])
"""


def started(python: str, address: str, warehouse: Path, name: str, mode: str) -> subprocess.Popen[str]:
    command = [python, "-c", COLLECT, address, TOPIC, str(warehouse), name, mode]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def report(what: str, process: subprocess.Popen[str]) -> None:
    said, _ = process.communicate()
    count, wall, cpu, kib = re.split(r"\s+", said.strip())
    rate, per_cpu = int(count) / float(wall), int(count) / float(cpu)
    print(f"| {what} | {int(count):,} | {rate:,.0f} | {per_cpu:,.0f} | {int(kib) / 1024:,.0f} |", flush=True)


def produced(address: str, stop: threading.Event) -> None:
    """RECORDS_PER_S, in steps of a tenth of a second."""
    producer = Producer({
        "bootstrap.servers": address, "batch.num.messages": 64, "linger.ms": 5, "acks": 1,
        "queue.buffering.max.messages": 500_000,
    })  # fmt: skip
    at = time.monotonic()
    made = 0
    while not stop.is_set():
        for n in range(made, made + RECORDS_PER_S // 10):
            key, value = offset_commit(n)
            while True:
                try:
                    producer.produce(TOPIC, key=key, value=value, partition=n // 64 % PARTITIONS)
                    break
                except BufferError:  # the broker is slower than that
                    producer.poll(0.1)
            if n % 1_000 == 0:
                producer.poll(0)
        made += RECORDS_PER_S // 10
        at += 0.1
        time.sleep(max(0.0, at - time.monotonic()))
    producer.flush(30)


def main(records: int, python: str) -> None:
    work = Path(tempfile.mkdtemp(prefix="bench-memory-"))
    try:
        with Cluster(folder=work / "lab") as cluster:
            address = cluster.bootstrap
            fill(address, records)
            print("| collector | records | records/s of wall time | records/s of CPU time | MB at most |")
            print("| --- | ---: | ---: | ---: | ---: |")
            report("catches up", started(python, address, work / "w1", "", "end"))
            for what, process in [
                (f"catches up, {name} of two that share", started(python, address, work / "w2", name, "end"))
                for name in ("one", "other")
            ]:
                report(what, process)
            stop = threading.Event()
            load = threading.Thread(target=produced, args=(address, stop), daemon=True)
            load.start()
            report(f"follows what comes, {FOLLOWED_S} s", started(python, address, work / "w1", "", str(FOLLOWED_S)))
            stop.set()
            load.join()
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--python", default=sys.executable)
    given = parser.parse_args()
    main(given.records, given.python)
