"""The stages, one module each, in the order of `spark_jobs/plan.py`; `stage` is what each is given."""
