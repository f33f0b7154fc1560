"""One insight as it is shown, and its rows in the store's table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from trajstore.memory.bank_upkeep import reason_of
from trajstore.memory.insights_operations import Rule
from trajstore.schema import Insight, digest, json_text
from trajstore.schema import insight_id as id_of


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredInsight:
    """The newest version of an insight, with what became of the runs that were given it."""

    insight_id: str
    """Stays the same when the text is edited."""
    version: int
    """1 for the first text."""
    kind: str
    level: str
    text: str
    title: str | None = None
    description: str | None = None
    observation: str | None = None
    task_id: str | None = None
    votes: int = 0
    helpful: int = 0
    """Uses that helped: counted before, and successes of the runs in ``uses``, also of what was
    merged into it."""
    harmful: int = 0
    """Uses that did not, counted alike."""
    trajectory_ids: tuple[str, ...] = ()
    merged_from: tuple[str, ...] = ()
    environment: str | None = None
    environment_version: str | None = None
    source: str = ""
    created_at: datetime | None = None
    state: str | None = None
    """None where it is served."""
    because: str | None = None
    """Why it is not."""
    uses: int = 0
    """Runs that were given it or what was merged into it."""

    @property
    def item_id(self) -> str:
        """The version, as a use is recorded."""
        return f"{self.insight_id}@{self.version}"

    @property
    def score(self) -> float:
        """Its votes, as a use is recorded."""
        return float(self.votes)

    @property
    def words(self) -> str:
        """Title, description and text, one a line."""
        return "\n".join(p for p in (self.title, self.description, self.text) if p)


NEVER = datetime(1970, 1, 1, tzinfo=UTC)
"""Stands in for a time that is not known."""
_KNOWN = frozenset(f.name for f in fields(StoredInsight))


def stored_insight(
    row: dict[str, Any], used: Callable[[str], tuple[int, int, int] | None]
) -> StoredInsight:
    """A row of the view; ``used`` gives uses, successes and failures of an insight."""
    merged = tuple(row["merged_from"] or ())
    counts = [used(i) or (0, 0, 0) for i in merged]
    uses, won, lost = (sum(c[n] for c in counts) for n in range(3))
    values = {k: v for k, v in row.items() if k in _KNOWN} | {
        "trajectory_ids": tuple(row["trajectory_ids"] or ()),
        "merged_from": merged,
        "uses": row["uses"] + uses,
        "helpful": row["helpful"] + row["successes"] + won,
        "harmful": row["harmful"] + row["failures"] + lost,
    }
    return StoredInsight(**values, because=reason_of(row["metadata"]))


def insights_of(rows: pa.Table) -> list[Insight]:
    """Insights from rows of the table, in the same order."""
    known = {f.name for f in fields(Insight)}
    return [
        Insight(
            **{k: v for k, v in row.items() if k in known}
            | {n: tuple(row[n] or ()) for n in ("trajectory_ids", "merged_from")}
        )
        for row in rows.to_pylist()
    ]


def number_of(insight: Insight) -> int:
    """The number of a version."""
    return insight.version


def newest_versions(rows: pa.Table) -> dict[str, Insight]:
    """Id -> its newest version."""
    return {id_of(i): i for i in sorted(insights_of(rows), key=number_of)}


def next_version(current: Insight, **changes: Any) -> Insight:
    """The next version."""
    return replace(current, version=current.version + 1, created_at=datetime.now(UTC), **changes)


def voted(current: Insight, rule: Rule, runs: tuple[str, ...]) -> Insight:
    """The row with its votes, or the next version where the text was edited."""
    lineage = union([current.trajectory_ids, runs])
    if rule.edited:
        return next_version(current, text=rule.text, votes=rule.votes, trajectory_ids=lineage)
    return replace(current, votes=rule.votes, trajectory_ids=lineage)


def added_beside(newest: Mapping[str, Insight], new: Insight) -> Insight:
    """A new insight, as it is written beside those that are there.

    What was removed and is said again is its next version. Where the id is that of an insight in
    service, whose text was edited since, the new one gets another id.
    """
    name = id_of(new)
    before = newest.get(name)
    while before is not None and before.state is None:
        name = digest(name, before.version)[:16]
        before = newest.get(name)
    if before is None:
        return replace(new, insight_id=name)
    lineage = union([before.trajectory_ids, new.trajectory_ids])
    changes: dict[str, Any] = {"state": None, "metadata": None, "trajectory_ids": lineage}
    return next_version(before, text=new.text, votes=new.votes, **changes)


def union(parts: Iterable[Iterable[str]]) -> tuple[str, ...]:
    """Each value once, in the order in which they first come."""
    return tuple(dict.fromkeys(value for part in parts for value in part))


def reason(because: str) -> str:
    """Metadata that says why a row is out of service."""
    return json_text({"because": because})
