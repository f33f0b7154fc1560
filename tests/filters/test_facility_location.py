from __future__ import annotations

import itertools
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from trajstore.errors import SelectionError
from trajstore.filters.facility_location import facility_location, stochastic_size
from trajstore.filters.kernels import Cosine, Kernel, Similarities

POINTS = np.array([(1, 0), (0.96, 0.28), (0.8, 0.6), (0, 1), (0.28, 0.96), (-1, 0)])
TIE = 1e-6


def value(similarities: Any, picks: Any) -> float:
    """``f`` by its definition."""
    best = np.maximum(similarities[:, list(picks)], 0).max(axis=1)
    return float(best.sum())


def plain_greedy(similarities: Any, k: int) -> list[int]:
    """Every gain anew in every round; the first of those within the tie."""
    picks: list[int] = []
    for _ in range(min(k, len(similarities))):
        before = value(similarities, picks) if picks else 0.0
        free = [i for i in range(len(similarities)) if i not in picks]
        gains = {i: value(similarities, [*picks, i]) - before for i in free}
        top = max(gains.values())
        picks.append(next(i for i in free if gains[i] >= top * (1 - TIE) - 1e-12))
    return picks


def test_the_worked_example() -> None:
    """Picks 2 (f 4.136), 5 (5.136), 3 (5.696); 3 and 4 tie and the lower number wins."""
    picks = facility_location(Cosine(POINTS), 3)
    assert picks.places == (2, 5, 3)
    assert np.cumsum(picks.scores) == pytest.approx([4.136, 5.136, 5.696], abs=5e-4)


def test_the_worked_example_reaches_97_percent_of_the_optimum() -> None:
    """The best three of six are 1, 3 and 5 with 5.856; greedy promises 1 - 1/e of it."""
    cosines = Cosine(POINTS).block(slice(None))
    best = max(itertools.combinations(range(6), 3), key=lambda s: value(cosines, s))
    assert (best, value(cosines, best)) == ((1, 3, 5), pytest.approx(5.856, abs=5e-4))
    found = value(cosines, facility_location(Cosine(POINTS), 3).places)
    assert found / value(cosines, best) == pytest.approx(0.973, abs=5e-4)


VECTORS = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 24), st.integers(1, 4)),
    elements=st.integers(-3, 3).map(float),
)


@settings(max_examples=150, deadline=None)
@given(VECTORS, st.integers(0, 8), st.sampled_from([0, 2**31]))
def test_lazy_greedy_picks_what_plain_greedy_picks(vectors: Any, k: int, memory: int) -> None:
    """With and without room for the matrix."""
    kernel = Cosine(vectors)
    picks = facility_location(kernel, k, memory_bytes=memory)
    assert list(picks.places) == plain_greedy(kernel.block(slice(None)), k)


@pytest.mark.parametrize("memory", [0, 2**31])
def test_lazy_greedy_is_plain_greedy_on_many_points_in_clusters(memory: int) -> None:
    """Enough points that bounds are refreshed, not only asked again."""
    draw = np.random.default_rng(5)
    centres = draw.normal(size=(12, 16))
    points = centres[draw.integers(0, 12, 300)] + 0.6 * draw.normal(size=(300, 16))
    kernel = Cosine(points)
    picks = facility_location(kernel, 25, memory_bytes=memory)
    assert list(picks.places) == plain_greedy(kernel.block(slice(None)), 25)


@settings(max_examples=50, deadline=None)
@given(VECTORS, st.integers(1, 8))
def test_the_scores_sum_to_the_value_of_the_picks(vectors: Any, k: int) -> None:
    kernel = Cosine(vectors)
    picks = facility_location(kernel, k)
    whole = value(kernel.block(slice(None)), picks.places)
    assert sum(picks.scores) == pytest.approx(whole, abs=1e-9)


def test_gains_never_rise() -> None:
    draw = np.random.default_rng(1)
    scores = facility_location(Cosine(draw.normal(size=(200, 8))), 40).scores
    assert all(a >= b - 1e-9 for a, b in itertools.pairwise(scores))


def test_permuted_items_give_the_same_picks() -> None:
    draw = np.random.default_rng(2)
    points = draw.normal(size=(80, 5))
    order = draw.permutation(80)
    picks = facility_location(Cosine(points), 10).places
    assert [order[i] for i in facility_location(Cosine(points[order]), 10).places] == list(picks)


def test_the_worked_example_of_stochastic_sizes() -> None:
    """50 000 / 500 * ln(100) = 460.5 and * ln(10) = 230.3."""
    assert stochastic_size(50_000, 500, 0.01) == 461
    assert stochastic_size(50_000, 500, 0.1) == 231


def test_stochastic_greedy_comes_near_the_value_of_greedy() -> None:
    draw = np.random.default_rng(3)
    kernel = Cosine(draw.normal(size=(400, 6)))
    exact = sum(facility_location(kernel, 20).scores)
    runs = [facility_location(kernel, 20, epsilon=0.1, seed=seed) for seed in range(8)]
    assert 0.93 * exact < np.mean([sum(r.scores) for r in runs]) < exact


def test_stochastic_greedy_depends_on_its_seed_alone() -> None:
    kernel = Cosine(np.random.default_rng(4).normal(size=(300, 4)))
    one, again, other = (facility_location(kernel, 10, epsilon=0.5, seed=s) for s in (1, 1, 2))
    assert one == again
    assert one.places != other.places


def test_stochastic_greedy_that_looks_at_everything_is_greedy() -> None:
    kernel = Cosine(np.random.default_rng(6).normal(size=(50, 4)))
    assert facility_location(kernel, 5, epsilon=1e-9) == facility_location(kernel, 5)


def test_items_that_are_like_nothing_are_picked_in_order() -> None:
    assert facility_location(Similarities(np.zeros((4, 4))), 3).places == (0, 1, 2)


def test_more_picks_than_items_are_all_items() -> None:
    assert sorted(facility_location(Cosine(POINTS), 99).places) == list(range(6))
    assert facility_location(Cosine(np.zeros((0, 2))), 3).places == ()


class _Counting:
    """A kernel that knows how many similarities it was asked for."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel, self.size, self.asked, self.largest = kernel, kernel.size, 0, 0

    def block(self, rows: Any, columns: slice = slice(None)) -> Any:
        block = self.kernel.block(rows, columns)
        self.asked += block.size
        self.largest = max(self.largest, block.size)
        return block

    def take(self, places: Any) -> _Counting:
        return _Counting(self.kernel.take(places))


def clustered() -> _Counting:
    draw = np.random.default_rng(7)
    points = draw.normal(size=(60, 24))[draw.integers(0, 60, 2000)]
    return _Counting(Cosine(points + 0.4 * draw.normal(size=points.shape)))


def test_with_room_each_similarity_is_asked_for_about_once() -> None:
    kernel = clustered()
    facility_location(kernel, 50)
    assert kernel.asked < 1.2 * 2000**2


def test_without_room_only_small_blocks_are_held_and_most_gains_never_asked_again() -> None:
    """Plain greedy asks for 50 times 2000 rows of 2000."""
    kernel = clustered()
    facility_location(kernel, 50, memory_bytes=0)
    assert kernel.largest <= 64 * 2000
    assert kernel.asked < 6 * 2000**2


@pytest.mark.parametrize("epsilon", [0.0, 1.0])
def test_an_epsilon_out_of_range_is_refused(epsilon: float) -> None:
    with pytest.raises(SelectionError, match="above 0 and below 1"):
        facility_location(Cosine(POINTS), 2, epsilon=epsilon)


def test_less_than_nothing_is_refused() -> None:
    with pytest.raises(SelectionError, match="0 items or more, not -1"):
        facility_location(Cosine(POINTS), -1)


@settings(max_examples=60, deadline=None)
@given(VECTORS, st.integers(1, 4))
def test_greedy_keeps_its_promise_of_1_minus_1_over_e(vectors: Any, k: int) -> None:
    """Nemhauser, Wolsey and Fisher 1978, beside the best of all sets of that size."""
    kernel = Cosine(vectors[:9])
    cosines = kernel.block(slice(None))
    sets = itertools.combinations(range(kernel.size), min(k, kernel.size))
    best = max(value(cosines, s) for s in sets)
    found = value(cosines, facility_location(kernel, k).places)
    assert found >= (1 - 1 / np.e) * best - 1e-9


def test_in_single_precision_the_picks_are_those_of_double_precision() -> None:
    draw = np.random.default_rng(8)
    centres = draw.normal(size=(40, 8))
    points = centres[draw.integers(0, 40, 4200)] + 0.5 * draw.normal(size=(4200, 8))
    exact = points / np.linalg.norm(points, axis=1, keepdims=True)
    expected = facility_location(Similarities(exact @ exact.T), 8).places
    assert Cosine(points).block(slice(0, 1)).dtype == np.float32
    assert facility_location(Cosine(points), 8).places == expected
    assert facility_location(Cosine(points), 8, memory_bytes=0).places == expected


@settings(max_examples=40, deadline=None)
@given(VECTORS, st.integers(1, 6), st.sampled_from([0.01, 7.0, 1e4]))
def test_the_scale_of_the_similarities_does_not_matter(vectors: Any, k: int, scale: float) -> None:
    cosines = Cosine(vectors).block(slice(None))
    one = facility_location(Similarities(cosines), k)
    other = facility_location(Similarities(scale * cosines), k)
    assert other.places == one.places
    assert other.scores == pytest.approx([scale * s for s in one.scores], rel=1e-9, abs=1e-9)


def test_no_more_than_one_matrix_is_held() -> None:
    """4200 items in single precision: 70.6 MB, and less than a fifth of that beside it."""
    kernel = Cosine(np.random.default_rng(9).normal(size=(4200, 16)))
    tracemalloc.start()
    facility_location(kernel, 10)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.2 * 4 * 4200**2


def test_without_room_memory_stays_small() -> None:
    kernel = Cosine(np.random.default_rng(9).normal(size=(4200, 16)))
    tracemalloc.start()
    facility_location(kernel, 10, memory_bytes=2**20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 * 2**20
