"""New column: a column is added through one node and written through all the others at once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from schemaquake.api import Context, Meet, Phase, Step, Worker, options, rows, schema_changes


@dataclass(frozen=True, kw_only=True)
class NewColumnOptions:
    """Options of new-column."""

    columns: int = options.option(3, "the number of columns to add, 1 or more", parse=options.whole_number(least=1))


class NewColumn:
    """Until the news of a column has arrived, nodes are right to refuse it; afterwards every node must know it."""

    name = "new-column"
    requires = frozenset({"keyspaces", "tables", "columns"})
    options = NewColumnOptions()

    def crew(self, context: Context) -> Sequence[Worker]:
        """Pin one worker to every node."""
        return [Worker(index, node) for index, node in enumerate(context.nodes)]

    def steps(self, phase: Phase, worker: Worker, context: Context, *, phase_label: str) -> Iterator[Step]:
        """Add one column after another, each through another node, and read all of them in the end."""
        keyspace = f"{context.keyspace_prefix}_new_column"
        nodes = len(context.nodes)
        columns = range(options.configured(self.options, context.options).columns)
        match phase:
            case "setup" if worker.index == 0:
                key_and_value = [("k", "int", "partition_key"), ("v", "int", "regular")]
                yield schema_changes.create_keyspace(keyspace, replication_factor=context.replication_factor)
                yield schema_changes.create_table(keyspace, "t", columns=key_and_value)
            case "main":
                for number in columns:
                    yield Meet(f"column {number}")
                    if worker.index == number % nodes:
                        yield schema_changes.add_column(keyspace, "t", f"c{number}", "int")
                    else:
                        row = {"k": number * nodes + worker.index, f"c{number}": number}
                        yield rows.insert(keyspace, "t", row, consistency="ONE", phase="racing")
            case "probe":
                key = {"settled": -1, "restarted": -2}[phase_label] * nodes - worker.index
                yield rows.insert(keyspace, "t", {"k": key, "v": 1}, consistency="QUORUM", phase=phase_label)
            case "final":
                for number in columns:
                    named = ["k", f"c{number}"]
                    yield rows.read_rows(keyspace, "t", consistency="ONE", phase=phase_label, columns=named)
            case _:
                pass
