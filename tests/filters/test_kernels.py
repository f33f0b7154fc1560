from __future__ import annotations

import numpy as np
import pytest

from trajstore.errors import SelectionError
from trajstore.filters.kernels import Cosine, Euclidean, Kernel, Mixed, Similarities, matrix_of

POINTS = np.random.default_rng(0).normal(size=(9, 4))
MATRIX = np.corrcoef(POINTS)

KERNELS: list[Kernel] = [
    Similarities(MATRIX),
    Cosine(POINTS),
    Euclidean(POINTS),
    Mixed(Cosine(POINTS), Similarities(MATRIX), 0.25),
]


def name(kernel: Kernel) -> str:
    return type(kernel).__name__


@pytest.mark.parametrize("kernel", KERNELS, ids=name)
def test_a_kernel_is_symmetric_and_its_blocks_agree(kernel: Kernel) -> None:
    whole = kernel.block(slice(None))
    assert whole.shape == (kernel.size, kernel.size)
    np.testing.assert_allclose(whole, whole.T)
    places = np.array([5, 0, 5])
    np.testing.assert_allclose(kernel.block(places, slice(2, 7)), whole[places][:, 2:7])
    np.testing.assert_allclose(kernel.block(slice(3, 4)), whole[3:4])


@pytest.mark.parametrize("kernel", KERNELS, ids=name)
def test_taking_items_takes_their_rows_and_columns(kernel: Kernel) -> None:
    places = np.array([7, 1, 4])
    whole = kernel.block(slice(None))
    np.testing.assert_allclose(
        kernel.take(places).block(slice(None)), whole[np.ix_(places, places)], atol=1e-12
    )


def test_cosines_are_cosines_and_a_vector_of_zeros_is_like_nothing() -> None:
    kernel = Cosine(np.array([[3.0, 0.0], [1.0, 1.0], [0.0, 0.0], [-2.0, 0.0]]))
    expected = [1, np.sqrt(0.5), 0, -1]
    np.testing.assert_allclose(kernel.block(slice(0, 1))[0], expected)
    assert kernel.block(slice(2, 3))[0].tolist() == [0, 0, 0, 0]


def test_distances_are_negative_and_exact_far_from_the_origin() -> None:
    kernel = Euclidean(np.array([[1e8, 0.0], [1e8 + 3, 4.0]]))
    assert kernel.block(slice(None)).tolist() == [[0, -5], [-5, 0]]


def test_a_mix_is_the_weighted_mean() -> None:
    """w * (1 - cos) + (1 - w) * (1 - seqsim) is 1 minus the mix."""
    cosines, other = Cosine(POINTS).block(slice(None)), MATRIX
    distance = 0.25 * (1 - cosines) + 0.75 * (1 - other)
    np.testing.assert_allclose(1 - KERNELS[3].block(slice(None)), distance, atol=1e-12)


def test_many_vectors_are_kept_in_single_precision() -> None:
    assert matrix_of(np.zeros((4096, 1))).dtype == np.float64
    assert matrix_of(np.zeros((4097, 1))).dtype == np.float32


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.zeros((2, 3)), "square matrix, not 2x3"),
        (np.zeros(4), "square matrix, not 4"),
        (np.array([[1.0, np.nan], [np.nan, 1.0]]), "not finite"),
        (np.array([[1.0, 0.5], [0.4, 1.0]]), "not symmetric"),
    ],
)
def test_similarities_that_are_none_are_refused(matrix: object, message: str) -> None:
    with pytest.raises(SelectionError, match=message):
        Similarities(matrix)  # type: ignore[arg-type]


def test_a_large_matrix_that_is_not_symmetric_is_found_out() -> None:
    with pytest.raises(SelectionError, match="not symmetric"):
        Similarities(np.random.default_rng(0).random((400, 400)))


@pytest.mark.parametrize(
    "vectors", [np.zeros(3), np.array([["a"]]), np.array([[1.0], [np.inf]])], ids=str
)
def test_vectors_that_are_none_are_refused(vectors: object) -> None:
    with pytest.raises(SelectionError, match=r"[Vv]ectors"):
        Cosine(vectors)  # type: ignore[arg-type]


def test_kernels_that_do_not_fit_together_are_refused() -> None:
    with pytest.raises(SelectionError, match="not 9 and 2"):
        Mixed(Cosine(POINTS), Cosine(POINTS[:2]))
    with pytest.raises(SelectionError, match="from 0 to 1, not 2"):
        Mixed(Cosine(POINTS), Cosine(POINTS), 2)
