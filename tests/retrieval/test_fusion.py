"""Reciprocal rank fusion and order, against worked numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajstore.retrieval.fusion import best_first, dense_ranks, rrf, top

VECTOR = np.array([1, 2, 3, 0])
TEXT = np.array([3, 0, 1, 2])


def test_rrf_gives_the_worked_numbers() -> None:
    """Vector list d1 d2 d3, text list d3 d4 d1; 1/61 + 1/63 = .032266, 1/62 = .016129."""
    scores = rrf([VECTOR, TEXT])
    assert scores.round(6).tolist() == [0.032266, 0.016129, 0.032266, 0.016129]


def test_ties_go_by_vector_rank_then_by_id() -> None:
    last = np.where(VECTOR > 0, VECTOR, 99)
    assert best_first(rrf([VECTOR, TEXT]), last).tolist() == [0, 2, 1, 3]


def test_a_weight_of_zero_silences_a_list() -> None:
    assert rrf([VECTOR, TEXT], weights=[1, 0]).tolist() == rrf([VECTOR]).tolist()


def test_fusion_looks_at_ranks_alone() -> None:
    scores = np.array([0.9, 0.5, 0.4, 0.1])
    assert dense_ranks(scores).tolist() == dense_ranks(scores * 1000).tolist() == [1, 2, 3, 4]


def test_equal_scores_share_a_rank() -> None:
    assert dense_ranks(np.array([0.5, 0.9, 0.5, 0.1])).tolist() == [2, 1, 2, 3]


@given(
    st.lists(st.integers(0, 6).map(float), max_size=30).map(np.array),
    st.integers(0, 35),
)
def test_top_is_a_stable_sort_cut_short(values: np.ndarray, count: int) -> None:
    whole = sorted(range(len(values)), key=lambda i: (-values[i], i))
    assert top(values, count).tolist() == whole[:count]


def test_noise_in_the_last_digit_does_not_decide() -> None:
    assert best_first(np.array([0.1 + 0.2, 0.3]), np.array([2, 1])).tolist() == [1, 0]


@pytest.mark.parametrize("ranks", [[], [np.zeros(0, int)]], ids=["no lists", "empty lists"])
def test_nothing_fuses_to_nothing(ranks: list[np.ndarray]) -> None:
    assert rrf(ranks).tolist() == []
