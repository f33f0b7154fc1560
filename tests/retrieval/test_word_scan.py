"""BM25 in memory, against the formula written out."""

from __future__ import annotations

import math

import pyarrow as pa

from trajstore.retrieval.word_scan import WordScan

TEXTS = ["a b a", "b c", "d", ""]


def test_scores_follow_the_formula() -> None:
    """Word a: one text of four, twice among three words; the mean length is 1.5."""
    rarity = math.log(1 + (4 - 1 + 0.5) / (1 + 0.5))
    expected = rarity * 2 * 2.2 / (2 + 1.2 * (0.25 + 0.75 * 3 / 1.5))
    found = WordScan(pa.array(TEXTS)).scores(["a"])
    assert [round(x, 9) for x in found.tolist()] == [round(expected, 9), 0, 0, 0]


def test_words_add_up_and_unknown_words_do_nothing() -> None:
    scan = WordScan(pa.array(TEXTS))
    both = scan.scores(["a", "b", "zzz"])
    assert both.tolist() == (scan.scores(["a"]) + scan.scores(["b"])).tolist()
    assert both[0] > both[1] > both[2] == 0


def test_no_texts_have_no_scores() -> None:
    assert WordScan(pa.array([], pa.string())).scores(["a"]).tolist() == []
