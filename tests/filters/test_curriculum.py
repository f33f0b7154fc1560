from __future__ import annotations

import math

import pytest

from trajstore.errors import SelectionError
from trajstore.filters.curriculum import (
    LEVEL_MIXES,
    LEVELS,
    advance,
    level_of,
    mix_of,
    mixed_outcomes,
    target_at,
    target_weights,
    variance_weights,
)


def test_the_worked_example_of_weights() -> None:
    """p(1-p) of 0, 1/8, 1/2, 7/8, 1 is 0, 7/64, 16/64, 7/64, 0; of their sum .2333 and .5333."""
    found = variance_weights([0, 0.125, 0.5, 0.875, 1])
    assert found == pytest.approx([0, 0.2333, 0.5333, 0.2333, 0], abs=5e-5)


def test_where_every_task_is_settled_nothing_has_weight() -> None:
    assert variance_weights([0.0, 1.0]) == [0.0, 0.0]


def test_the_filter_of_dapo_keeps_what_is_between_0_and_1() -> None:
    assert [p for p in (0, 0.125, 0.5, 0.875, 1) if mixed_outcomes(p)] == [0.125, 0.5, 0.875]


def test_a_task_at_the_target_weighs_most_and_one_width_away_less_by_the_root_of_e() -> None:
    at, near, as_near = target_weights([0.5, 0.35, 0.65], 0.5, 0.15)
    assert near == pytest.approx(as_near)
    assert at / near == pytest.approx(math.sqrt(math.e))
    assert at + near + as_near == pytest.approx(1)


def test_the_target_falls_in_a_straight_line() -> None:
    assert [target_at(p, 0.9, 0.1) for p in (0, 0.25, 1)] == pytest.approx([0.9, 0.7, 0.1])


def test_the_published_mixes() -> None:
    """Start 80 % L1 and L2 with 20 % L3; end 10/15/25/30/20 %."""
    start, end = mix_of(2), mix_of(5)
    assert (sum(start[:2]), start[2]) == pytest.approx((0.8, 0.2))
    assert end == (0.1, 0.15, 0.25, 0.3, 0.2)


@pytest.mark.parametrize("level", LEVEL_MIXES)
def test_every_mix_is_whole(level: int) -> None:
    assert len(mix_of(level)) == len(LEVELS)
    assert sum(mix_of(level)) == pytest.approx(1)


@pytest.mark.parametrize("level", [3, 4])
def test_10_to_20_percent_of_the_tasks_stay_easier(level: int) -> None:
    assert 0.1 <= sum(mix_of(level)[: level - 1]) <= 0.2 + 1e-9


@pytest.mark.parametrize(
    ("level", "rate", "next_"), [(2, 0.71, 3), (2, 0.7, 2), (3, None, 3), (5, 1.0, 5)]
)
def test_the_next_level_begins_above_70_percent(level: int, rate: float | None, next_: int) -> None:
    assert advance(level, {level: rate}) == next_


def test_success_on_other_levels_does_not_advance() -> None:
    assert advance(3, {1: 1.0, 2: 1.0, 4: 1.0}) == 3


def test_levels_are_fifths_of_the_pass_rate() -> None:
    rates = (1.0, 0.8, 0.79, 0.6, 0.4, 0.2, 0.19, 0.0)
    assert [level_of(rate) for rate in rates] == [1, 1, 2, 2, 3, 4, 5, 5]


def test_what_is_out_of_range_is_refused() -> None:
    with pytest.raises(SelectionError, match="2 to 5, not 1"):
        mix_of(1)
    with pytest.raises(SelectionError, match="above 0, not 0"):
        target_weights([0.5], 0.5, 0)
    with pytest.raises(SelectionError, match=r"from 0 to 1, not 1\.1"):
        target_at(1.1)
