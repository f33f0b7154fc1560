from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trajstore.errors import SelectionError
from trajstore.filters.k_center import k_center
from trajstore.filters.kernels import Cosine, Euclidean

POINTS = np.array([(0, 0), (1, 0), (10, 0), (10, 1), (5, 5)], float)


def test_the_worked_example() -> None:
    """From 0 the farthest is 3, then 4; the radius is 6.403124 after two picks, 1 after three."""
    picks = k_center(Euclidean(POINTS), 3)
    assert picks.places == (0, 3, 4)
    assert [-s for s in picks.scores[1:]] == pytest.approx([6.403124, 1.0], abs=1e-6)


def radius(points: np.ndarray, picks: tuple[int, ...]) -> float:
    gaps = np.linalg.norm(points[:, None] - points[list(picks)], axis=2)
    return float(gaps.min(axis=1).max())


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=3, max_size=9),
    st.integers(1, 3),
)
def test_the_radius_is_at_most_twice_the_smallest_possible(
    points: list[tuple[int, int]], k: int
) -> None:
    data = np.array(points, float)
    picks = k_center(Euclidean(data), k)
    best = min(radius(data, s) for s in itertools.combinations(range(len(data)), k))
    assert -picks.scores[-1] == pytest.approx(radius(data, picks.places))
    assert radius(data, picks.places) <= 2 * best + 1e-9


def test_cosines_take_the_most_unlike_first() -> None:
    points = np.array([(1.0, 0), (0.9, 0.1), (0, 1), (-1, 0)])
    assert k_center(Cosine(points), 2).places == (0, 3)


def test_another_start_can_be_given() -> None:
    assert k_center(Euclidean(POINTS), 2, start=4).places == (4, 0)


def test_equal_points_are_picked_once_each_in_order() -> None:
    assert k_center(Euclidean(np.zeros((3, 2))), 5).places == (0, 1, 2)


def test_nothing_is_picked_of_nothing() -> None:
    assert k_center(Euclidean(np.zeros((0, 2))), 2).places == ()
    assert k_center(Euclidean(POINTS), 0).places == ()


def test_a_start_that_is_not_there_is_refused() -> None:
    with pytest.raises(SelectionError, match="no item 5 to start from among 5"):
        k_center(Euclidean(POINTS), 1, start=5)
