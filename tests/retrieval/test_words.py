"""Words of many scripts."""

from __future__ import annotations

import pyarrow as pa
import pytest

from trajstore.retrieval.words import query_words, segmented

CASES = {
    "Fix the_bug in parse.py!": "fix the bug in parse py",
    "Straße für Fußgänger": "strasse für fussgänger",
    "把文件移走": "把 文 件 移 走",
    "東京で天気": "東 京 で 天 気",
    "ابحث عن الطقس": "ابحث عن طقس",
    "go 🚀🎉 now": "go 🚀 🎉 now",
    "\uff46\uff55\uff4c\uff4c\u3000\uff57ide": "full wide",
    "¿?!": "",
    "한국어 문장": "한국어 문장",
}


@pytest.mark.parametrize(("text", "words"), CASES.items(), ids=[str(n) for n in range(len(CASES))])
def test_text_is_cut_into_words(text: str, words: str) -> None:
    assert segmented(pa.array([text])).to_pylist() == [words]


def test_null_and_nothing_have_no_words() -> None:
    assert segmented(pa.array([None, "", "  "], pa.string())).to_pylist() == ["", "", ""]


def test_a_query_is_its_distinct_words_and_not_endless() -> None:
    assert query_words("b a B a") == ["b", "a"]
    assert len(query_words(" ".join(map(str, range(1000))))) == 128
