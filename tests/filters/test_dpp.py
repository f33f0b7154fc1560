from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from trajstore.errors import SelectionError
from trajstore.filters.dpp import dpp, quality_of
from trajstore.filters.kernels import Cosine, Similarities

QUALITY = np.array([1, 0.9, 0.8, 0.7])
MATRIX = np.array([[1, 0.9, 0.2, 0], [0.9, 1, 0.3, 0.1], [0.2, 0.3, 1, 0.4], [0, 0.1, 0.4, 1]])


def log_determinant(matrix: Any, quality: Any, picks: Any) -> float:
    kernel = quality[:, None] * matrix * quality
    return float(np.linalg.slogdet(kernel[np.ix_(picks, picks)])[1])


def test_the_worked_example() -> None:
    """0 (d2 1), 2 (.6144), 3 (.408333); the logarithms sum to -1.382781, the slogdet of the 3x3."""
    picks = dpp(Similarities(MATRIX), QUALITY, 3)
    assert picks.places == (0, 2, 3)
    assert picks.scores == pytest.approx([1, 0.6144, 0.408333], abs=1e-6)
    assert sum(map(math.log, picks.scores)) == pytest.approx(-1.382781, abs=1e-6)
    assert log_determinant(MATRIX, QUALITY, picks.places) == pytest.approx(-1.382781, abs=1e-6)


def plain(matrix: Any, quality: Any, k: int) -> list[int]:
    """The item that makes the determinant largest, by computing every determinant."""
    picks: list[int] = []
    for _ in range(k):
        free = [i for i in range(len(matrix)) if i not in picks]
        picks.append(max(free, key=lambda i: log_determinant(matrix, quality, [*picks, i])))
    return picks


def test_it_picks_what_the_determinants_say() -> None:
    draw = np.random.default_rng(0)
    kernel = Cosine(draw.normal(size=(40, 12)))
    quality = quality_of(draw.random(40), 0.5)
    picks = dpp(kernel, quality, 8)
    matrix = kernel.block(slice(None))
    assert list(picks.places) == plain(matrix, quality, 8)
    assert sum(map(math.log, picks.scores)) == pytest.approx(
        log_determinant(matrix, quality, picks.places)
    )


def test_it_stops_where_nothing_new_is_left() -> None:
    """Twenty vectors of three numbers have rank three."""
    kernel = Cosine(np.random.default_rng(1).normal(size=(20, 3)))
    assert len(dpp(kernel, np.ones(20), 10).places) == 3


def test_a_ridge_lets_it_go_beyond_the_rank() -> None:
    kernel = Cosine(np.random.default_rng(1).normal(size=(20, 3)))
    picks = dpp(kernel, np.ones(20), 10, ridge=1e-3)
    assert len(set(picks.places)) == 10
    matrix = kernel.block(slice(None)) + 1e-3 * np.eye(20)
    assert sum(map(math.log, picks.scores)) == pytest.approx(
        log_determinant(matrix, np.ones(20), picks.places)
    )


def test_of_equal_items_the_lower_number_wins() -> None:
    assert dpp(Similarities(np.eye(4)), np.ones(4), 2).places == (0, 1)


def test_more_reward_means_more_quality_and_novelty_alone_means_none() -> None:
    """theta .7 gives a = .7 / .6; exp(a) is 3.2113."""
    assert quality_of(np.array([0.0, 1.0]), 0.7) == pytest.approx([1, 3.2113], abs=5e-5)
    assert quality_of(np.array([0.0, 1.0]), 0.0) == pytest.approx([1, 1])


@pytest.mark.parametrize(
    ("quality", "ridge", "message"),
    [
        (np.array([1.0, 0, 1, 1]), 0.0, "qualities above 0"),
        (QUALITY[:3], 0.0, "qualities above 0"),
        (QUALITY, -1.0, "0 or more, not -1"),
    ],
)
def test_what_does_not_fit_is_refused(quality: Any, ridge: float, message: str) -> None:
    with pytest.raises(SelectionError, match=message):
        dpp(Similarities(MATRIX), quality, 2, ridge=ridge)


def test_a_trade_of_1_is_refused() -> None:
    with pytest.raises(SelectionError, match="but not 1"):
        quality_of(QUALITY, 1.0)


def test_permuted_items_give_the_same_picks() -> None:
    draw = np.random.default_rng(2)
    points, quality = draw.normal(size=(60, 9)), quality_of(draw.random(60))
    order = draw.permutation(60)
    picks = dpp(Cosine(points), quality, 6).places
    assert [order[i] for i in dpp(Cosine(points[order]), quality[order], 6).places] == list(picks)


def test_a_copy_of_a_pick_adds_nothing() -> None:
    points = np.array([(1.0, 0), (1.0, 0), (0, 1), (0, 1)])
    assert dpp(Cosine(points), np.ones(4), 4).places == (0, 2)
