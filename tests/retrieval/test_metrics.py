"""Retrieval metrics, worked by hand."""

from __future__ import annotations

import pytest

from trajstore.retrieval import mrr, ndcg, recall_at_k

RANKED = ["x", "a", "y", "b", "c"]
RELEVANT = {"a", "b", "c", "d"}


def test_recall_counts_what_was_found_of_what_fits_into_k_places() -> None:
    assert recall_at_k(RANKED, RELEVANT, 2) == 0.5
    assert recall_at_k(RANKED, RELEVANT, 5) == 0.75
    assert recall_at_k(RANKED, {"a"}, 5) == 1.0


def test_mrr_is_one_by_the_first_rank() -> None:
    assert mrr(RANKED, RELEVANT) == 0.5
    assert mrr(RANKED, {"c"}, 4) == 0.0
    assert mrr([], {"c"}) == 0.0


def test_ndcg_discounts_by_the_logarithm_of_the_rank() -> None:
    """(1/log2 3 + 1/log2 5) / (1 + 1/log2 3 + 1/2 + 1/log2 5) = .414430 over four places."""
    assert round(ndcg(RANKED, RELEVANT, 4), 6) == 0.41443
    assert ndcg(["a", "b"], {"a", "b"}, 2) == 1.0


@pytest.mark.parametrize("metric", [recall_at_k, ndcg])
def test_there_is_no_measure_where_nothing_is_relevant(metric: object) -> None:
    with pytest.raises(ValueError, match="0 items"):
        metric(RANKED, set(), 5)  # type: ignore[operator]
