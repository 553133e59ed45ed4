"""The stages, one module each, in the order of `spark_jobs/pipeline.py`; `stage` is what each is given."""
