"""What a search gives: hits with their scores, and what was cut on the way."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Literal, overload

from trajstore.errors import RetrievalError

Level = Literal["trajectory", "step", "skill", "reflection", "workflow", "insight"]
"""What is searched for."""

Mode = Literal["hybrid", "vector", "text"]
"""How: by meaning, by words, or both."""

LEVELS: tuple[Level, ...] = ("trajectory", "step", "skill", "reflection", "workflow", "insight")
"""Every level."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """What each part of a score is worth; the defaults are ours.

    ``score = similarity * s + success * o + recency * r + efficiency * e + utility * u``, with each
    part from 0 to 1.
    """

    similarity: float = 0.6
    """How well the item answers the query: cosine, or the place in the lists where fused."""
    success: float = 0.2
    """1 for a success, 0 for a failure and for what is unknown; of memory the share of its uses
    that succeeded."""
    recency: float = 0.1
    """0.5 to the power of age by half-life."""
    efficiency: float = 0.1
    """Cost of the cheapest success at the task by that of the run; 0 for what did not succeed."""
    utility: float = 0.0
    """Successes by uses, where uses are recorded."""
    half_life_days: float = 7.0
    """Age in days at which recency is one half."""

    def __post_init__(self) -> None:
        """Check that each is a number that can be counted with.

        Raises:
            RetrievalError: one is not finite or below 0, or the half-life is not above 0.
        """
        for name, value in asdict(self).items():
            if not 0 <= value < math.inf:
                raise RetrievalError(f"The weight {name} is a number from 0 on, not {value}.")
        if not self.half_life_days > 0:
            raise RetrievalError(f"half_life_days is above 0, not {self.half_life_days}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One item that was found."""

    level: Level
    """What it is."""
    item_id: str
    """``trajectory_id``, ``trajectory_id/step_index``, ``skill_id``, ... : whole, never cut."""
    trajectory_id: str | None
    """The run it is or comes from; ``store.get`` reads it."""
    step_index: int | None
    """At level ``step`` the step that was taken next; None at the others."""
    task_id: str | None
    """The task."""
    text: str
    """What was compared with the query."""
    score: float
    """The weighted sum of ``parts``; ``min_score`` is on this scale."""
    parts: Mapping[str, float]
    """Each part of the score before its weight: ``similarity``, ``success``, ``recency``,
    ``efficiency``, ``utility``; and ``cosine`` and ``bm25`` as they were measured."""
    ranks: Mapping[str, int]
    """Place in the lists that were searched, from 1: ``vector``, ``text``."""
    success: bool | None
    """The effective outcome now; None where unknown."""
    reward: float | None
    """The effective reward now."""
    environment: str | None
    """What the agent acted in."""
    n_tokens: int
    """Estimated tokens of ``text``: its UTF-8 bytes by four, rounded up."""
    source: str | None
    """The importer or writer it came from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hits(Sequence[Hit]):
    """The hits of one search, the best first."""

    query: str
    """What was asked."""
    level: Level
    """What was searched for."""
    mode: Mode
    """How it was searched."""
    snapshot: int
    """The store's snapshot whose rows and outcomes counted."""
    k: int
    """How many were asked for."""
    hits: tuple[Hit, ...]
    """What was found."""
    cuts: Mapping[str, int] = field(default_factory=dict)
    """Items that were left out, by reason; only reasons that left something out."""
    repeated: tuple[str, ...] = ()
    """Ids of the first items, ``k`` at most, that ``distinct`` left out where they would have been
    hits; ``cuts`` counts them, too."""
    notes: tuple[str, ...] = ()
    """What the caller should know: items that are not indexed yet, an index that is out of use."""

    @overload
    def __getitem__(self, at: int) -> Hit: ...

    @overload
    def __getitem__(self, at: slice) -> tuple[Hit, ...]: ...

    def __getitem__(self, at: int | slice) -> Hit | tuple[Hit, ...]:
        """The hit at a place, from 0."""
        return self.hits[at]

    def __len__(self) -> int:
        """How many were found."""
        return len(self.hits)

    def __iter__(self) -> Iterator[Hit]:
        """The hits, the best first."""
        return iter(self.hits)

    def explain(self) -> str:
        """What was found and what each filter, bound and exclusion left out, in words."""
        found = f"{len(self.hits):,} of {self.k:,} {self.level} hits by {self.mode} search"
        lines = [f"{found} at snapshot {self.snapshot}"]
        lines += [f"  {count:,} {MEANINGS[reason]}" for reason, count in self.cuts.items()]
        bounds = {"min_similarity", "min_score", "token_budget"}
        if len(self.hits) < self.k and not bounds & self.cuts.keys():
            lines.append("  there are no more that fit")
        return "\n".join([*lines, *(f"  note: {note}" for note in self.notes)])


MEANINGS: dict[str, str] = {
    "where": "did not fit the condition",
    "environment": "are of another environment",
    "environment_version": "are of another version of the environment",
    "outcome": "are no success",
    "unverified": "never were verified",
    "expired": "have expired",
    "tools": "use a tool that is not at hand",
    "same_task": "are attempts at the querying task, or drawn from one",
    "near_duplicate_task": "are attempts at a task that is nearly the same, or drawn from one",
    "no_match": "share no word with the query",
    "min_similarity": "are less like the query than min_similarity",
    "min_score": "scored less than min_score",
    "per_task": "are of a task that has its hits already",
    "distinct": "are the same as a better hit",
    "k": "came after the first k",
    "token_budget": "did not fit into the token budget",
}
"""Reason in :attr:`Hits.cuts` -> what it says of the items it left out."""


def as_row(hit: Hit) -> dict[str, object]:
    """A hit as a plain row, without what is None: the columns of JSON output."""
    return {
        name: dict(value) if isinstance(value, Mapping) else value
        for name in Hit.__dataclass_fields__
        if (value := getattr(hit, name)) is not None
    }
