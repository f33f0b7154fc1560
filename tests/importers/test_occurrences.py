"""Keys for runs that have no id of their own."""

from __future__ import annotations

from trajstore.importers.occurrences import Occurrences


def test_equal_content_gets_a_number_each_time() -> None:
    same = Occurrences()
    first, other, second = same.key("a", 1), same.key("b", 1), same.key("a", 1)
    assert len({first, other, second}) == 3
    assert first.split("/")[0] == second.split("/")[0]


def test_two_readings_of_one_file_give_the_same_keys() -> None:
    once, again = Occurrences(), Occurrences()
    content = [["x"], ["y"], ["x"]]
    assert [once.key(c) for c in content] == [again.key(c) for c in content]


def test_null_and_empty_content_differ() -> None:
    same = Occurrences()
    assert same.key(None).split("/")[0] != same.key("").split("/")[0]
