"""Texts as words with spaces between, the same for an index, a query and a scan.

No tokeniser of LanceDB finds a part of a Chinese or Japanese sentence or an emoji: the general ones
keep a sentence without spaces whole, and the dictionary ones find only whole dictionary words. So
words are cut here, and the index splits at spaces alone.
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

_ALONE = (
    r"([\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
    r"\x{2190}-\x{2BFF}\x{1F000}-\x{1FAFF}])"
)
_NO_WORD = r"[^\p{L}\p{N}\p{M}\x{2190}-\x{2BFF}\x{1F000}-\x{1FAFF}]+"
_ARABIC_ARTICLE = r"(^| )\x{0627}\x{0644}(\p{Arabic}{3,})"
_NO_ASCII_WORD = re.compile("[^a-z0-9]+")
_MOST_WORDS = 128


def segmented(texts: pa.Array) -> pa.Array:
    """Words in lower case with one space between; "" for a null and where there is no word.

    A sign of a script without spaces (Han, kana, Thai, ...), an emoji and a symbol is a word of its
    own; Arabic loses the article in front of a word; the German sharp s becomes ss.

    >>> segmented(pa.array(["Straße: 天気🚀", None])).to_pylist()
    ['strasse 天 気 🚀', '']
    """
    if (
        pc.all(pc.string_is_ascii(texts)).as_py() is not False
    ):  # the other patterns are slow to make
        lower = pc.ascii_lower(pc.fill_null(texts, ""))
        return pc.ascii_trim(pc.replace_substring_regex(lower, "[^a-z0-9]+", " "), " ")
    form = pc.utf8_lower(pc.utf8_normalize(pc.fill_null(texts, ""), form="NFKC"))
    form = pc.replace_substring(form, "ß", "ss")
    spaced = pc.replace_substring_regex(form, _ALONE, r" \1 ")
    plain = pc.utf8_trim_whitespace(pc.replace_substring_regex(spaced, _NO_WORD, " "))
    return pc.replace_substring_regex(plain, _ARABIC_ARTICLE, r"\1\2")


def query_words(text: str) -> list[str]:
    """The distinct words of a query in order of appearance, 128 at most.

    >>> query_words("To be, or not to be")
    ['to', 'be', 'or', 'not']
    """
    if text.isascii():
        line = _NO_ASCII_WORD.sub(" ", text.lower())
    else:
        line = str(segmented(pa.array([text], pa.string()))[0])
    return list(dict.fromkeys(line.split()))[:_MOST_WORDS]
