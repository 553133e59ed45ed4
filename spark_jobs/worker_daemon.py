"""The process from which Spark forks its Python workers: with the domain imported once, a worker starts at once."""

import gc

import pandas  # noqa: F401 - pyarrow imports it for its first array: a second per worker
from pyspark.daemon import manager

import spark_jobs.alike
import spark_jobs.stages.decode
import spark_jobs.stages.detect
import spark_jobs.stages.publish
import spark_jobs.stages.reassign
import spark_jobs.stages.reconstruct  # noqa: F401 - imported for the workers
from rebalance_audit.cycles import SELDOM
from rebalance_audit.warehouse.file_sizes import expect_much
from rebalance_audit.warehouse.kept_columns import keep_nothing
from rebalance_audit.warehouse.queries import use_one_thread

if __name__ == "__main__":
    keep_nothing()
    use_one_thread()
    expect_much()
    gc.freeze()
    gc.set_threshold(*SELDOM)
    manager()
