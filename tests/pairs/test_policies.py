"""Every policy against the same policy written as a plain loop."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise, product
from typing import NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trajstore.pairs.policies import POLICIES, TIE, better, proposals_query
from trajstore.pairs.relations import Relations


class Row(NamedTuple):
    """One candidate."""

    run: int
    prompt_key: int
    value: float
    cost: float
    can_win: bool
    success: bool


Pairs = set[tuple[int, int]]

PATH = ("run", "step_index", "actor", "action", "seen")


def proposed(
    policy: str, rows: list[Row], margin: float, *, tie: bool = False, k: int = 2
) -> Pairs:
    columns = {n: [getattr(r, n) for r in rows] for n in Row._fields}
    path = pa.table({n: pa.array([], pa.int32()) for n in PATH})
    with Relations(candidates=pa.table(columns), path=path) as made:
        is_better = better(margin, efficiency_tiebreak=tie)
        found = made.rows(proposals_query(policy, is_better=is_better, k=k))  # type: ignore[arg-type]
    return {(r["chosen"], r["rejected"]) for r in found.to_pylist()}


def beats(a: Row, b: Row, margin: float, *, tie: bool) -> bool:
    if a.value - b.value > TIE and a.value - b.value >= margin - TIE:
        return True
    both = a.success and b.success and abs(a.value - b.value) <= TIE
    return tie and both and a.cost < b.cost


def best_first(rows: list[Row]) -> list[Row]:
    return sorted((r for r in rows if r.can_win), key=lambda r: (-r.value, r.cost, r.run))


def worst_first(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda r: (r.value, -r.cost, r.run))


def ends(k: int) -> Callable[[list[Row]], list[tuple[Row, Row]]]:
    return lambda rows: list(product(best_first(rows)[:k], worst_first(rows)[:k]))


def neighbours(rows: list[Row]) -> list[tuple[Row, Row]]:
    levels: dict[float, list[Row]] = {}
    for row in rows:
        levels.setdefault(row.value, []).append(row)
    chosen = [
        min(levels[value], key=lambda r: (not r.can_win, r.cost, r.run))
        for value in sorted(levels, reverse=True)
    ]
    return [(a, b) for a, b in pairwise(chosen) if a.can_win]


LOOPS: dict[str, Callable[[list[Row]], list[tuple[Row, Row]]]] = {
    "best_worst": ends(1),
    "topk_bottomk": ends(2),
    "all_margin": lambda rows: [(a, b) for a, b in product(rows, rows) if a.can_win],
    "adjacent": neighbours,
}


def looped(policy: str, rows: list[Row], margin: float, *, tie: bool) -> Pairs:
    found = set()
    for key in {r.prompt_key for r in rows}:
        inside = [r for r in rows if r.prompt_key == key]
        for a, b in LOOPS[policy](inside):
            if beats(a, b, margin, tie=tie):
                found.add((a.run, b.run))
    return found


ROWS = st.lists(
    st.tuples(
        st.sampled_from([1, 2]),
        st.sampled_from([0.0, 0.25, 0.5, 1.0]),
        st.sampled_from([1.0, 2.0, float("inf")]),
        st.booleans(),
    ),
    min_size=1,
    max_size=9,
).map(
    lambda drawn: [
        Row(i, key, value, cost, can_win, value >= 1)
        for i, (key, value, cost, can_win) in enumerate(drawn)
    ]
)


@pytest.mark.parametrize("policy", LOOPS)
@settings(max_examples=40, deadline=None)
@given(ROWS, st.sampled_from([0.0, 0.25, 0.5]), st.booleans())
def test_a_policy_is_what_the_loop_says(
    policy: str,
    rows: list[Row],
    margin: float,
    tie: bool,  # noqa: FBT001
) -> None:
    assert proposed(policy, rows, margin, tie=tie) == looped(policy, rows, margin, tie=tie)


def plain(*values: float, can_win: bool = True) -> list[Row]:
    return [Row(i, 1, v, 1.0, can_win, v >= 1) for i, v in enumerate(values)]


def test_values_within_a_billionth_are_equal() -> None:
    assert proposed("all_margin", plain(1.0, 0.9999999999999998), 0.0) == set()
    assert proposed("all_margin", plain(1.0, 1.0 - 2e-9), 0.0) == {(0, 1)}


def test_levels_that_are_almost_equal_are_one_level() -> None:
    assert proposed("adjacent", plain(1.0, 0.9999999999999998, 0.5), 0.0) == {(0, 2)}


def test_hard_negatives_give_one_pair_a_prompt() -> None:
    rows = [r._replace(prompt_key=1 + r.run // 3) for r in plain(1, 0, 0.5, 1, 0.2, 0.1)]
    assert proposed("hard_negatives", rows, 0.0) == {(0, 2), (3, 4)}


def test_hard_negatives_keep_the_margin() -> None:
    assert proposed("hard_negatives", plain(1, 0.9, 0.2), 0.5) == {(0, 2)}


def test_nobody_wins_who_may_not() -> None:
    for policy in POLICIES:
        assert proposed(policy, plain(1, 0, 0.5, can_win=False), 0.0) == set()
