"""The offline evaluation, worked by hand."""

from __future__ import annotations

import pytest

from tests.retrieval.conftest import Fill, run
from trajstore.errors import RetrievalError
from trajstore.retrieval import evaluate


def test_recall_and_ranks_are_those_of_the_hits(fill: Fill) -> None:
    """The only other success of domain shop shares a word with a1's goal, and so comes first."""
    store = fill(
        run("a1", "buy a blue lamp", environment="shop", task_id="a"),
        run("b1", "buy some red shoes", environment="shop", task_id="b"),
        run("c1", "lamp of the lighthouse", environment="sea", task_id="c"),
    )
    found = evaluate(store, k=1, modes=["text"])
    assert (found.queries, found.without_answer, found.chance) == (2, 1, 0.5)
    quality = found.modes["text"]
    assert quality.recall == quality.mrr == quality.ndcg == pytest.approx(1.0)


def test_failures_are_never_right(fill: Fill) -> None:
    store = fill(
        run("a1", "buy a lamp", environment="shop", task_id="a"),
        run("b1", "buy a lamp shade now", environment="shop", task_id="b", success=False),
    )
    found = evaluate(store, k=5)
    assert found.queries == 1
    assert found.modes["vector"].recall == 1.0


def test_a_source_is_the_domain_where_there_is_no_environment(fill: Fill) -> None:
    store = fill(
        run("a1", "one thing", task_id="a"),
        run("b1", "another matter", task_id="b"),
        run("c1", "a third one", task_id="c", source="elsewhere"),
        run("d1", "a fourth", task_id="d", environment="test"),
    )
    assert set(evaluate(store).domains) == {"source:test"}


def test_nothing_to_measure_is_said(fill: Fill) -> None:
    with pytest.raises(RetrievalError, match="None of the 1 tasks"):
        evaluate(fill(run("a", "x")))


def test_no_index_is_said(fill: Fill) -> None:
    with pytest.raises(RetrievalError, match="has no trajectory index"):
        evaluate(fill(run("a", "x"), embedder=None))


@pytest.mark.slow
def test_real_runs_are_found_better_than_by_chance(fill: Fill, real_data: object) -> None:
    store = fill(embedder=None)
    store.import_files(f"{real_data}/tau_bench")
    store.import_files(f"{real_data}/inspect_ai")
    store.index(embedder="hashing", levels=["trajectory"])
    found = evaluate(store)
    assert found.queries > 50
    for quality in found.modes.values():
        assert quality.recall > 2 * found.chance
