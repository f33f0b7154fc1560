"""How a run went about its task: the sequence of its tool calls, and how like two of them are.

A strategy is the sequence of *words*, one a tool call of the agent's own steps. Inside a task the
goal says nothing (all runs share it), so there the sequences alone are compared; over a whole pool
sequences mix tasks, so there the goals' embeddings join them (:class:`.kernels.Mixed`).

Two measures. *Bigrams*: Jaccard similarity of the sets of pairs of neighbouring words, with a mark
at either end so that a run of one call has bigrams too; repeating a call over and over adds
nothing. *Edits*: 1 minus the Levenshtein distance over the longer length; exact in order and
count, and slower.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.filters.selection import Frame
from trajstore.filters.sequences import asked

Words = Literal["tools", "programs"]
"""What stands for a call: the tool's name, or the name and, where an argument ``command`` holds a
shell command, the program it starts (``bash grep``); leading ``cd``s are skipped."""

_COMMAND = """CASE json_type(arguments, '$.command')
    WHEN 'VARCHAR' THEN json_extract_string(arguments, '$.command')
    WHEN 'ARRAY' THEN CASE WHEN json_extract_string(arguments, '$.command[1]') IN ('-c', '-lc')
        THEN json_extract_string(arguments, '$.command[2]')
        ELSE json_extract_string(arguments, '$.command[0]') END
    END"""
_PROGRAM = (
    r"^\s*(?:cd\s+[^;&|\n]+(?:&&|;|\n)\s*)*(?:sudo\s+|[A-Za-z_]+=\S*\s+)*(?:\S*/)?([^\s;&|()/]+)"
)
_WORDS: dict[str, str] = {
    "tools": "coalesce(name, '')",
    "programs": f"concat_ws(' ', coalesce(name, ''), "
    f"nullif(nullif(left(regexp_extract({_COMMAND}, '{_PROGRAM}', 1), 40), ''), name))",
}
_MARK = "\x00"


def strategies(frame: Frame, words: Words = "programs") -> pa.Array:
    """The words of each row's calls, in order: a list of strings, empty where nothing was called.

    Calls in copied context, and calls that are not the agent's, are left out.
    """
    query = f"""
        SELECT trajectory_id, list({_WORDS[words]} ORDER BY step_index, call_index) AS words
        FROM tool_calls
        WHERE actor = 'agent' AND NOT is_copied AND {{where}}
        GROUP BY trajectory_id"""
    found = asked(frame, query).column("words").combine_chunks()
    return pc.fill_null(found, pa.scalar([], pa.list_(pa.string())))


def bigrams(words: Sequence[str], *, padded: bool = True) -> set[tuple[str, str]]:
    """The pairs of neighbouring words; ``padded`` with a mark at either end.

    >>> sorted(bigrams(["a", "b"], padded=False))
    [('a', 'b')]
    """
    marked = [_MARK, *words, _MARK] if padded else list(words)
    return set(itertools.pairwise(marked))


def bigram_similarity(a: Sequence[str], b: Sequence[str], *, padded: bool = True) -> float:
    """Jaccard similarity of the bigrams of two sequences, 0 to 1; 1 where neither has any.

    >>> bigram_similarity("search open edit".split(), "search open".split())
    0.4
    """
    left, right = bigrams(a, padded=padded), bigrams(b, padded=padded)
    together = len(left | right)
    return len(left & right) / together if together else 1.0


def levenshtein(a: Sequence[str], b: Sequence[str]) -> int:
    """Fewest words to insert, delete or replace to make one sequence the other.

    >>> levenshtein("ls cat edit".split(), "ls edit".split())
    1
    """
    before = list(range(len(b) + 1))
    for at, word in enumerate(a, 1):
        row = [at]
        for place, other in enumerate(b, 1):
            changed = before[place - 1] + (word != other)
            row.append(min(before[place] + 1, row[-1] + 1, changed))
        before = row
    return before[-1]


def edit_similarity(a: Sequence[str], b: Sequence[str]) -> float:
    """1 minus the Levenshtein distance over the longer length, 0 to 1; 1 where both are empty.

    >>> edit_similarity("ls cat edit".split(), "ls edit".split())
    0.6666666666666667
    """
    longer = max(len(a), len(b))
    return 1.0 - levenshtein(a, b) / longer if longer else 1.0
