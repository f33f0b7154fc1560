"""The benchmark of ranking: two sides that keep the same runs."""

from __future__ import annotations

import pytest

from benchmarks import ranking
from benchmarks.measure import DisagreementError
from benchmarks.ranking import by_pandas, by_trajstore, main, measure, summary_rows
from trajstore.filters import SUMMARY_SCHEMA


def test_rows_are_summary_rows_with_eight_attempts_a_task() -> None:
    rows = summary_rows(800)
    assert rows.schema == SUMMARY_SCHEMA
    assert len(set(rows.column("task_id").to_pylist())) == 100
    assert rows.column("success").null_count > 0


def test_pandas_keeps_what_trajstore_keeps() -> None:
    pytest.importorskip("pandas")
    rows = summary_rows(4000, seed=1)
    assert by_pandas(rows) == by_trajstore(rows)
    assert len(by_trajstore(rows)) > 100


def test_the_note_says_how_many_runs_are_kept() -> None:
    rows = measure(400, repeats=2, pandas=False)
    assert [(r.store, len(r.runs)) for r in rows] == [("trajstore", 2)]
    assert f"{len(by_trajstore(summary_rows(400)))} of 400 runs kept" in rows[0].note


def test_a_side_that_keeps_other_runs_stops_the_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranking, "by_pandas", lambda _: ["nobody"])
    with pytest.raises(DisagreementError, match="pandas keeps other runs"):
        measure(100, repeats=1, pandas=True)


def test_the_command_says_whether_the_target_is_met(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--rows", "2000", "--repeats", "1"]) == 0
    assert "target below 3 s for a million rows" in capsys.readouterr().out
