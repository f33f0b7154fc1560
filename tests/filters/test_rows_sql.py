from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from trajstore.errors import QueryError
from trajstore.filters.rows_sql import over_rows

ROWS = pa.table({"a": [1, 2, 3]})


def test_rows_are_asked_by_name() -> None:
    assert over_rows("SELECT sum(a) AS s FROM rows_at_hand", ROWS).column("s").to_pylist() == [6]


def test_nothing_is_read_that_python_holds() -> None:
    secret = pa.table({"x": [1]})
    with pytest.raises(QueryError, match="secret"):
        over_rows("SELECT * FROM secret", ROWS)
    assert secret.num_rows == 1


def test_no_file_is_read_or_written(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a\n1\n")
    for query in (
        f"SELECT * FROM '{tmp_path}/x.csv'",
        f"SELECT * FROM read_text('{tmp_path}/x.csv')",
        f"COPY rows_at_hand TO '{tmp_path}/y.csv'",
        f"ATTACH '{tmp_path}/z.db'",
    ):
        with pytest.raises(QueryError):
            over_rows(query, ROWS)
    assert [p.name for p in tmp_path.iterdir()] == ["x.csv"]


@pytest.mark.parametrize("query", ["SELECT 1; SELECT 2", "SET threads=1", "", "SELEC 1"])
def test_one_select_is_expected(query: str) -> None:
    with pytest.raises(QueryError):
        over_rows(query, ROWS)


def test_times_are_in_utc() -> None:
    query = "SELECT CAST(TIMESTAMPTZ '2026-01-01 00:00:00+02' AS VARCHAR) AS t FROM rows_at_hand"
    assert over_rows(query, ROWS).column("t")[0].as_py().startswith("2025-12-31 22:00:00")
