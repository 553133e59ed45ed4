"""docs/SCHEMA.md from domain/tables: `python -m tests.schema_page > docs/SCHEMA.md`."""

from __future__ import annotations

import sys

from rebalance_audit.domain import tables

HEAD = """\
# Tables

Made from `rebalance_audit/domain/tables` by `python -m tests.schema_page > docs/SCHEMA.md`; a test compares the two.
Schema version {version}. Within it tables are only extended, by tables and columns, so that whoever reads one by its
names goes on reading it; a change of grain or meaning is a new version, which older releases refuse with a sentence
([decision 0022](decisions/0022-old-warehouses-are-extended.md)).

Instants end in `_at_ms` (epoch milliseconds, UTC), durations in `_ms`. Null is "not known", never none and never 0.
`bronze` is evidence as it came, `silver` what the stages make of it, `gold` what people read. Every table is a Delta
table at `<warehouse>/<layer>/<noun>`; `published.json` names the versions of gold that belong together.
"""


def page() -> str:
    parts = [HEAD.format(version=tables.SCHEMA_VERSION), "\n| table | a row is |\n| --- | --- |\n"]
    for table in tables.BY_NAME.values():
        anchor = table.name.replace(".", "")
        parts.append(f"| [{table.name}](#{anchor}) | {table.doc.split('. ')[0].rstrip('.').replace('|', '/')} |\n")
    for table in tables.BY_NAME.values():
        parts.append(f"\n## {table.name}\n\n{table.doc} Key: {', '.join(f'`{name}`' for name in table.key)}.\n\n")
        parts.append("| column | type | meaning |\n| --- | --- | --- |\n")
        for column in table.columns:
            meaning = column.doc + (" Always there." if column.required else "")
            if column.values:
                meaning += " One of " + ", ".join(f"`{value}`" for value in column.values) + "."
            cells = (f"`{column.name}`", f"`{column.type}`", meaning.strip().replace("|", "\\|"))
            parts.append(f"| {' | '.join(cells)} |\n")
    return "".join(parts)


if __name__ == "__main__":
    sys.stdout.write(page())
