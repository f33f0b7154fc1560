"""Goals in one form, and their words."""

from __future__ import annotations

import hashlib

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trajstore.filters.goals import normalised, words


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("Fix the BUG", "fix the bug"),
        ("  fix\n\tthe \u00a0 bug ", "fix the bug"),
        ("\uff26\uff49\uff58 the bug", "fix the bug"),
        ("Cafe\u0301", "caf\u00e9"),
        ("fix the bug.", "fix the bug."),
        (" \n", None),
        ("", None),
        (None, None),
    ],
)
def test_a_goal_has_one_form(text: str | None, form: str | None) -> None:
    assert normalised(pa.array([text], pa.string())).to_pylist() == [form]


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=("Cs",)), max_size=20))
def test_the_form_of_a_form_is_itself(text: str) -> None:
    once = normalised(pa.array([text], pa.string()))
    assert normalised(once).to_pylist() == once.to_pylist()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("fix the bug, in 'parse_date' (no. 7)!", "fix the bug in parse date no 7"),
        ("na\u00efve \u2014 caf\u00e9", "na\u00efve caf\u00e9"),
        ("\u4fee\u590d bug", "\u4fee \u590d bug"),
        ("?!", ""),
        (None, ""),
    ],
)
def test_words_are_letters_and_digits(text: str | None, expected: str) -> None:
    assert words(pa.array([text], pa.string()))["words"].to_pylist() == [expected.split()]


def test_each_word_has_its_hash() -> None:
    (hashes,) = words(pa.array(["a b a"]))["hashes"].to_pylist()
    expected = int.from_bytes(hashlib.md5(b"a").digest()[8:], "little")
    assert hashes[0] == hashes[2] == expected != hashes[1]


def test_words_come_in_the_order_of_the_texts() -> None:
    texts = pa.array([f"w{n}" for n in range(5000)])
    assert words(texts)["words"].to_pylist() == [[f"w{n}"] for n in range(5000)]
