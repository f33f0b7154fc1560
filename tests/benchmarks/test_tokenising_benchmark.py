"""The benchmark of tokenising: sides that give the same tokens and masks."""

from __future__ import annotations

import pytest

from benchmarks.measure import DisagreementError
from benchmarks.tokenising import TRL, Workload, agree, measure

pytest.importorskip("trl")
pytest.importorskip("datasets")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def workload(tmp_path_factory: pytest.TempPathFactory) -> Workload:
    return Workload(4, tmp_path_factory.mktemp("trl"), vocabulary=600)


def test_both_sides_give_the_same_tokens_and_masks(workload: Workload) -> None:
    rows = measure(workload, repeats=1)
    assert sorted(r.store for r in rows) == sorted([TRL, "trajstore"])


def test_another_mask_stops_the_benchmark(workload: Workload) -> None:
    theirs = workload.theirs()
    changed = theirs.map(lambda row: {"labels": [-100, *row["labels"][1:-1], 5]})
    with pytest.raises(DisagreementError, match="row 0 differs"):
        agree(workload.ours(), changed)
