"""Stages that take a condition: ``where`` over the store, ``keep`` over the rows at hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.errors import SelectionError
from trajstore.filters.expression import Expression
from trajstore.filters.relations import relation
from trajstore.filters.selection import Frame, NamedStage, StageResult


@dataclass(frozen=True, slots=True)
class Where(NamedStage):
    """Keep runs for which an SQL condition over the view ``trajectories`` is true.

    The condition can name every column of the view, also those with long text (``goal``,
    ``metadata``), and ask the other views in a subquery. An :class:`Expression` is taken too.
    """

    name: ClassVar[str] = "where"

    condition: str | Expression
    """The condition, without WHERE; kept as SQL."""

    def __post_init__(self) -> None:
        """Turn an expression into SQL."""
        object.__setattr__(self, "condition", _sql(self.condition, self.name))

    def apply(self, frame: Frame) -> StageResult:
        """Drop ``condition-false`` and ``condition-unknown``.

        Raises:
            QueryError: the condition does not parse or is not allowed.
        """
        query = f"SELECT trajectory_id, CAST(({self.condition}\n) AS BOOLEAN) AS fits"
        found = frame.steps.sql(f"{query} FROM trajectories")
        return _split(frame.rows, found)


@dataclass(frozen=True, slots=True)
class Keep(NamedStage):
    """Keep rows for which an SQL condition over the rows at hand is true.

    It can name the summary columns and whatever earlier stages added, such as ``score``, ``rank``
    or ``cluster``; it sees nothing else of the store.
    """

    name: ClassVar[str] = "keep"

    condition: str | Expression
    """The condition, without WHERE; kept as SQL."""

    def __post_init__(self) -> None:
        """Turn an expression into SQL."""
        object.__setattr__(self, "condition", _sql(self.condition, self.name))

    def apply(self, frame: Frame) -> StageResult:
        """Drop ``condition-false`` and ``condition-unknown``.

        Raises:
            QueryError: the condition does not parse or names an unknown column.
        """
        query = f"SELECT trajectory_id, CAST(({self.condition}\n) AS BOOLEAN) AS fits"
        tables = {"rows_at_hand": frame.rows}
        return _split(frame.rows, relation(f"{query} FROM rows_at_hand", tables=tables))


def _sql(condition: str | Expression, stage: str) -> str:
    sql = condition.to_sql() if isinstance(condition, Expression) else condition
    if not sql.strip():
        message = f"The stage '{stage}' needs a condition, such as \"reward > 0.5\"."
        raise SelectionError(message)
    return sql


def _split(rows: pa.Table, found: pa.Table) -> StageResult:
    place = pc.index_in(rows.column("trajectory_id"), value_set=found.column("trajectory_id"))
    fits = found.column("fits").take(place)
    fails = pc.if_else(fits, pa.scalar(None, pa.string()), "condition-false")
    return StageResult.split(rows, pc.if_else(pc.is_null(fits), "condition-unknown", fails))


STAGES = {s.name: s for s in (Where, Keep)}
"""Stages of this module by name."""
