"""The benchmark of diversity: sides that reach one value, and a complaint where they do not."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import diversity
from benchmarks.diversity import (
    FROM_MATRIX,
    FROM_VECTORS,
    MODULES,
    STOCHASTIC,
    WITHOUT_ROOM,
    installed,
    main,
    measure,
    points,
    value,
)
from benchmarks.measure import DisagreementError

pytestmark = pytest.mark.filterwarnings("ignore")  # what the peers' packages say is not ours


def test_points_are_unit_vectors_and_the_same_every_time() -> None:
    found = points(50, 8)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, rtol=1e-6)
    np.testing.assert_array_equal(found, points(50, 8))


def test_the_value_is_the_definition() -> None:
    vectors = points(60, 8)
    cosines = np.maximum(vectors.astype(np.float64) @ vectors.T, 0)
    assert value(vectors, [3, 40]) == pytest.approx(cosines[:, [3, 40]].max(axis=1).sum())


def test_every_way_of_trajstore_is_measured_and_told() -> None:
    rows = measure(200, 8, dimension=8, repeats=2, tight=True)
    assert [(r.work, r.store, len(r.runs)) for r in rows] == [
        (FROM_MATRIX, "trajstore", 2),
        (FROM_MATRIX, STOCHASTIC, 2),
        (FROM_VECTORS, "trajstore", 2),
        (FROM_VECTORS, WITHOUT_ROOM, 2),
    ]
    assert all("1.0000 of trajstore's" in r.note for r in rows if r.store != STOCHASTIC)


@pytest.mark.parametrize("peer", MODULES)
def test_a_peer_reaches_the_same_value(peer: str) -> None:
    pytest.importorskip(MODULES[peer])
    rows = measure(200, 8, dimension=8, repeats=1, peers=[peer])
    assert sum(r.store == peer for r in rows) == 2


def test_sides_that_disagree_stop_the_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(diversity._SIDES, "submodlib", lambda _, k: range(k))
    with pytest.raises(DisagreementError, match="picks of value"):
        measure(200, 8, dimension=8, repeats=1, peers=["submodlib"])


def test_a_peer_that_is_missing_is_named_with_its_package() -> None:
    here, lines = installed()
    assert len(here) + len(lines) == len(MODULES)
    assert all("pip install" in line for line in lines)


def test_the_command_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--n", "120", "--k", "5", "--dimension", "8", "--repeats", "1"]
    assert main(asked) == 0
    assert "### facility location from similarities, CPU" in capsys.readouterr().out
