from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trajstore.errors import SelectionError
from trajstore.filters.kernels import Cosine, Similarities
from trajstore.filters.mmr import mmr

DOCUMENTS = np.array(
    [(0.9, 0.436, 0), (0.88, 0.475, 0), (0.7, 0, 0.714), (0.5, 0.866, 0), (0.6, -0.8, 0)]
)
RELEVANCE = Cosine(np.vstack([[(1.0, 0, 0)], DOCUMENTS])).block(slice(0, 1))[0, 1:]


def test_the_worked_example_of_relevance() -> None:
    assert pytest.approx([0.9, 0.88, 0.7001, 0.5, 0.6], abs=5e-5) == RELEVANCE


@pytest.mark.parametrize(
    ("trade", "places", "scores"),
    [
        (1.0, (0, 1, 2), [0.9, 0.88, 0.7001]),
        (0.7, (0, 4, 1), [0.63, 0.3626, 0.3163]),
        (0.5, (0, 4, 2), [0.45, 0.2044, 0.035]),
    ],
)
def test_the_worked_example(trade: float, places: tuple[int, ...], scores: list[float]) -> None:
    picks = mmr(Cosine(DOCUMENTS), RELEVANCE, 3, trade=trade)
    assert picks.places == places
    assert picks.scores == pytest.approx(scores, abs=5e-5)


def plain(similarities: Any, relevance: Any, k: int, trade: float) -> list[int]:
    picks: list[int] = []
    while len(picks) < k:
        free = [i for i in range(len(relevance)) if i not in picks]
        score = {
            i: trade * relevance[i]
            - (1 - trade) * max((similarities[i, j] for j in picks), default=0.0)
            for i in free
        }
        picks.append(max(free, key=lambda i: (round(score[i], 9), -i)))
    return picks


@pytest.mark.parametrize("trade", [0.0, 0.3, 0.7, 1.0])
def test_it_picks_what_the_formula_says(trade: float) -> None:
    draw = np.random.default_rng(0)
    kernel, relevance = Cosine(draw.normal(size=(60, 5))), draw.random(60).round(1)
    expected = plain(kernel.block(slice(None)), relevance, 15, trade)
    assert list(mmr(kernel, relevance, 15, trade=trade).places) == expected


def test_only_the_most_relevant_are_candidates() -> None:
    """Novelty alone would take the last item; of four candidates it is not one."""
    relevance = np.array([0.9, 0.8, 0.7, 0.6, 0.1])
    kernel = Similarities(np.where(np.eye(5) + np.eye(5)[::-1] > 0, 1.0, 0.5))
    assert 4 not in mmr(kernel, relevance, 4, trade=0.0, candidates=4).places
    assert mmr(kernel, relevance, 1, trade=0.0).places == (0,)


def test_more_picks_than_items_are_all_items() -> None:
    assert len(mmr(Cosine(DOCUMENTS), RELEVANCE, 99).places) == 5
    assert mmr(Cosine(DOCUMENTS), RELEVANCE, 0).places == ()


@pytest.mark.parametrize(
    ("relevance", "trade", "message"),
    [
        (RELEVANCE[:2], 0.7, "5 items need as many finite numbers"),
        (np.full(5, np.nan), 0.7, "5 items need as many finite numbers"),
        (RELEVANCE, 1.2, "trade is from 0 to 1"),
    ],
)
def test_what_does_not_fit_is_refused(relevance: Any, trade: float, message: str) -> None:
    with pytest.raises(SelectionError, match=message):
        mmr(Cosine(DOCUMENTS), relevance, 2, trade=trade)
