"""Representatives by cosine, against the published worked example and plain loops."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trajstore.errors import SelectionError
from trajstore.filters import cosine
from trajstore.filters.cosine import cosine_representatives, unit_vectors

np = pytest.importorskip("numpy")

ORACLE = [[1, 0], [0.999, 0.0447], [0.8, 0.6], [0.78, 0.6258], [0, 1]]
ANGLES = st.lists(st.integers(0, 35), min_size=1, max_size=10)


def all_of(vectors: Any) -> Any:
    return np.ones(len(vectors), bool)


def oracle() -> Any:
    return unit_vectors(pa.array(ORACLE, pa.list_(pa.float64())), "e")[0]


def test_semdedup_keeps_what_was_worked_out() -> None:
    """algorithms.md B2, eps .05: order 4, 0, 1, 3, 2; keep 0, 3 and 4."""
    vectors = oracle()
    chosen, similarity = cosine_representatives(
        vectors, 0.95, has_vector=all_of(vectors), far_first=True
    )
    assert chosen.tolist() == [0, 0, 3, 3, 4]
    assert similarity[[1, 2]].tolist() == pytest.approx([0.999, 0.9995], abs=5e-5)


def test_without_its_order_the_first_is_kept() -> None:
    vectors = oracle()
    chosen, _ = cosine_representatives(vectors, 0.95, has_vector=all_of(vectors))
    assert chosen.tolist() == [0, 0, 2, 2, 4]


def test_a_vector_goes_only_because_of_one_that_is_kept() -> None:
    """Vector 3 has .8072 to vector 1, which went because of 0, and .78 to 0 itself."""
    vectors = oracle()
    for threshold, kept in ((0.8, 3), (0.785, 3), (0.775, 2)):
        chosen, _ = cosine_representatives(
            vectors, threshold, has_vector=all_of(vectors), far_first=True
        )
        assert len(set(chosen.tolist())) == kept


def around(degrees: list[int]) -> Any:
    turns = np.radians(np.array(degrees, float) * 10)
    return np.stack([np.cos(turns), np.sin(turns)], axis=1).astype(np.float32)


@settings(deadline=None)
@given(ANGLES, st.sampled_from([15, 25, 95]), st.data())
def test_who_is_kept_is_who_a_plain_loop_keeps(
    angles: list[int], reach: int, data: st.DataObject
) -> None:
    """Vectors every 10 degrees; those at most ``reach`` degrees apart are alike."""
    flags = st.lists(st.booleans(), min_size=len(angles), max_size=len(angles))
    there, scope = data.draw(flags), data.draw(flags)
    kept: list[int] = []
    expected = []
    for at, angle in enumerate(angles):
        apart = [(abs(angle - angles[k]) * 10, k) for k in kept if scope[k] == scope[at]]
        alike = [k for d, k in apart if min(d, 360 - d) <= reach] if there[at] else []
        if not alike and there[at]:
            kept.append(at)
        expected.append(alike[0] if alike else at)
    chosen, _ = cosine_representatives(
        around(angles),
        float(np.cos(np.radians(reach))),
        has_vector=np.array(there),
        scope=np.array(scope, np.int64),
    )
    assert chosen.tolist() == expected


def clouds(count: int, size: int, seed: int) -> Any:
    """Vectors in clouds of ``size`` that are alike at .98 inside, in random order."""
    draw = np.random.default_rng(seed)
    centres = np.repeat(draw.normal(size=(count, 32)), size, axis=0)
    vectors = centres + 0.05 * draw.normal(size=centres.shape)
    draw.shuffle(vectors)
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def test_across_many_blocks_one_of_each_cloud_is_kept() -> None:
    vectors = clouds(count=700, size=5, seed=1)
    chosen, similarity = cosine_representatives(vectors, 0.95, has_vector=all_of(vectors))
    assert len(np.unique(chosen)) == 700
    assert (chosen <= np.arange(len(vectors))).all()
    assert similarity.min() >= 0.95 - 1e-6


def test_cells_find_what_all_pairs_find(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = clouds(count=700, size=5, seed=2)
    exact, _ = cosine_representatives(vectors, 0.95, has_vector=all_of(vectors))
    monkeypatch.setattr(cosine, "_EXACT", 100)
    chosen, similarity = cosine_representatives(vectors, 0.95, has_vector=all_of(vectors))
    assert (chosen[chosen] == chosen).all()
    gone = chosen != np.arange(len(vectors))
    assert gone.sum() == (exact != np.arange(len(vectors))).sum()
    assert similarity[gone].min() > 0.9


def test_cells_miss_little_at_their_borders(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pairs at any distance; the next nearest cell finds what the own one cannot."""
    draw = np.random.default_rng(3)
    base = draw.normal(size=(1500, 24))
    vectors = np.concatenate([base, base + draw.normal(size=base.shape) * 0.25])
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    exact, _ = cosine_representatives(vectors, 0.95, has_vector=all_of(vectors))
    monkeypatch.setattr(cosine, "_EXACT", 100)
    chosen, _ = cosine_representatives(vectors, 0.95, has_vector=all_of(vectors), far_first=False)
    found, all_ = (int((c != np.arange(len(c))).sum()) for c in (chosen, exact))
    assert 200 < 0.97 * all_ <= found <= all_


def test_far_first_works_in_cells_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cosine, "_EXACT", 100)
    vectors = clouds(count=300, size=4, seed=4)
    chosen, _ = cosine_representatives(vectors, 0.95, has_vector=all_of(vectors), far_first=True)
    assert len(np.unique(chosen)) == 300


def test_equal_vectors_are_alike_at_1() -> None:
    vectors = clouds(count=50, size=1, seed=5)
    twice = np.concatenate([vectors, vectors])
    chosen, _ = cosine_representatives(twice, 1.0, has_vector=all_of(twice))
    assert chosen.tolist() == [*range(50), *range(50)]


def test_vectors_get_length_1_and_none_stays_none() -> None:
    column = pa.array([[3.0, 4.0], None, [0.0, 0.0]], pa.list_(pa.float32()))
    matrix, there = unit_vectors(column, "e")
    assert matrix[0].tolist() == pytest.approx([0.6, 0.8])
    assert there.tolist() == [True, False, False]


@pytest.mark.parametrize(
    "type_", [pa.list_(pa.float64()), pa.list_(pa.float16(), 2), pa.list_(pa.int32())]
)
def test_all_kinds_of_vector_columns_are_read(type_: pa.DataType) -> None:
    column = pa.chunked_array([pa.array([[1, 0], [0, 2]], pa.list_(pa.float64())).cast(type_)])
    assert unit_vectors(column, "e")[0].tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array([[1.0], [1.0, 2.0]]), "several lengths, such as 1 and 2"),
        (pa.array(["x"]), "should hold lists of numbers, not string"),
        (pa.array([["x"]]), "should hold lists of numbers"),
        (pa.array([[float("nan")]]), "not finite"),
    ],
)
def test_columns_that_hold_no_vectors_are_refused(column: pa.Array, message: str) -> None:
    with pytest.raises(SelectionError, match=message):
        unit_vectors(column, "e")


def test_no_vectors_at_all() -> None:
    vectors, there = unit_vectors(pa.array([None, None], pa.list_(pa.float32())), "e")
    assert cosine_representatives(vectors, 0.9, has_vector=there)[0].tolist() == [0, 1]


def test_comparing_in_blocks_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = clouds(count=60, size=4, seed=6)
    whole = cosine_representatives(vectors, 0.95, has_vector=all_of(vectors))[0]
    monkeypatch.setattr(cosine, "_BLOCK", 16)
    parts = cosine_representatives(vectors, 0.95, has_vector=all_of(vectors))[0]
    assert (whole == parts).all()
