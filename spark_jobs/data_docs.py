"""The checks of every table and their verdicts, as pages that Great Expectations makes (its data docs)."""

from __future__ import annotations

from pathlib import Path

from rebalance_audit.domain import tables
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs.compiled_checks import projection
from spark_jobs.quality import suite_of  # first: it keeps Great Expectations from calling home
from spark_jobs.stages.stage import row_count

MOST_ROWS = 2_000_000
"""Chosen: the checked columns of so many rows are about 1 GB in pandas. Larger tables are checked by `--suite`."""


def write_data_docs(warehouse: Warehouse, folder: Path) -> tuple[Path, list[str]]:
    """The page to open, and the tables that are too large for it. Writes nothing into the warehouse."""
    import great_expectations as gx

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    for name in list(context.get_site_names()):
        context.delete_data_docs_site(name)
    context.add_data_docs_site(
        "checks",
        {
            "class_name": "SiteBuilder",
            "show_how_to_buttons": False,
            "site_index_builder": {"class_name": "DefaultSiteIndexBuilder"},
            "store_backend": {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(folder.resolve())},
        },
    )
    source = context.data_sources.add_pandas("tables")
    left_out = []
    for table in tables.TABLES:
        files = warehouse.files(table.name)
        count = row_count(files)
        if count > MOST_ROWS:
            left_out.append(table.name)
        elif count:
            batch = source.add_dataframe_asset(table.name).add_batch_definition_whole_dataframe("all rows")
            suite = context.suites.add(suite_of(table.name))
            validation = gx.ValidationDefinition(name=table.name, data=batch, suite=suite)
            rows = projection(table.name, files).to_pandas()
            context.validation_definitions.add(validation).run(
                batch_parameters={"dataframe": rows}, result_format="SUMMARY"
            )
    context.build_data_docs(site_names=["checks"])
    return folder / "index.html", left_out
