"""Programming records that Reflexion and LATS write: one problem a line, several implementations.

The two formats share their fields. This module tells them apart and turns the parts that they have
in common (task, name of the run, an implementation as an attempt) into our words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trajstore.importers.source import Source
from trajstore.schema import Observation, Step, digest, json_text_or_none, trajectory_id

ENVIRONMENT = "programming"
"""What the agent acts in, for both formats."""

TREE_MARK = "MCTS reflections"
"""What LATS appends to its reflections as the last one; it is no reflection."""

_PLACED = frozenset(
    {
        "name",
        "task_id",
        "language",
        "prompt",
        "solution",
        "is_solved",
        "reflections",
        "implementations",
        "test_feedback",
    }
)
_RUN_NAME = re.compile(
    r"(?P<dataset>.+?)\._(?P<strategy>[a-z-]+)_(?P<max_iters>\d+)_(?P<model>.+)"
    r"_pass_at_k_(?P<pass_at_k>\d+)_(?P<language>\w+)\.jsonl"
)
_LANGUAGE_MARKS = (
    ("py", re.compile(r"^(?:async )?def \w+\(", re.MULTILINE)),
    ("rs", re.compile(r"^(?:pub )?fn \w+", re.MULTILINE)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgrammingRun:
    """What the file name says of a run (``humaneval-py._mcts_8_gpt-4_pass_at_k_1_py.jsonl``)."""

    strategy: str | None = None
    model: str | None = None
    language: str | None = None
    rest: Mapping[str, str] | None = None
    """Data set, ``max_iters`` and ``pass_at_k``, as text."""

    @classmethod
    def of(cls, name: str) -> ProgrammingRun:
        """Read a file name; all None where it has another form."""
        written = _RUN_NAME.fullmatch(name)
        if not written:
            return cls()
        found = written.groupdict()
        strategy, model, language = (found.pop(k) for k in ("strategy", "model", "language"))
        return cls(strategy=strategy, model=model, language=language, rest=found)


def records(source: Source) -> list[Mapping[str, Any]]:
    """The sampled records of a source that are programming records; all of them or none."""
    if source.shape not in {"object", "array", "lines"}:
        return []
    found = [r for r in source.sample if is_programming(r)]
    return found if len(found) == len(source.sample) else []


def is_programming(record: Any) -> bool:
    """Whether a record states a problem of code and was written by a run, not by a data set."""
    return (
        isinstance(record, dict)
        and {"prompt", "entry_point", "test"} <= record.keys()
        and ("name" in record or "task_id" in record)
        and ("is_solved" in record or "acc" in record)
    )


def is_tree_search(record: Mapping[str, Any], name: str = "") -> bool:
    """Whether LATS wrote a record, and not Reflexion.

    By content: LATS marks the end of its reflections; it writes a problem that it did not have to
    search without ``is_solved``; and a tree has more reflections than implementations written
    down, a line of attempts has fewer. Only a record that shows none of this, since it has neither
    implementations nor reflections, is decided by ``_mcts_`` or ``_dfs_`` in the file name.
    """
    if "is_solved" not in record:
        return "acc" in record
    reflections, implementations = (
        written if isinstance(written := record.get(name), list) else []
        for name in ("reflections", "implementations")
    )
    if reflections or implementations:
        marked = reflections and reflections[-1] == TREE_MARK
        return bool(marked) or 0 < len(implementations) <= len(reflections)
    return "_mcts_" in name or "_dfs_" in name


def task_id(record: Mapping[str, Any], run: ProgrammingRun) -> str:
    """``programming/<language>/<problem>``, shared by all runs and both formats.

    The language is the record's own, else the one that the prompt is written in, else the file
    name's; it is left out where none says it.
    """
    name = record["name"] if "name" in record else record["task_id"]
    prompt = str(record["prompt"])
    written_in = (language for language, mark in _LANGUAGE_MARKS if mark.search(prompt))
    language = record.get("language") or next(written_in, None) or run.language
    return "/".join(str(part) for part in (ENVIRONMENT, language, name) if part)


def attempt_ids(record: Mapping[str, Any], count: int) -> list[str]:
    """Ids of the attempts of a record: a hash of the record, which is written once, and a number.

    Nothing in a record names its run, so the same problem solved in the very same words by two
    runs is one trajectory.
    """
    written = digest({k: v for k, v in record.items() if k != "original"})
    return [trajectory_id(ENVIRONMENT, f"{written}/{number}") for number in range(count)]


def implementation_step(
    text: str, feedback: Any = None, *, reasoning: str | None = None, is_copied: bool = False
) -> Step:
    """One implementation as an agent step; what its tests said is the observation."""
    said = () if feedback is None else (Observation(text=str(feedback)),)
    return Step(
        actor="agent", text=text, reasoning=reasoning, observations=said, is_copied=is_copied
    )


def texts(record: Mapping[str, Any], field: str) -> list[str]:
    """A list of texts of a record, [] where the field is absent or null.

    Raises:
        TypeError: the field holds something else.
    """
    values = record.get(field)
    if values is None:
        return []
    if not isinstance(values, list) or not all(isinstance(v, str) for v in values):
        raise TypeError(f"field '{field}' is not a list of texts")
    return values


def metadata(record: Mapping[str, Any], run: ProgrammingRun) -> str | None:
    """JSON text of what has no column: tests, entry point, the running accuracy ``acc``, run."""
    left = {k: v for k, v in record.items() if k not in _PLACED and v is not None}
    written = record.get("implementations")
    if written and record.get("solution") not in (None, written[-1]):
        left["solution"] = record["solution"]
    if run.rest is not None:
        left["run"] = {"strategy": run.strategy, **run.rest}
    return json_text_or_none(left)


def verdict(record: Mapping[str, Any]) -> bool:
    """What the hidden tests said of the last implementation.

    Raises:
        TypeError: ``is_solved`` is neither true nor false.
    """
    solved = record["is_solved"]
    if not isinstance(solved, bool):
        raise TypeError(f"field 'is_solved' is {solved!r}, neither true nor false")
    return solved


def feedback_of(feedback: Sequence[str], number: int) -> str | None:
    """What the tests said of implementation ``number``; None where nothing is written."""
    return feedback[number] if number < len(feedback) else None
