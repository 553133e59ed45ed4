"""What Spark starts to fork its Python workers from: with the domain imported once, a worker starts at once."""

from pyspark.daemon import manager

import spark_jobs.stage_decode
import spark_jobs.stage_detect
import spark_jobs.stage_measure
import spark_jobs.stage_publish
import spark_jobs.stage_reconstruct  # noqa: F401 - imported for the workers

if __name__ == "__main__":
    manager()
