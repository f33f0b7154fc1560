from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajstore.errors import SelectionError
from trajstore.filters.quotas import apportioned, quotas


def test_the_worked_example_of_square_roots() -> None:
    """Shares 11.76, 5.88 and 2.35 of 20: the largest remainders are .88 and .76."""
    assert quotas([100, 25, 4], 20) == [12, 6, 2]


def test_the_worked_example_in_proportion() -> None:
    """Shares 15.504, 3.876 and .620 of 20: the largest remainders are .876 and .620."""
    assert quotas([100, 25, 4], 20, "proportional") == [15, 4, 1]


def test_equal_shares_give_the_rest_to_the_larger_and_then_to_the_earlier() -> None:
    assert quotas([5, 9, 9], 4, "equal") == [1, 2, 1]
    assert quotas([9, 9, 9], 4, "equal") == [2, 1, 1]


def test_what_a_small_stratum_cannot_give_passes_on() -> None:
    assert quotas([2, 50, 50], 30, "equal") == [2, 14, 14]


def test_a_part_of_nothing_gets_nothing() -> None:
    assert apportioned([10, 10], [0.0, 1.0], 15) == [0, 10]


def test_whole_shares_are_not_moved_by_rounding() -> None:
    """0.1 + 0.2 is not 0.3 in binary, yet 3 of 10 is."""
    assert apportioned([100] * 3, [0.1 + 0.2, 0.3, 0.4], 10) == [3, 3, 4]


@pytest.mark.parametrize(("budget", "parts"), [(-1, [1.0]), (1, [-1.0])])
def test_less_than_nothing_is_refused(budget: int, parts: list[float]) -> None:
    with pytest.raises(SelectionError, match="0 or more"):
        apportioned([1], parts, budget)


COUNTS = st.lists(st.integers(0, 60), max_size=7)


@given(COUNTS, st.integers(0, 200), st.sampled_from(["sqrt", "proportional", "equal"]))
def test_quotas_use_the_whole_budget_and_never_more_than_there_is(
    counts: list[int], budget: int, share: Any
) -> None:
    found = quotas(counts, budget, share)
    assert sum(found) == min(budget, sum(counts))
    assert all(0 <= quota <= n for quota, n in zip(found, counts, strict=True))


@given(COUNTS, st.integers(0, 200), st.sampled_from(["sqrt", "proportional", "equal"]))
def test_a_larger_stratum_never_gets_less(counts: list[int], budget: int, share: Any) -> None:
    found = quotas(counts, budget, share)
    ranked = sorted(zip(counts, found, strict=True))
    for (small, less), (large, more) in itertools.pairwise(ranked):
        assert small == large or less <= more
