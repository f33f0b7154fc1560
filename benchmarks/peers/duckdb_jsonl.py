"""DuckDB straight over the JSONL file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import duckdb

from benchmarks.peers.peer import Peer
from benchmarks.workload import NEEDLE, SHORTEST, Whole, whole_of_record

_CALL = "STRUCT(call_id VARCHAR, name VARCHAR, arguments JSON)"
_RESULT = "STRUCT(call_id VARCHAR, text VARCHAR, is_error BOOLEAN)"
_COLUMNS = {
    "trajectory_id": "VARCHAR",
    "task_id": "VARCHAR",
    "source": "VARCHAR",
    "goal": "VARCHAR",
    "agent": "VARCHAR",
    "model": "VARCHAR",
    "success": "BOOLEAN",
    "reward": "DOUBLE",
    "n_tool_calls": "INTEGER",
    "steps": f"STRUCT(actor VARCHAR, text VARCHAR, reasoning VARCHAR, tool_calls {_CALL}[], "
    f"observations {_RESULT}[])[]",
}
_STEPS = "(SELECT unnest(steps) AS step FROM runs)"
_SQL = {
    "rates": """
        SELECT agent, model, count(success), avg(success::INTEGER) FROM runs
        GROUP BY ALL HAVING count(success) > 0""",
    "histogram": f"""
        SELECT call.name, count(*) FROM (SELECT unnest(step.tool_calls) AS call FROM {_STEPS})
        GROUP BY ALL""",
    "errors": f"""
        SELECT step.tool_calls[1].name, count(*), avg(step.observations[1].is_error::INTEGER)
        FROM {_STEPS} WHERE step.observations[1].is_error IS NOT NULL GROUP BY ALL""",
    "search": f"""
        SELECT count(*) FROM (SELECT unnest(step.observations) AS result FROM {_STEPS})
        WHERE result.text LIKE '%{NEEDLE.replace("'", "''")}%'""",
    "shortest": f"""
        SELECT task_id, trajectory_id, n_tool_calls FROM runs WHERE success
        QUALIFY row_number() OVER (
            PARTITION BY task_id ORDER BY n_tool_calls, trajectory_id) <= {SHORTEST}""",
}


class DuckdbJsonl(Peer):
    """``read_json`` with the column types given, so that no time goes into guessing them."""

    name: ClassVar[str] = "duckdb-jsonl"
    about: ClassVar[str] = "reads the file of jsonl-orjson"
    packages: ClassVar[dict[str, str]] = {"orjson": "orjson"}
    shares: ClassVar[str | None] = "jsonl-orjson"

    def __init__(self, folder: Path) -> None:
        """Nothing is read yet."""
        super().__init__(folder)
        self.open()

    def open(self) -> None:
        """A connection with one view."""
        path = str(self.folder / "runs.jsonl").replace("'", "''")
        types = ", ".join(f"{name}: '{type_}'" for name, type_ in _COLUMNS.items())
        self._connection = duckdb.connect()
        self._view = (
            f"CREATE OR REPLACE VIEW runs AS SELECT * FROM read_json('{path}', "
            f"format='newline_delimited', maximum_object_size=1000000000, columns={{{types}}})"
        )
        if (self.folder / "runs.jsonl").exists():
            self._connection.execute(self._view)

    def answer(self, question: str) -> Sequence[Sequence[Any]]:
        """In SQL."""
        return self._connection.sql(_SQL[question]).fetchall()

    def fetch(self, ids: Sequence[str]) -> list[dict[str, Any]]:
        """One dict a row."""
        listed = ", ".join(f"'{i}'" for i in ids)
        found = self._connection.sql(f"SELECT * FROM runs WHERE trajectory_id IN ({listed})")
        names = found.columns
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]

    def fetched(self, found: Any) -> list[Whole]:
        """Comparable."""
        return [whole_of_record(_without_nulls(record)) for record in found]


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_nulls(v) for k, v in value.items() if v is not None}
    return [_without_nulls(v) for v in value] if isinstance(value, list) else value
