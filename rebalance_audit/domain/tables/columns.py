"""What a table is made of: columns, laws, and the columns that many tables have."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: str
    doc: str
    required: bool = False
    values: tuple[str, ...] = ()
    """The closed set of values, if there is one."""


@dataclass(frozen=True, slots=True)
class Law:
    """A condition each row of a table must meet: SQL that is true for a good row (null counts as good)."""

    name: str
    sql: str
    is_fatal: bool = True
    """A fatal law stops publishing; the others are recorded."""


@dataclass(frozen=True, slots=True)
class Table:
    name: str
    """`layer.noun`, the noun in the singular: what one row is."""
    doc: str
    key: tuple[str, ...]
    """The grain: no two rows agree in all of these."""
    columns: tuple[Column, ...]
    laws: tuple[Law, ...] = field(default=())

    @property
    def layer(self) -> str:
        return self.name.partition(".")[0]

    def ddl(self) -> str:
        """The columns as Spark DDL."""
        return ", ".join(f"`{c.name}` {c.type}" for c in self.columns)


def col(name: str, type_: str, doc: str, *, required: bool = False, values: tuple[str, ...] = ()) -> Column:
    return Column(name, type_, doc, required, values)


CLUSTER = col("cluster_id", "string", "Kafka's cluster id, or the name given at import.", required=True)
EVIDENCE = col("evidence", "array<string>", "Evidence refs, the strongest first.", required=True)
GROUP = col("group_id", "string", "The group, as the client spelt it.", required=True)
REBALANCE_KEYS = (
    CLUSTER,
    col("rebalance_id", "string", "From cluster, group, number and sequence; never from times.", required=True),
    GROUP,
    col("generation_id", "int", "Classic groups: the generation this attempt led to."),
    col("group_epoch", "int", "KIP-848, share and streams groups: the epoch this attempt led to."),
)

PARTITION_KEYS = (col("topic", "string", "", required=True), col("partition", "int", "", required=True))
