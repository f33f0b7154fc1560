"""Pairs above a threshold and representatives, against plain loops over Python's sets."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.filters.test_shingles import naive, tokens
from trajstore.filters import similar
from trajstore.filters.minhash import Bands, choose_bands
from trajstore.filters.shingles import shingle_sets
from trajstore.filters.similar import representatives, similar_pairs

np = pytest.importorskip("numpy")

SURE = Bands(80, 1)
"""Finds pairs at 0.4 with a chance of 1 - 2e-18, so that a plain loop must agree."""

SEQUENCES = st.lists(st.lists(st.sampled_from("abc"), max_size=8), max_size=9)
THRESHOLDS = st.sampled_from([0.4, 0.5, 2 / 3, 0.75, 1.0])


def likeness(one: Sequence[str], other: Sequence[str]) -> float:
    a, b = naive(one, 2), naive(other, 2)
    return len(a & b) / len(a | b) if a and b else 0.0


def loop(sequences: list[list[str]], threshold: float, scope: list[int]) -> list[list[int]]:
    """For each the kept ones before it that are like it, itself where there are none."""
    kept: list[int] = []
    chosen = []
    for at, sequence in enumerate(sequences):
        alike = [
            k
            for k in kept
            if scope[k] == scope[at] and likeness(sequences[k], sequence) >= threshold - 1e-12
        ]
        if not alike:
            kept.append(at)
        chosen.append(alike or [at])
    return chosen


@settings(deadline=None)
@given(SEQUENCES, THRESHOLDS)
def test_all_pairs_and_no_others_are_found(sequences: list[list[str]], threshold: float) -> None:
    sets = shingle_sets(tokens(sequences), 2)
    left, right, similarity = similar_pairs(sets, threshold, bands=SURE)
    expected = {
        (i, j): likeness(sequences[i], sequences[j])
        for j in range(len(sequences))
        for i in range(j)
        if likeness(sequences[i], sequences[j]) >= threshold - 1e-12
    }
    found = dict(zip(zip(left.tolist(), right.tolist(), strict=True), similarity, strict=True))
    assert found == pytest.approx(expected)
    assert list(found) == sorted(found)


@settings(deadline=None)
@given(SEQUENCES, THRESHOLDS, st.data())
def test_who_is_kept_is_who_a_plain_loop_keeps(
    sequences: list[list[str]], threshold: float, data: st.DataObject
) -> None:
    scope = data.draw(st.lists(st.integers(0, 1), min_size=len(sequences), max_size=len(sequences)))
    sets = shingle_sets(tokens(sequences), 2)
    chosen, similarity = representatives(
        sets, threshold, bands=SURE, scope=np.array(scope, np.int64)
    )
    expected = loop(sequences, threshold, scope)
    for at, (number, like) in enumerate(zip(chosen.tolist(), similarity, strict=True)):
        assert number in expected[at]
        alone = number == at
        assert like == pytest.approx(1.0 if alone else likeness(sequences[number], sequences[at]))


def test_a_chain_of_small_steps_is_not_one_cluster() -> None:
    """3 of 4, 4 of 5 and 5 of 7 bigrams from one to the next, but 3 of 5 from first to third."""
    sequences = ["abcd", "abcde", "abcdef", "abcdefgh"]
    sets = shingle_sets(tokens([list(s) for s in sequences]), 2, padded=False)
    chosen, _ = representatives(sets, 0.7, bands=SURE)
    assert chosen.tolist() == [0, 0, 2, 2]


def test_whoever_goes_is_like_the_one_that_stays() -> None:
    sets = shingle_sets(tokens(mutants(400, seed=1)), 2)
    chosen, similarity = representatives(sets, 0.7)
    gone = np.flatnonzero(chosen != np.arange(len(sets)))
    assert len(gone) > 50
    assert (similarity[gone] >= 0.7 - 1e-12).all()
    assert (chosen[chosen] == chosen).all()


def test_who_stays_is_like_nobody_before_it_that_stays() -> None:
    sets = shingle_sets(tokens(mutants(400, seed=2)), 2)
    chosen, _ = representatives(sets, 0.7)
    stays = np.flatnonzero(chosen == np.arange(len(sets)))
    left, _, _ = similar_pairs(sets.take(stays), 0.7)
    assert len(left) == 0


def mutants(count: int, seed: int) -> list[list[str]]:
    """Runs of 5 to 30 actions, half of them copies of another with a few actions changed."""
    draw = random.Random(seed)
    runs: list[list[str]] = []
    while len(runs) < count:
        base = [f"t{draw.randrange(4000)}" for _ in range(draw.randint(5, 30))]
        runs.append(base)
        for _ in range(draw.choice((0, 0, 1, 3))):
            copy = list(base)
            for _ in range(draw.randint(0, 4)):
                copy[draw.randrange(len(copy))] = f"t{draw.randrange(4000)}"
            runs.append(copy)
    return runs[:count]


@pytest.mark.parametrize("threshold", [0.5, 0.7, 0.9])
def test_with_the_bands_chosen_all_pairs_are_found(threshold: float) -> None:
    runs = mutants(1500, seed=3)
    sets = shingle_sets(tokens(runs), 2)
    left, right, _ = similar_pairs(sets, threshold)
    owners: dict[tuple[str, ...], list[int]] = {}
    grams = [naive(r, 2) for r in runs]
    for at, own in enumerate(grams):
        for gram in own:
            owners.setdefault(gram, []).append(at)
    near = {(i, j) for at in owners.values() for j in at for i in at if i < j}
    expected = {
        (i, j) for i, j in near if len(grams[i] & grams[j]) >= threshold * len(grams[i] | grams[j])
    }
    assert len(expected) > 150
    assert set(zip(left.tolist(), right.tolist(), strict=True)) == expected


def test_bands_for_another_threshold_miss_pairs() -> None:
    """datasketch's own choice at .7 with 128 hashes, 14 bands of 9, finds 44 % there."""
    sets = shingle_sets(tokens(mutants(1500, seed=3)), 2)
    sure, _, similarity = similar_pairs(sets, 0.7)
    rare, _, _ = similar_pairs(sets, 0.7, bands=Bands(14, 9))
    at_threshold = ((similarity >= 0.7) & (similarity < 0.75)).sum()
    assert at_threshold > 20
    assert len(sure) - len(rare) > 0.2 * at_threshold


def test_a_thousand_equal_runs_cost_no_million_pairs() -> None:
    same = [["search", "open"]] * 1000 + [["ls"]]
    chosen, similarity = representatives(shingle_sets(tokens(same), 2), 0.7)
    assert set(chosen[:1000].tolist()) == {0}
    assert chosen[1000] == 1000
    assert (similarity == 1.0).all()


def test_equal_sets_follow_their_twin_to_its_representative() -> None:
    one, two = list("abcdefgh"), list("abcdefghi")
    chosen, similarity = representatives(
        shingle_sets(tokens([one, two, two]), 2, padded=False), 0.8, bands=SURE
    )
    assert chosen.tolist() == [0, 0, 0]
    assert similarity.tolist() == pytest.approx([1.0, 7 / 8, 7 / 8])


def test_a_pair_exactly_at_the_threshold_is_in() -> None:
    sets = shingle_sets(tokens([list("abcd"), list("abcde")]), 1)
    assert len(similar_pairs(sets, 0.8, bands=SURE)[0]) == 1
    assert len(similar_pairs(sets, 0.8001, bands=SURE)[0]) == 0


def test_only_pairs_that_are_apart_are_looked_for() -> None:
    sets = shingle_sets(tokens([["a"], ["a"], ["a"]]), 2)
    left, right, _ = similar_pairs(sets, 1.0, apart=np.array([0, 0, 1]))
    assert list(zip(left.tolist(), right.tolist(), strict=True)) == [(0, 2), (1, 2)]


def test_nothing_in_nothing_out() -> None:
    sets = shingle_sets(tokens([]), 2)
    assert [len(x) for x in similar_pairs(sets, 0.7)] == [0, 0, 0]
    assert [len(x) for x in representatives(sets, 0.7)] == [0, 0]


def test_long_sets_are_compared_exactly_too() -> None:
    """Sets of 3000 fill any bitmap; 2400 of 3600 is 2/3."""
    common = [f"c{i}" for i in range(2400)]
    runs = [common + [f"{side}{i}" for i in range(600)] for side in "ab"]
    sets = shingle_sets(tokens(runs), 1)
    assert len(similar_pairs(sets, 2 / 3)[0]) == 1
    assert len(similar_pairs(sets, 0.667)[0]) == 0


def test_the_choice_of_bands_is_the_one_for_the_threshold() -> None:
    sets = shingle_sets(tokens(mutants(300, seed=4)), 2)
    by_default = representatives(sets, 0.7)[0]
    by_hand = representatives(sets, 0.7, bands=choose_bands(0.7))[0]
    assert (by_default == by_hand).all()


def test_comparing_in_portions_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    sets = shingle_sets(tokens(mutants(600, seed=5)), 2)
    whole = (*similar_pairs(sets, 0.6), *representatives(sets, 0.6))
    monkeypatch.setattr(similar, "_PAIRS_AT_ONCE", 7)
    parts = (*similar_pairs(sets, 0.6), *representatives(sets, 0.6))
    assert len(whole[0]) > 50
    assert all((a == b).all() for a, b in zip(whole, parts, strict=True))


def test_what_is_kept_depends_on_the_order_of_preference_alone() -> None:
    """Turned round, a chain is cut from its other end: 6 of 10 pairs reach one link further."""
    chain = [list("abcdefghij"[: n + 5]) for n in range(4)]
    straight = representatives(shingle_sets(tokens(chain), 2), 0.6, bands=SURE)[0]
    turned = representatives(shingle_sets(tokens(chain[::-1]), 2), 0.6, bands=SURE)[0]
    assert straight.tolist() == [0, 0, 2, 2]
    assert turned.tolist() == [0, 0, 0, 3]
