from __future__ import annotations

import hashlib
import statistics

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from trajstore.filters.draws import draws

IDS = [f"run-{i}" for i in range(2000)]


def by_hand(name: str, seed: int) -> float:
    tail = hashlib.md5(f"{seed}:{name}".encode()).digest()[8:]
    return (int.from_bytes(tail, "little") >> 12) / 2**52


def test_a_draw_is_made_of_the_hash_of_seed_and_id() -> None:
    names = ["a", "é", ""]
    assert draws(pa.array(names), 7).to_pylist() == [by_hand(n, 7) for n in names]


def test_draws_are_spread_evenly() -> None:
    """A uniform number has mean 1/2 and variance 1/12."""
    found = draws(pa.array(IDS), 0).to_pylist()
    assert abs(statistics.mean(found) - 0.5) < 0.02
    assert abs(statistics.variance(found) - 1 / 12) < 0.005
    assert min(found) >= 0
    assert max(found) < 1


def test_another_seed_draws_other_numbers() -> None:
    one, other = (draws(pa.array(IDS), seed).to_pylist() for seed in (0, 1))
    assert set(one).isdisjoint(other)


@settings(max_examples=30, deadline=None)
@given(st.permutations(IDS[:8]), st.integers(0, 2**31))
def test_a_draw_depends_on_nothing_but_seed_and_id(names: list[str], seed: int) -> None:
    assert draws(pa.array(names), seed).to_pylist() == [by_hand(n, seed) for n in names]
