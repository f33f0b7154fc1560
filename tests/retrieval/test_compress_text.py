"""A shortened text keeps its ends and its errors, and says what it lost."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajstore.errors import RetrievalError
from trajstore.retrieval import shorten
from trajstore.retrieval.compress_text import LEAST, RULES, Rule

LOG = "".join(f"line {n} of the log\n" for n in range(300))
MARK = re.compile(r"\[\.\.\. ([\d,]+) characters left out \.\.\.\]\n")


def test_both_ends_stay_and_the_mark_counts_what_is_gone() -> None:
    found = shorten(LOG, 400)
    first, gone, last = MARK.split(found)
    assert LOG.startswith(first)
    assert LOG.endswith(last)
    assert len(first) + int(gone.replace(",", "")) + len(last) == len(LOG)


@pytest.mark.parametrize(
    "error",
    [
        "ValueError: no such key",
        "FATAL: disk full",
        "1 failed, 3 passed",
        "bash: x: command not found",
    ],
)
@pytest.mark.parametrize("most", [LEAST, 500])
@pytest.mark.parametrize("rule", RULES)
def test_a_line_that_tells_of_an_error_stays(rule: Rule, error: str, most: int) -> None:
    text = f"{LOG[:3000]}\n{error}\n{LOG[3000:]}"
    found = shorten(text, most, rule=rule)
    assert len(found) <= most
    assert f"\n{error}\n" in found
    assert len(MARK.findall(found)) == 2


def test_the_last_errors_stay_where_there_are_many() -> None:
    text = LOG + "".join(f"error number {n}\n" for n in range(100)) + LOG
    kept = re.findall(r"error number (\d+)", shorten(text, 600))
    assert kept
    assert kept[-1] == "99"


@pytest.mark.parametrize(("rule", "ends"), [("head", (True, False)), ("tail", (False, True))])
def test_each_rule_keeps_the_end_it_names(rule: Rule, ends: tuple[bool, bool]) -> None:
    found = shorten(LOG, 500, rule=rule)
    assert ("line 0 of" in found, "line 299 of" in found) == ends


@given(
    st.text(st.sampled_from("ab \néerror:"), min_size=0, max_size=3000)
    | st.lists(st.sampled_from(["error: x", "ok", "y" * 300, ""]), max_size=60).map("\n".join),
    st.integers(LEAST, 900),
    st.sampled_from(list(RULES)),
)
def test_it_fits_and_nothing_is_lost_without_a_mark(text: str, most: int, rule: Rule) -> None:
    found = shorten(text, most, rule=rule)
    assert len(found) <= most or found == text
    parts = MARK.split(found)
    at = 0
    for n, part in enumerate(parts):
        if n % 2:
            at += int(part.replace(",", ""))
            continue
        kept = part if text.startswith(part, at) else part.removesuffix("\n")
        assert text.startswith(kept, at)
        at += len(kept)
    assert at == len(text)


def test_what_is_short_enough_is_the_same_text() -> None:
    assert shorten(LOG, len(LOG)) is LOG


@pytest.mark.parametrize(
    ("most", "rule", "said"),
    [(LEAST - 1, "head", "240 characters or more"), (500, "middle", "no rule 'middle'")],
    ids=["too little", "unknown rule"],
)
def test_bad_arguments_are_refused(most: int, rule: Rule, said: str) -> None:
    with pytest.raises(RetrievalError, match=said):
        shorten(LOG, most, rule=rule)
