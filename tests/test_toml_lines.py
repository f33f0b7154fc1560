"""Lines of keys in TOML; what ``tomllib`` reads is the oracle of which keys there are."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from typing import Any

import pytest

from trajstore._toml_lines import KeyPath, lines_of

EVERYTHING = '''\
# a comment with [brackets] and "quotes"
title = "x # no comment"
"quoted key" = 'c:\\dir' # behind
a.b . "c.d" = 1979-05-27 07:32:00
text = """
[not.a.table]
key = "inner"" \\
"""
more = \'\'\'
'' [[neither]]
quotes at the end\'\'\'\'\'

[split]
shares = { val = 0.1, test = [1, 2, { deep = true }] }

[[set]] # the first
name = "one"
  [[set.select]]
  stage = "top-n"
  n = 1
[[set.select]]
stage = "where"
condition = "a = ']' and b = '}'"
[set.options]
list = [
  "a",   # a remark, with a comma ]
  [ 1,
    2 ],
]

[[ set ]]
[ set . options ]
empty = {}
none = []
[[set.select]]
'''


def paths(value: Any, place: KeyPath = ()) -> Iterator[KeyPath]:
    if place:
        yield place
    items = value.items() if isinstance(value, dict) else ()
    for key, inner in enumerate(value) if isinstance(value, list) else items:
        yield from paths(inner, (*place, key))


def test_every_key_that_tomllib_reads_has_a_line() -> None:
    assert set(lines_of(EVERYTHING)) == set(paths(tomllib.loads(EVERYTHING)))


@pytest.mark.parametrize(
    ("place", "text"),
    [
        (("title",), "title = "),
        (("a", "b", "c.d"), "a.b"),
        (("more",), "more ="),
        (("split", "shares", "test", 2, "deep"), "shares ="),
        (("set", 0), "[[set]]"),
        (("set", 0, "select", 0, "n"), "  n = 1"),
        (("set", 0, "select", 1), "[[set.select]]"),
        (("set", 0, "options", "list", 1, 1), "    2 ],"),
        (("set", 1), "[[ set ]]"),
        (("set", 1, "options", "none"), "none ="),
        (("set", 1, "select", 0), "[[set.select]]"),
    ],
    ids=str,
)
def test_the_line_is_where_the_key_stands(place: KeyPath, text: str) -> None:
    line = lines_of(EVERYTHING)[place]
    assert EVERYTHING.splitlines()[line - 1].startswith(text)


def test_lines_count_from_one_and_windows_ends_do_not_matter() -> None:
    assert lines_of("a = 1\r\n\r\nb = [\r\n2]\r\n") == {("a",): 1, ("b",): 3, ("b", 0): 4}


def test_an_empty_document_has_no_keys() -> None:
    assert lines_of("\n# nothing\n") == {}
