from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 5), min_size=1),
    st.lists(st.tuples(st.booleans(), st.integers(0, 4)), max_size=12),
    st.integers(1, 3),
)
def test_no_run_is_used_more_often_than_allowed_and_every_use_is_counted(
    versions: dict[str, int], calls: list[tuple[bool, int]], most: int
) -> None:
    replay = Replay(versions, most_uses=most)
    given_out: list[str] = []
    for delivers, n in calls:
        expected = replay.ahead(n)
        if delivers:
            assert replay.deliver(n) == expected
            given_out += expected
    assert all(replay.uses(i) == given_out.count(i) <= most for i in versions)
