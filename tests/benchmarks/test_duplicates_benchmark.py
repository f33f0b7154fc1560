"""The benchmark of near-duplicates: a truth that is one, and sides that agree with it."""

from __future__ import annotations

import itertools

import pytest

from benchmarks import duplicates
from benchmarks.duplicates import (
    FROM_ACTIONS,
    FROM_SETS,
    THRESHOLD,
    by_trajstore,
    hashed,
    in_arrow,
    main,
    measure,
    quality,
    runs_of_actions,
    shingles,
    true_pairs,
)

pytest.importorskip("numpy")


def test_the_truth_is_what_all_pairs_of_sets_give() -> None:
    sets = [set(s) for s in shingles(runs_of_actions(200))]
    expected = {
        (i, j)
        for i, j in itertools.combinations(range(200), 2)
        if len(sets[i] & sets[j]) >= THRESHOLD * len(sets[i] | sets[j])
    }
    assert len(expected) > 20
    assert true_pairs([list(s) for s in sets]) == expected


def test_trajstore_finds_all_pairs_of_two_thousand_runs_and_no_other() -> None:
    runs = runs_of_actions(2000, seed=1)
    assert by_trajstore(hashed(in_arrow(runs))) == true_pairs(shingles(runs))


@pytest.mark.parametrize("peer", ["datasketch", "rensa"])
def test_a_peer_finds_them_too(peer: str) -> None:
    pytest.importorskip(peer)
    sets = shingles(runs_of_actions(500))
    found, truth = duplicates.PEERS[peer](sets), true_pairs(sets)
    assert found <= truth
    assert len(found) > 0.99 * len(truth)


def test_what_is_missed_or_wrong_is_told() -> None:
    assert quality({(0, 1), (2, 3)}, {(0, 1)}) == "1 of 1 pairs, recall 1.0000, precision 0.5000"
    assert quality(set(), set()) == "0 of 0 pairs, recall 1.0000, precision 1.0000"


def test_every_work_has_a_row_of_trajstore_with_its_quality() -> None:
    rows = measure(100, repeats=2, peers=[])
    assert [(r.work, r.store, len(r.runs)) for r in rows] == [
        (FROM_ACTIONS, "trajstore", 2),
        (FROM_SETS, "trajstore", 2),
    ]
    assert all("recall 1.0000, precision 1.0000" in r.note for r in rows)


def test_the_command_line_says_who_is_not_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(duplicates.importlib.util, "find_spec", lambda _: None)
    assert main(["--runs", "60", "--repeats", "1"]) == 0
    shown = capsys.readouterr()
    assert "not measured: rensa is not installed" in shown.err
    assert "bands 34, rows 4" in shown.out
