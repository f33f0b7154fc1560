"""English words without their endings, by the Snowball English stemmer (Porter 2001, "Porter2").

LanceDB's full-text index cuts endings as snowballstemmer did before its version 3, and drops the
accents of Latin letters after that, so what is scored in memory and what the index finds are the
same words. Words are in lower case and hold no apostrophe, as :mod:`.words` cuts them.
"""

from __future__ import annotations

import unicodedata
from functools import cache, lru_cache
from typing import Any

from trajstore._optional import require

_LETTERS = {"ø": "o", "ł": "l", "đ": "d", "ð": "d", "æ": "ae", "œ": "oe", "þ": "th"}


_WORDS_KEPT = 1 << 15


@lru_cache(_WORDS_KEPT)  # the stemmer is Python, and questions share most of their words
def plain_form(word: str) -> str:
    """A word without its English ending, then without the accents of Latin letters.

    >>> [plain_form(w) for w in ("cafés", "łódź", "жизнь", "case", "42")]
    ['cafe', 'lodz', 'жизнь', 'case', '42']
    """
    cut = stem(word)
    return cut if cut.isascii() else "".join(_without_accent(c) for c in cut)


def _without_accent(letter: str) -> str:
    if letter in _LETTERS:
        return _LETTERS[letter]
    base = unicodedata.normalize("NFD", letter)[0]
    return base if base.isascii() else letter


def stem(word: str) -> str:
    """A word without its English ending.

    >>> [stem(w) for w in ("cancelled", "cancels", "generously", "database", "sky", "es")]
    ['cancel', 'cancel', 'generous', 'databas', 'sky', 'es']
    """
    cut: str = _library().stemmer("english").stemWord(word)  # a stemmer serves one thread
    return cut


@cache
def _library() -> Any:
    return require("snowballstemmer", extra="retrieval", purpose="Text search")
