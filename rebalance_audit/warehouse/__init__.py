"""Where tables live: Delta tables and small files on a folder or an object store, and the lease of their one writer.

`domain/tables` says what each table holds, and `spark_jobs/plan.py` which stage writes it.
"""
