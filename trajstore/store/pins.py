"""Names for snapshots that stay readable, and the ranking of evaluators."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa

from trajstore.errors import SnapshotError
from trajstore.store.layout import SIDE_SCHEMAS
from trajstore.store.side import SideTable


@dataclass(frozen=True, slots=True)
class Pin:
    """A snapshot with a name."""

    name: str
    """The name."""
    snapshot: int
    """The snapshot's number."""
    broken_by: str | None
    """Why it can no longer be read, or None."""
    created_at: datetime
    """When it was pinned (or broken)."""


class Pins:
    """The pins of one store."""

    def __init__(self, table: SideTable, *, durable: bool) -> None:
        """Pins kept in a side table."""
        self._table = table
        self._durable = durable

    def all(self) -> list[Pin]:
        """Every pin, ordered by name."""
        rows = self._table.read().select(["name", "snapshot", "broken_by", "created_at"])
        return [Pin(**r) for r in rows.to_pylist() if r["snapshot"] is not None]

    def number(self, name: str) -> int:
        """The snapshot that a pin names.

        Raises:
            SnapshotError: there is no such pin, or it is broken.
        """
        pins = {p.name: p for p in self.all()}
        if name not in pins:
            message = f"There is no pin '{name}'. Pins: {', '.join(sorted(pins)) or 'none'}"
            raise SnapshotError(message)
        broken = pins[name].broken_by
        if broken is not None:
            raise SnapshotError(f"The pin '{name}' is broken: {broken}")
        return pins[name].snapshot

    def write(self, name: str, snapshot: int | None, *, broken_by: str | None = None) -> None:
        """Set a pin; None for ``snapshot`` lets it go."""
        row = {
            "name": [name],
            "snapshot": [snapshot],
            "broken_by": [broken_by],
            "created_at": [datetime.now(UTC)],
        }
        rows = pa.Table.from_pydict(row, schema=SIDE_SCHEMAS["pins"])
        self._table.append(rows, durable=self._durable)


_RANKING = "evaluator_ranking"


def read_ranking(settings: SideTable) -> list[str]:
    """Names of evaluators, the best first."""
    for row in settings.read().to_pylist():
        if row["key"] == _RANKING:
            ranking: list[str] = json.loads(row["value"])
            return ranking
    return []


def write_ranking(settings: SideTable, names: Sequence[str], *, durable: bool) -> None:
    """Set the ranking of evaluators."""
    row = {"key": [_RANKING], "value": [json.dumps(list(names))]}
    settings.append(pa.Table.from_pydict(row, schema=SIDE_SCHEMAS["settings"]), durable=durable)
