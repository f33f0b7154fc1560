"""Sets of action n-grams, against numbers worked out by hand and Python's own sets."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trajstore.filters.shingles import ShingleSets, jaccard, mixed, shingle_sets

np = pytest.importorskip("numpy")

A = ["search", "open", "edit", "test", "submit"]
B = ["search", "open", "edit", "edit", "test", "submit"]
C = ["ls", "cat", "edit", "test", "submit"]
SEQUENCES = st.lists(st.lists(st.sampled_from("abcd"), max_size=7), min_size=1, max_size=6)


def tokens(sequences: Sequence[Sequence[str] | None]) -> pa.Array:
    def number(token: str) -> int:
        return int.from_bytes(hashlib.md5(token.encode()).digest()[:8], "little")

    listed = [None if s is None else [number(t) for t in s] for s in sequences]
    return pa.array(listed, pa.list_(pa.uint64()))


def similarities(size: int, *, padded: bool) -> list[float]:
    sets = shingle_sets(tokens([A, B, C]), size, padded=padded)
    found = jaccard(sets, np.array([0, 0, 1]), np.array([1, 2, 2]))
    return [round(x, 4) for x in found.tolist()]


def naive(sequence: Sequence[str], size: int) -> set[tuple[str, ...]]:
    if not sequence:
        return set()
    text = ["^"] * (size - 1) + list(sequence) + ["$"] * (size - 1)
    return {tuple(text[i : i + size]) for i in range(len(text) - size + 1)}


def test_bigrams_of_three_strategies_overlap_as_worked_out() -> None:
    assert similarities(2, padded=False) == [0.8, 0.3333, 0.2857]


def test_trigrams_of_three_strategies_overlap_as_worked_out() -> None:
    assert similarities(3, padded=False) == [0.4, 0.2, 0.1667]


def test_padded_bigrams_of_three_strategies_overlap_as_worked_out() -> None:
    assert similarities(2, padded=True) == [0.8571, 0.3333, 0.3]


def test_a_run_of_one_action_has_shingles_only_with_padding() -> None:
    one = tokens([["submit"]])
    assert shingle_sets(one, 2, padded=False).sizes.tolist() == [0]
    assert shingle_sets(one, 2).sizes.tolist() == [2]


def test_runs_of_one_equal_action_are_alike_and_of_another_are_not() -> None:
    sets = shingle_sets(tokens([["submit"], ["submit"], ["ls"]]), 2)
    assert jaccard(sets, np.array([0, 0]), np.array([1, 2])).tolist() == [1.0, 0.0]


def test_runs_without_actions_are_not_alike() -> None:
    sets = shingle_sets(tokens([[], [], None, ["a"]]), 2)
    assert sets.sizes.tolist() == [0, 0, 0, 2]
    assert jaccard(sets, np.array([0, 0, 0]), np.array([1, 2, 3])).tolist() == [0.0, 0.0, 0.0]


def test_order_counts_inside_a_shingle() -> None:
    sets = shingle_sets(tokens([["a", "b"], ["b", "a"]]), 2, padded=False)
    assert jaccard(sets, np.array([0]), np.array([1])).tolist() == [0.0]


@settings(deadline=None)
@given(SEQUENCES, st.integers(1, 4))
def test_every_pair_is_as_alike_as_pythons_own_sets_say(
    sequences: list[list[str]], size: int
) -> None:
    sets = shingle_sets(tokens(sequences), size)
    own = [naive(s, size) for s in sequences]
    left, right = np.triu_indices(len(own))
    found = jaccard(sets, left, right)
    for i, j, value in zip(left, right, found, strict=True):
        together = len(own[i] | own[j])
        assert value == pytest.approx(len(own[i] & own[j]) / together if together else 0.0)


@settings(deadline=None)
@given(SEQUENCES, st.data())
def test_taking_sets_keeps_what_is_in_them(sequences: list[list[str]], data: st.DataObject) -> None:
    sets = shingle_sets(tokens(sequences), 2)
    places = data.draw(st.lists(st.sampled_from(range(len(sequences))), max_size=8))
    taken = sets.take(np.array(places, np.int64))
    assert contents(taken) == [contents(sets)[p] for p in places]
    assert (np.diff(taken.elements) > 0).all()


def contents(sets: ShingleSets) -> list[list[int]]:
    codes = sets.codes
    return [
        sorted(sets.hashes[codes[sets.offsets[i] : sets.offsets[i + 1]]].tolist())
        for i in range(len(sets))
    ]


def test_a_shingle_has_the_same_hash_whatever_stands_beside_it() -> None:
    alone = shingle_sets(tokens([A]), 2)
    among = shingle_sets(tokens([C, B, A, []]), 2)
    assert contents(alone)[0] == contents(among)[2]


def test_chunks_and_slices_of_columns_make_no_difference() -> None:
    whole = tokens([A, B, C])
    parts = pa.chunked_array([tokens([A]), tokens([C, B, C]).slice(1, 2)])
    assert contents(shingle_sets(whole, 2)) == contents(shingle_sets(parts, 2))


def test_spreading_is_one_to_one() -> None:
    values = np.arange(100_000, dtype=np.uint64)
    spread = mixed(values)
    assert len(np.unique(spread)) == 100_000
    assert len(np.unique(spread >> np.uint64(54))) == 1024
