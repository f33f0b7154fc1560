"""Goals as text to compare: normalised, and as words."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.filters.relations import relation

_NO_SPACE_SCRIPTS = r"([\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}])"
_NO_WORD = r"[^\p{L}\p{N}\p{M}]+"


def normalised(texts: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    r"""Texts in one form: Unicode NFKC, lower case, runs of white space as one space, none around.

    A text with nothing in it becomes null.

    >>> normalised(pa.array(["  Fix\tTHE \uff42ug\n", " "])).to_pylist()
    ['fix the bug', None]
    """
    form = pc.utf8_lower(pc.utf8_normalize(texts, form="NFKC"))
    clean = pc.utf8_trim_whitespace(pc.replace_substring_regex(form, r"\s+", " "))
    return pc.if_else(pc.equal(clean, ""), pa.scalar(None, pa.string()), clean)


def words(texts: pa.Array | pa.ChunkedArray) -> pa.Table:
    """The words of normalised texts, without punctuation; a Han, kana or Thai sign is a word.

    Returns:
        For each text ``words`` (list of strings) and ``hashes`` (list of ``uint64``), both empty
        where it is null.
    """
    table = pa.table({"place": pa.arange(0, len(texts)), "text": texts})
    spaced = f"regexp_replace(coalesce(text, ''), '{_NO_SPACE_SCRIPTS}', ' \\1 ', 'g')"
    plain = f"regexp_replace({spaced}, '{_NO_WORD}', ' ', 'g')"
    return relation(
        f"""
        SELECT words, list_transform(words, lambda w: md5_number_lower(w)) AS hashes
        FROM (SELECT place, list_filter(string_split({plain}, ' '), lambda w: w <> '') AS words
            FROM texts)
        ORDER BY place""",
        tables={"texts": table},
    )
