"""Where tables live: Delta tables and small files on a folder or an object store, and the lease of their one writer.

What a table holds is said in `domain/tables.py`; which stage writes it, in `spark_jobs/plan.py`.
"""
