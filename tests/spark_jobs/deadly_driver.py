"""A driver whose tasks kill their worker: what spark-submit runs in the tests of the cluster.

    deadly_driver.py WAREHOUSE KILLS_FOLDER

In each stage that gives Spark work, the first task that has written its files, and has not yet said so, kills its
executor and the worker that started it. So that this happens once, the task puts a marker into the store first.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

import pyarrow as pa

from spark_jobs import pipeline
from spark_jobs.engine import ArrowTask
from spark_jobs.session import end_session
from spark_jobs.spark_engine import SparkEngine


def deadly(task: ArrowTask, folder: str, name: str) -> ArrowTask:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os
        import signal
        import time
        import uuid
        from pathlib import Path

        from rebalance_audit.warehouse.storage import files_at

        for batch in task(batches):
            # Of its own content: the same twice would pass for one put whose answer was lost.
            if files_at(folder).write_if(f"kills/{name}", uuid.uuid4().bytes, None) is not None:
                executor = int(Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[1])
                worker = int(Path(f"/proc/{executor}/stat").read_text().rpartition(")")[2].split()[1])
                os.kill(worker, signal.SIGKILL)
                os.kill(executor, signal.SIGKILL)
                time.sleep(60)  # until Python notices that its executor is gone
            yield batch

    return run


class DeadlyEngine(SparkEngine):
    """By the stage that asks."""

    folder = ""
    stage = ""

    def spread(
        self, work: pa.Table, task: ArrowTask, out: pa.Schema, *, sizes: Sequence[int] | None = None
    ) -> pa.Table:
        return super().spread(work, deadly(task, self.folder, self.stage), out, sizes=sizes)

    def gather(self, work: pa.Table, pack: ArrowTask, fold: ArrowTask, out: pa.Schema, *, buckets: int) -> pa.Table:
        return super().gather(work, pack, deadly(fold, self.folder, self.stage), out, buckets=buckets)


def main(warehouse: str, folder: str) -> None:
    import spark_jobs.metadata_log
    import spark_jobs.spark_engine

    if folder:
        spark_jobs.metadata_log._ROWS_AT_ONCE = 1  # so that reassign, too, has tasks for a few clusters
        spark_jobs.spark_engine.SparkEngine = DeadlyEngine  # type: ignore[misc]
        DeadlyEngine.folder = folder

    def progress(stage: str, what: str) -> None:
        DeadlyEngine.stage = stage
        print(f"{stage} {what}", flush=True)

    pipeline.run(warehouse, progress=progress, engine="spark", with_quality=False)
    end_session()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "")
