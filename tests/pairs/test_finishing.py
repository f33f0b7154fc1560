"""How many pairs have to go until the longer side wins half the time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajstore.pairs.finishing import excess


@pytest.mark.parametrize(
    ("difference", "pairs", "tolerance", "expected"),
    [(0, 10, 0.05, 0), (1, 10, 0.05, 0), (2, 10, 0.05, 2), (20, 40, 0.05, 18), (10, 10, 0.0, 10)],
)
def test_the_excess_by_hand(difference: int, pairs: int, tolerance: float, expected: int) -> None:
    """A lead of 20 in 40 pairs at .05: 18 go, and 2 of 22 lead, which is a share of .545."""
    assert excess(difference, pairs, tolerance) == expected


@given(st.integers(0, 200), st.integers(0, 200), st.sampled_from([0.0, 0.01, 0.05, 0.2]))
def test_the_excess_is_the_least_that_does(longer: int, shorter: int, tolerance: float) -> None:
    more, less = max(longer, shorter), min(longer, shorter)
    gone = excess(more - less, longer + shorter, tolerance)

    def is_balanced(dropped: int) -> bool:
        left = longer + shorter - dropped
        return left == 0 or abs((more - dropped) / left - 0.5) <= tolerance + 1e-9

    assert is_balanced(gone)
    assert gone == 0 or not is_balanced(gone - 1)
