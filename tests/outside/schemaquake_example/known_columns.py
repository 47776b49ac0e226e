"""Known columns: does every node know every column whose addition was acknowledged?

Judges the reads of the final phases. A node that refuses a column as unknown, after the cluster has settled, has lost it.
"""

import re
import time

from schemaquake.api import Anomaly, Argument, Doubt, Records, Verdict, anomaly, make_stats, operations


class KnownColumns:
    """Finds `forgotten-column`."""

    name = "known-columns"
    scope = "keyspace"
    finds = ("forgotten-column",)
    vouches = True

    def check(self, records: Records, *, limit_s: float) -> Verdict:
        """Look up every column that a final read was refused."""
        ends = time.monotonic() + limit_s
        found = operations(records.history)
        if any(each.possible and re.match("drop-|rename-", each.f) for each in found):
            return Verdict.unknown(
                self.name, Doubt("undecided", "columns, or what holds them, may have been taken away")
            )
        added = {
            (each.key, each.argument["column"][0]): each
            for each in found
            if each.f == "add-column" and each.acknowledged
        }
        reads = [each for each in found if each.f == "read-rows" and each.argument["phase"] in {"settled", "restarted"}]
        if not added or not reads:
            return Verdict.unknown(self.name, Doubt("nothing-to-judge", "no column was added and then read"))
        anomalies: list[Anomaly] = []
        for read in reads:
            if time.monotonic() > ends:
                return Verdict.unknown(self.name, Doubt("time", f"the time limit of {limit_s:g} s passed"))
            for column in read.argument["columns"] or ():
                addition = added.get((read.key, column))
                if addition is not None and addition.entirely_before(read) and refuses(read.error, column):
                    anomalies.append(forgotten(addition, read, column))
        stats = make_stats({"columns": len(added), "reads": len(reads)})
        return Verdict(valid=not anomalies, checker=self.name, anomalies=tuple(anomalies), stats=stats)


def refuses(error: str | None, column: str) -> bool:
    """Whether a node said, in the words of any of its versions, that it does not know this column."""
    return re.search(rf"(?i)\b(?:undefined|unknown)\b.*\b{column}\b", error or "") is not None


def forgotten(addition, read, column: str) -> Anomaly:
    """Argue one finding from two operations."""
    return anomaly(
        "forgotten-column",
        objects=[read.key],
        nodes=[read.node],
        ops=[addition.index, read.index],
        evidence={"column": column, "phase": read.argument["phase"]},
        explanation=Argument(
            [addition, read],
            f"T1 was acknowledged, so once the cluster has settled every node must know {column} of {read.key}.",
            f"{read.node} refuses it in T2.",
        ),
    )
