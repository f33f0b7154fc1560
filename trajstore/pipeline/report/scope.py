"""The runs that a report is about, and how to ask for numbers of them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa

from trajstore.errors import SelectionError
from trajstore.filters import Selection
from trajstore.pipeline.selecting import StoreSteps
from trajstore.store import Reader, Store

OUTCOMES = ("success", "failure", "unknown")
"""What the column ``outcome`` holds, in the order in which charts show it."""

_COLUMNS = """trajectory_id, task_id, source, environment, agent, model, policy_version, success,
    CASE WHEN success THEN 'success' WHEN NOT success THEN 'failure' ELSE 'unknown' END AS outcome,
    CASE WHEN isfinite(reward) THEN reward END AS reward, n_steps, n_agent_steps, n_tool_calls,
    n_tool_errors, prompt_tokens, completion_tokens,
    prompt_tokens::DOUBLE + completion_tokens::DOUBLE AS tokens,
    TRY_CAST(cost_usd AS DECIMAL(28, 9)) AS cost_usd,
    CASE WHEN isfinite(duration_s) THEN duration_s END AS duration_s,
    started_at AT TIME ZONE 'UTC' AS started_at"""


class Scope:
    """Some runs of one snapshot.

    The narrow columns of the runs lie once in DuckDB as the table ``runs`` (outcome in words, about
    150 bytes a run, spilled to disk beyond the store's memory limit); every question is one query
    over it. Only aggregated rows, a few dozen a question, become Python values.
    """

    def __init__(
        self, reader: Reader, *, where: str | None = None, selection: Selection | None = None
    ) -> None:
        """Take the runs of a snapshot.

        Args:
            reader: the snapshot.
            where: only those that fit this SQL condition over ``trajectories``.
            selection: only those that were selected.

        Raises:
            QueryError: the condition does not parse, or asks for more than the views.
        """
        self.reader, self.where, self.selection = reader, where, selection
        self.steps = StoreSteps(reader)
        self._cursor = reader.cursor()
        query = f"SELECT {_COLUMNS} FROM trajectories"
        if where:
            query = f"{query} WHERE ({where}\n)"
            reader.sql(query)
        if selection is not None:
            self._cursor.register("chosen", selection.rows.select(["trajectory_id"]))
            query = f"SELECT * FROM ({query}) SEMI JOIN chosen USING (trajectory_id)"
        self._cursor.execute(f"CREATE TEMP TABLE runs AS {query}")
        self.total: int = self.row("SELECT count(*) AS n FROM runs")["n"]
        """Runs that the report is about."""
        self.stored: int = self.row("SELECT count(*) AS n FROM trajectories")["n"]
        """All runs of the snapshot."""

    @classmethod
    def of(
        cls,
        source: Store | Reader,
        *,
        at: int | str | None,
        where: str | None,
        selection: Selection | None,
    ) -> Scope:
        """The scope that the options of a report say.

        Raises:
            SelectionError: a snapshot was named beside the selection, which has its own.
            SnapshotError: the snapshot does not exist or cannot be read any more.
            QueryError: the condition does not parse.
        """
        if selection is not None and at is not None:
            message = (
                f"A selection is reported as of its own snapshot ({selection.snapshot}); leave "
                "out `at`, or select again in the other snapshot."
            )
            raise SelectionError(message)
        if selection is not None:
            at = selection.snapshot
        if isinstance(source, Store):
            source = source.reader() if at is None else source.at(at)
        return cls(source, where=where, selection=selection)

    def table(self, query: str) -> pa.Table:
        """The answer to a query over ``runs`` and the store's views."""
        return self._cursor.sql(query).to_arrow_table()

    def rows(self, query: str) -> list[dict[str, Any]]:
        """The answer as JSON-ready values; for aggregated rows."""
        return [{k: _plain(v) for k, v in r.items()} for r in self.table(query).to_pylist()]

    def row(self, query: str) -> dict[str, Any]:
        """The one row of an answer."""
        return self.rows(query)[0]


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return [_plain(v) for v in value] if isinstance(value, list) else value
