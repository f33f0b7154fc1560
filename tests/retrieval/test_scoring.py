"""The score, against worked numbers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from trajstore.errors import RetrievalError
from trajstore.retrieval import Weights
from trajstore.retrieval.scoring import recency, scores

NOW = datetime(2026, 11, 30, tzinfo=UTC)


def ago(**span: float) -> np.ndarray:
    return np.array([(NOW - timedelta(**span)).timestamp()])


def test_the_score_is_the_weighted_sum_of_its_parts() -> None:
    """.6 * .82 + .2 * 1 + .1 * .5 + .1 * 4/6 = .808667."""
    parts = {"similarity": 0.82, "success": 1, "recency": 0.5, "efficiency": 4 / 6, "utility": 9}
    found = scores({n: np.array([v], float) for n, v in parts.items()}, Weights())
    assert found.round(6).tolist() == [0.808667]


def test_utility_counts_with_its_weight() -> None:
    parts = dict.fromkeys(("similarity", "success", "recency", "efficiency"), np.zeros(1))
    found = scores(parts | {"utility": np.array([0.5])}, Weights(utility=0.4))
    assert found.tolist() == [0.2]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.1])
@pytest.mark.parametrize("name", ["similarity", "success", "utility", "half_life_days"])
def test_a_weight_that_cannot_be_counted_with_is_refused_by_name(name: str, value: float) -> None:
    with pytest.raises(RetrievalError, match=f"{name} is a number from 0 on, not {value}"):
        Weights(**{name: value})


def test_recency_halves_with_the_half_life() -> None:
    """3.5 days at a half-life of 7: 0.5 ** 0.5 = .707107."""
    assert recency(ago(days=7), NOW, 7).tolist() == [0.5]
    assert recency(ago(days=3.5), NOW, 7).round(6).tolist() == [0.707107]


def test_recency_of_generative_agents_is_a_half_life_too() -> None:
    """Park et al. 2023 decay by .995 an hour: 24 h .886654, 168 h .430802."""
    half_life = np.log(0.5) / np.log(0.995) / 24
    assert recency(ago(hours=24), NOW, half_life).round(6).tolist() == [0.886654]
    assert recency(ago(hours=168), NOW, half_life).round(6).tolist() == [0.430802]


def test_an_unknown_time_is_not_recent_and_the_future_is_now() -> None:
    assert recency(np.array([np.nan]), NOW, 7).tolist() == [0.0]
    assert recency(ago(days=-5), NOW, 7).tolist() == [1.0]


def test_a_half_life_of_nothing_is_refused() -> None:
    with pytest.raises(RetrievalError, match="half_life_days is above 0, not 0"):
        recency(ago(days=1), NOW, 0)
    with pytest.raises(RetrievalError, match="half_life_days is above 0, not 0"):
        Weights(half_life_days=0)
