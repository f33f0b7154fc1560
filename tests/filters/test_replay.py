from __future__ import annotations

import pytest

from trajstore.errors import SelectionError
from trajstore.filters.replay import Replay


def test_case_57_a_use_counts_on_delivery_and_not_on_reading_ahead() -> None:
    replay = Replay({"a": 3, "b": 2})
    assert [replay.ahead(1) for _ in range(5)] == [["a"]] * 5
    assert replay.uses("a") == 0
    assert replay.deliver(1) == ["a"]
    assert replay.uses("a") == 1


def test_case_57_the_priority_falls_with_every_use() -> None:
    """Versions 3 and 2, one version a use: a, then both have 2 and the smaller id comes first."""
    replay = Replay({"a": 3, "b": 2})
    assert [replay.deliver(1)[0] for _ in range(6)] == ["a", "a", "b", "a", "b", "a"]


def test_case_57_a_run_comes_back_only_under_its_use_limit() -> None:
    replay = Replay({"a": 9, "b": 1}, most_uses=2)
    given = [replay.deliver(2) for _ in range(3)]
    assert given == [["a", "b"], ["a", "b"], []]


def test_a_delivery_holds_each_run_once() -> None:
    assert Replay({"a": 1, "b": 1}, decay=0.0).deliver(5) == ["a", "b"]


def test_without_decay_the_freshest_are_served_for_ever() -> None:
    replay = Replay({"old": 1, "new": 2}, decay=0.0)
    assert [replay.deliver(1) for _ in range(3)] == [["new"]] * 3


def test_case_56_a_run_exactly_on_the_boundary_stays() -> None:
    """Current 10, window 4: version 6 stays, version 5 goes."""
    replay = Replay({"a": 6, "b": 5, "c": 10})
    assert replay.evict(current=10, most_staleness=4) == ["b"]
    assert replay.ahead(9) == ["c", "a"]


def test_runs_that_are_added_join_the_order_and_keep_their_uses() -> None:
    replay = Replay({"a": 1}, most_uses=1)
    replay.deliver(1)
    replay.add({"a": 1, "b": 5})
    assert replay.deliver(9) == ["b"]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [({"decay": -1.0}, "0 or more, not -1"), ({"most_uses": 0}, "at least once, not 0")],
)
def test_numbers_out_of_range_are_refused(parameters: dict[str, float], message: str) -> None:
    with pytest.raises(SelectionError, match=message):
        Replay({}, **parameters)  # type: ignore[arg-type]
