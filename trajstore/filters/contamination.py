"""The stage that keeps out runs at tasks that are held out for evaluation, however they are named.

A run is contaminated where its task is held out by id, where its goal is a held-out goal up to case
and spaces, or where the two goals share word n-grams. The last is checked on the words themselves:
of the n-grams of the shorter goal, a share of at least ``overlap`` must be in the other one, so a
phrase that every task of an environment begins with is not enough.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.errors import SelectionError
from trajstore.filters.deny import same_task
from trajstore.filters.goals import normalised, words
from trajstore.filters.relations import relation
from trajstore.filters.row_columns import NO_REASON
from trajstore.filters.selection import Frame, NamedStage, StageResult
from trajstore.filters.sequences import goals


@dataclass(frozen=True, slots=True)
class Contamination(NamedStage):
    """Keep runs that give nothing away of held-out tasks."""

    name: ClassVar[str] = "contamination"

    tasks: tuple[str, ...] = ()
    """Ids of held-out tasks, matched as the stage ``held-out-tasks`` does."""
    goals: tuple[str, ...] = ()
    """Goals of held-out tasks, in words."""
    file: str | None = None
    """JSON lines with more of both: objects with ``task_id``, ``goal``, or both."""
    ngram: int = 8
    """Words in an n-gram; a shorter goal is one n-gram as a whole."""
    overlap: float = 0.5
    """Least share of the n-grams of the shorter goal that are in the other, above 0 and up to 1."""
    file_sha256: str | None = None
    """SHA-256 of the file; filled in, and checked when a recipe is run again."""

    def __post_init__(self) -> None:
        """Check the parameters and read the file once, so that later changes do no harm."""
        if self.ngram < 1 or not 0.0 < self.overlap <= 1.0:
            message = (
                "The stage 'contamination' needs an ngram of 1 word or more and an overlap above 0 "
                f"and up to 1, not {self.ngram} and {self.overlap}."
            )
            raise SelectionError(message)
        if self.file is not None:
            digest = hashlib.sha256(_content(self.file)).hexdigest()
            if self.file_sha256 not in {None, digest}:
                message = (
                    f"{self.file} is not the held-out list that the recipe was made with: its "
                    f"SHA-256 is {digest}, not {self.file_sha256}."
                )
                raise SelectionError(message, path=self.file)
            object.__setattr__(self, "file_sha256", digest)
        if not (self.tasks or self.goals or self.file):
            raise SelectionError("The stage 'contamination' needs tasks, goals or a file.")

    def apply(self, frame: Frame) -> StageResult:
        """Drop ``held-out-task``, ``held-out-goal`` and ``held-out-goal-overlap``.

        The detail says which task, which goal, or how much of which goal.

        Raises:
            SelectionError: the file cannot be read, or a line of it holds neither.
        """
        tasks, held_out = self._held_out()
        rows = frame.rows
        own = rows.column("task_id")
        named = same_task(own, tasks)
        goal = goals(frame)
        found = _overlaps(goal, held_out, self.ngram, self.overlap)
        reasons = pc.if_else(named, "held-out-task", found.column("reason"))
        details = pc.if_else(named, own, found.column("detail"))
        return StageResult.split(rows, reasons, details)

    def _held_out(self) -> tuple[tuple[str, ...], list[str]]:
        tasks, texts = list(self.tasks), list(self.goals)
        if self.file is not None:
            more_tasks, more_texts = read_held_out(self.file)
            tasks += more_tasks
            texts += more_texts
        return tuple(tasks), texts


def read_held_out(path: str) -> tuple[list[str], list[str]]:
    """Task ids and goals of a list of held-out tasks.

    Args:
        path: a file of JSON lines, objects with ``task_id``, ``goal``, or both.

    Raises:
        SelectionError: the file cannot be read, or a line is no such object; the message names it.
    """
    tasks: list[str] = []
    texts: list[str] = []
    for number, line in enumerate(_content(path).splitlines(), 1):
        if not line.strip():
            continue
        record = _record(line)
        given = {k: record[k] for k in ("task_id", "goal") if isinstance(record.get(k), str)}
        if not given:
            message = (
                f"{path}:{number} should be an object with a text 'task_id', 'goal' or both, such "
                'as {"task_id": "web/7"}.'
            )
            raise SelectionError(message, path=path, line=number)
        tasks += [given["task_id"]] if "task_id" in given else []
        texts += [given["goal"]] if "goal" in given else []
    return tasks, texts


def _content(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        message = f"The list of held-out tasks {path} cannot be read: {error}"
        raise SelectionError(message, path=path) from error


def _record(line: bytes) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except ValueError:
        return {}
    return record if isinstance(record, dict) else {}


def _overlaps(goal: pa.ChunkedArray, held_out: list[str], ngram: int, overlap: float) -> pa.Table:
    """``reason`` and ``detail`` of each goal, null where nothing is shared."""
    clean = normalised(goal)
    distinct = pc.unique(clean).drop_null()
    held = pc.unique(normalised(pa.array(held_out, pa.string()))).drop_null()
    held = held.take(pc.sort_indices(held))
    found = relation(
        _OVERLAP,
        tables={
            "goals": _grams(distinct, ngram),
            "held": _grams(held, ngram),
        },
        overlap=overlap - 1e-12,
    )
    place = pc.index_in(clean, value_set=distinct)
    shared = found.take(pc.index_in(place, value_set=found.column("place")).combine_chunks())
    same = pc.is_in(clean, value_set=held)
    reasons = pc.if_else(pc.is_valid(shared["place"]), "held-out-goal-overlap", NO_REASON)
    return pa.table(
        {
            "reason": pc.if_else(same, "held-out-goal", reasons),
            "detail": pc.if_else(same, pc.utf8_slice_codeunits(clean, 0, 80), shared["detail"]),
        }
    )


def _grams(texts: pa.Array, ngram: int) -> pa.Table:
    """Distinct word n-grams of each text: ``place``, ``text``, ``grams``."""
    table = pa.table(
        {
            "place": pa.arange(0, len(texts)).cast(pa.int32()),
            "text": texts,
            "words": words(texts).column("words"),
        }
    )
    return relation(
        """
        SELECT place, text, list_distinct(list_transform(
            range(1, greatest(len(words) - $ngram + 1, 1) + 1),
            lambda i: array_to_string(words[i:i + $ngram - 1], ' '))) AS grams
        FROM texts WHERE len(words) > 0 ORDER BY place""",
        tables={"texts": table},
        ngram=ngram,
    )


_OVERLAP = """
    WITH ours AS (SELECT place, len(grams) AS n, unnest(grams) AS gram FROM goals),
    theirs AS (SELECT place, text, len(grams) AS n, unnest(grams) AS gram FROM held),
    pairs AS (
        SELECT ours.place AS place, theirs.place AS other, any_value(text) AS text,
            count(*) AS shared, least(any_value(ours.n), any_value(theirs.n)) AS shorter
        FROM ours JOIN theirs USING (gram) GROUP BY ALL)
    SELECT place, first(shared || ' of ' || shorter || ' n-grams of: ' || left(text, 80)
        ORDER BY shared / shorter DESC, shared DESC, other) AS detail
    FROM pairs WHERE shared / shorter >= $overlap GROUP BY place ORDER BY place"""

STAGES = {Contamination.name: Contamination}
"""Stages of this module by name."""
