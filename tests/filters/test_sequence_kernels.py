from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.filters.test_strategies import A, B, C
from trajstore.filters import sequence_kernels
from trajstore.filters.sequence_kernels import Bigrams, Edits
from trajstore.filters.strategies import bigram_similarity, edit_similarity

SEQUENCES = st.lists(st.lists(st.sampled_from("abcd"), max_size=6), min_size=1, max_size=8)


def listed(sequences: list[list[str]]) -> pa.Array:
    return pa.array(sequences, pa.list_(pa.string()))


def test_the_worked_example_of_both_measures() -> None:
    bigrams = Bigrams(listed([A, B, C])).block(slice(None))
    np.testing.assert_allclose(bigrams[[0, 0, 1], [1, 2, 2]], [0.8571, 0.3333, 0.3], atol=5e-5)
    edits = Edits(listed([A, B, C])).block(slice(None))
    np.testing.assert_allclose(edits[[0, 0, 1], [1, 2, 2]], [0.8333, 0.6, 0.5], atol=5e-5)


@settings(max_examples=80, deadline=None)
@given(SEQUENCES)
def test_bigrams_are_what_sets_in_python_give(sequences: list[list[str]]) -> None:
    expected = [[bigram_similarity(a, b) for b in sequences] for a in sequences]
    found = Bigrams(listed(sequences)).block(slice(None))
    np.testing.assert_allclose(found, expected, atol=1e-6)


@settings(max_examples=80, deadline=None)
@given(SEQUENCES)
def test_edits_are_what_levenshtein_in_python_gives(sequences: list[list[str]]) -> None:
    expected = [[edit_similarity(a, b) for b in sequences] for a in sequences]
    np.testing.assert_allclose(Edits(listed(sequences)).block(slice(None)), expected)


@pytest.mark.parametrize("kind", [Bigrams, Edits])
def test_blocks_and_parts_agree_with_the_whole(kind: type[Bigrams | Edits]) -> None:
    kernel = kind(listed([A, B, C, [], ["ask"], A]))
    whole = kernel.block(slice(None))
    places = np.array([4, 0, 3])
    np.testing.assert_allclose(kernel.block(places, slice(1, 4)), whole[places][:, 1:4])
    part = kernel.take(places)
    np.testing.assert_allclose(part.block(slice(None)), whole[np.ix_(places, places)])


def test_lists_of_a_large_vocabulary_count_like_the_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(3)
    sequences = [[str(w) for w in draw.integers(0, 9, draw.integers(0, 12))] for _ in range(40)]
    dense = Bigrams(listed(sequences)).block(slice(None), slice(5, 30))
    monkeypatch.setattr(sequence_kernels, "_DENSE", 3)
    lists = Bigrams(listed(sequences)).block(slice(None), slice(5, 30))
    np.testing.assert_array_equal(lists, dense)


def test_null_counts_as_empty() -> None:
    words = pa.array([None, [], ["a"]], pa.list_(pa.string()))
    for kernel in (Bigrams(words), Edits(words)):
        assert kernel.block(slice(0, 1))[0].tolist() == [1.0, 1.0, 0.0]


def test_a_slice_of_an_array_is_read_where_it_begins() -> None:
    words = listed([["x"] * 9, A, B, C]).slice(1)
    np.testing.assert_allclose(
        Bigrams(words).block(slice(None)), Bigrams(listed([A, B, C])).block(slice(None))
    )
    np.testing.assert_allclose(
        Edits(words).block(slice(None)), Edits(listed([A, B, C])).block(slice(None))
    )


def test_keys_are_equal_just_where_the_bigrams_are() -> None:
    sequences = [A, B, ["a", "a"], ["a", "a", "a"], ["a", "a", "a", "a"], [], [], ["a"]]
    keys = Bigrams(listed(sequences)).keys()
    alike = Bigrams(listed(sequences)).block(slice(None)) == 1.0
    np.testing.assert_array_equal(keys[:, None] == keys, alike)


def test_a_profile_holds_the_most_frequent_bigrams_at_length_1(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernel = Bigrams(listed([["a"], ["a", "b"], ["a", "c"]]))
    np.testing.assert_allclose(np.linalg.norm(kernel.vectors(), axis=1), 1)
    monkeypatch.setattr(sequence_kernels, "_MOST_COLUMNS", 1)
    assert kernel.vectors().tolist() == [[1.0]] * 3
