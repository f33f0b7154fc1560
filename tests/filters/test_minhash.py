"""The chance that MinHash proposes a pair: the published curve, and what really happens."""

from __future__ import annotations

import math

import pytest

from tests.filters.test_shingles import tokens
from trajstore.errors import SelectionError
from trajstore.filters import minhash
from trajstore.filters.minhash import Bands, Buckets, buckets, choose_bands
from trajstore.filters.shingles import shingle_sets

np = pytest.importorskip("numpy")

CURVES = [
    ((14, 9), [0.0270, 0.1322, 0.4382, 0.8670, 0.9990]),
    ((25, 5), [0.5478, 0.8678, 0.9899, 1.0, 1.0]),
    ((32, 4), [0.8732, 0.9882, 0.9998, 1.0, 1.0]),
]


@pytest.mark.parametrize(("shape", "curve"), CURVES)
def test_the_curve_is_the_published_one(shape: tuple[int, int], curve: list[float]) -> None:
    """Numbers of algorithms.md B2 for similarities .5 to .9; case 25 asks to show them."""
    chances = [Bands(*shape).chance(s) for s in (0.5, 0.6, 0.7, 0.8, 0.9)]
    assert chances == pytest.approx(curve, abs=6e-5)


def test_the_curve_can_be_printed() -> None:
    """Case 25."""
    assert Bands(14, 9).curve((0.7,)) == "bands 14, rows 9: 0.7 -> 0.4382"


@pytest.mark.parametrize("threshold", [0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95])
def test_the_bands_chosen_find_pairs_at_the_threshold(threshold: float) -> None:
    chosen = choose_bands(threshold)
    assert chosen.chance(threshold) >= 0.9999
    assert chosen.bands * chosen.rows <= 160
    assert Bands(max(1, chosen.bands - 1), chosen.rows).chance(threshold) < 0.9999


def test_one_row_more_would_not_fit() -> None:
    rows = choose_bands(0.7).rows + 1
    needed = math.ceil(math.log(1e-4) / math.log(1 - 0.7**rows))
    assert needed * rows > 160


def test_at_threshold_1_one_band_is_enough() -> None:
    assert choose_bands(1.0).bands == 1


def test_a_threshold_too_low_for_the_hashes_is_refused() -> None:
    with pytest.raises(SelectionError, match="raise the threshold"):
        choose_bands(0.01)


@pytest.mark.parametrize("threshold", [0.0, -0.5, 1.5])
def test_a_threshold_outside_0_to_1_is_refused(threshold: float) -> None:
    with pytest.raises(SelectionError, match="threshold"):
        choose_bands(threshold)


def test_bands_without_rows_are_refused() -> None:
    with pytest.raises(SelectionError, match="at least 1 band and 1 row"):
        Bands(3, 0)


@pytest.mark.parametrize(
    ("shape", "expected"), [((14, 9), 0.4382), ((25, 5), 0.9899), ((8, 9), 0.2807)]
)
def test_pairs_at_similarity_7_are_proposed_as_often_as_the_curve_says(
    shape: tuple[int, int], expected: float
) -> None:
    """3000 pairs of sets that share 70 of 100; the standard error is below 0.0091."""
    sequences = []
    for pair in range(3000):
        common = [f"{pair} {i}" for i in range(70)]
        sequences += [common + [f"{pair} {side} {i}" for i in range(15)] for side in "ab"]
    sets = shingle_sets(tokens(sequences), 1)
    scope = np.repeat(np.arange(3000), 2)
    found = buckets(sets, Bands(*shape), scope=scope)
    share = len(np.unique(found.member)) / 6000
    assert share == pytest.approx(expected, abs=0.028)


def test_only_sets_of_one_scope_share_a_bucket() -> None:
    sets = shingle_sets(tokens([["a"], ["a"], ["a"]]), 2)
    found = buckets(sets, Bands(4, 2), scope=np.array([7, 8, 7]))
    assert set(found.member.tolist()) == {0, 2}


def test_empty_sets_are_in_no_bucket() -> None:
    sets = shingle_sets(tokens([[], [], ["a"], ["a"]]), 2)
    assert set(buckets(sets, Bands(3, 1)).member.tolist()) == {2, 3}


def test_no_set_at_all_gives_no_bucket() -> None:
    found = buckets(shingle_sets(tokens([]), 2), Bands(3, 2))
    assert len(found.member) == 0
    assert list(found.pairs()) == []


def test_what_shares_a_bucket_does_not_depend_on_the_others() -> None:
    draw = np.random.default_rng(5)
    sequences = [[f"t{x}" for x in draw.integers(0, 6, 5)] for _ in range(60)]
    bands = Bands(6, 2)
    alone = pairs(buckets(shingle_sets(tokens(sequences[:30]), 2), bands))
    among = pairs(buckets(shingle_sets(tokens(sequences[::-1]), 2), bands))
    back = {tuple(sorted((59 - a, 59 - b))) for a, b in among}
    assert alone
    assert {p for p in back if p[1] < 30} == alone


def test_another_seed_draws_other_hashes() -> None:
    draw = np.random.default_rng(6)
    sets = shingle_sets(tokens([[f"t{x}" for x in draw.integers(0, 9, 5)] for _ in range(80)]), 2)
    found = [pairs(buckets(sets, Bands(3, 2), seed=seed)) for seed in (0, 1)]
    assert found[0] != found[1]
    assert found[0] == pairs(buckets(sets, Bands(3, 2), seed=0))


def test_pairs_of_a_bucket_are_all_of_them() -> None:
    found = Buckets(np.array([1, 1, 1, 4, 4]), np.array([2, 5, 9, 0, 5]))
    assert pairs(found) == {(2, 5), (2, 9), (5, 9), (0, 5)}


def test_taking_sets_out_removes_buckets_of_one() -> None:
    found = Buckets(np.array([1, 1, 1, 4, 4]), np.array([2, 5, 9, 0, 5]))
    mask = np.zeros(10, bool)
    mask[5] = True
    left = found.without(mask)
    assert (left.bucket.tolist(), left.member.tolist()) == ([1, 1], [2, 9])


def pairs(found: Buckets) -> set[tuple[int, int]]:
    return {
        (int(a), int(b)) for left, right in found.pairs() for a, b in zip(left, right, strict=True)
    }


def test_working_in_portions_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(7)
    sets = shingle_sets(tokens([[f"t{x}" for x in draw.integers(0, 6, 5)] for _ in range(700)]), 2)
    whole = buckets(sets, Bands(7, 2))
    monkeypatch.setattr(minhash, "_BYTES_OF_KEYS", 8 * 700 * 2)
    monkeypatch.setattr(minhash, "_SETS_AT_ONCE", 100)
    parts = buckets(sets, Bands(7, 2))
    assert len(whole.member) > 100
    assert (parts.member == whole.member).all()
    assert (parts.bucket == whole.bucket).all()
