"""What a search asks: the text, what may be found, how it is scored, and where it is cut."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypedDict

from trajstore.errors import RetrievalError
from trajstore.retrieval.embedder import Embedder
from trajstore.retrieval.hits import Level, Mode, Weights
from trajstore.retrieval.levels import StepQuery, check_level

DEFAULT_WEIGHTS = Weights()


class SearchOptions(TypedDict, total=False):
    """Every option of a search by name; :class:`Query` says what each is."""

    k: int
    level: Level
    mode: Mode | None
    where: str | None
    task_id: str | None
    goal: str | None
    allow_same_task: bool
    success_only: bool
    unverified: bool
    environment: str | None
    environment_version: str | None
    tools: Sequence[str] | None
    state: str | None
    weights: Weights
    per_task: int | None
    distinct: float | None
    mmr: float | None
    min_similarity: float | None
    min_score: float | None
    token_budget: int | None
    max_age: timedelta | None
    at: int | str | None
    embedder: str | Embedder | None
    now: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What a search asks."""

    text: str
    """What is to be done; for steps see :func:`trajstore.retrieval.step_query`."""
    k: int = 5
    """Most hits."""
    level: Level = "trajectory"
    """What to search for."""
    mode: Mode | None = None
    """``vector``, ``text`` or ``hybrid``; the last where None and the index has vectors."""
    where: str | None = None
    """An SQL condition over ``trajectories`` (or over the view of the level of memory)."""
    task_id: str | None = None
    """The task that asks. Its own runs, those of tasks that are nearly the same, and the memory
    that was drawn from either are left out, since they hold its answer."""
    goal: str | None = None
    """The goal of that task, by which those nearly the same are known while it is not in the store.
    Where None, the goal that :func:`trajstore.retrieval.step_query` was given; of another text the
    first line at level ``step``, else the whole."""
    allow_same_task: bool = False
    """Do not leave them out."""
    success_only: bool = False
    """Only runs that succeeded, by the effective outcome, and steps of such; memory is not cut."""
    unverified: bool = False
    """At level ``skill``, also skills that never were verified, such as imported ones."""
    environment: str | None = None
    """Only of this environment; memory that names none fits any."""
    environment_version: str | None = None
    """Only of this version. A run whose version is unknown is of another one; memory that names
    none fits any."""
    tools: Sequence[str] | None = None
    """At level ``step``: only where the next turn calls none but these tools."""
    state: str | None = None
    """At level ``step``, a ``state_key``: steps taken in that very state come first."""
    weights: Weights = DEFAULT_WEIGHTS
    """What each part of the score is worth."""
    per_task: int | None = None
    """Most hits of one task; None is no bound."""
    distinct: float | None = None
    """0 to 1, leave out what is the same as a better hit: 1 is an equal text, less is a cosine from
    which on two texts are the same, such as 0.95; None keeps all."""
    mmr: float | None = None
    """0 to 1, prefer hits that differ: 1 is relevance alone, 0.7 is usual; None is off."""
    min_similarity: float | None = None
    """Least cosine of a hit with the query, itself included, from -1 to 1; at level ``step`` the
    very state asked for is always enough. The score counts places in lists, so it cannot tell
    whether anything answers the query; the cosine can."""
    min_score: float | None = None
    """Least score of a hit, itself included."""
    token_budget: int | None = None
    """Most tokens of all texts together; a hit that does not fit is left out."""
    max_age: timedelta | None = None
    """Only what is not older; what has no time has no age."""
    at: int | str | None = None
    """An older snapshot of the store, by number or pin."""
    embedder: str | Embedder | None = None
    """The embedder of the index, where its name is not enough to find it."""
    now: datetime | None = None
    """The time that age and expiry are counted to; the clock's where None."""

    def __post_init__(self) -> None:
        """Check what makes no sense.

        Raises:
            RetrievalError: a bound is out of range, or the level has no such filter.
        """
        check_level(self.level)
        for name in ("text", "goal", "task_id", "where", "environment", "environment_version"):
            _check_text(name, getattr(self, name), optional=name != "text")
        if self.k < 1:
            raise RetrievalError(f"k is 1 or more, not {self.k}.")
        if self.mode not in {None, "hybrid", "vector", "text"}:
            raise RetrievalError(f"There is no mode '{self.mode}'. Modes: hybrid, vector, text")
        if self.per_task is not None and self.per_task < 1:
            raise RetrievalError(f"per_task is 1 or more, not {self.per_task}.")
        for name, low in (("distinct", 0), ("mmr", 0), ("min_similarity", -1)):
            value = getattr(self, name)
            if value is not None and not low <= value <= 1:
                raise RetrievalError(f"{name} is from {low} to 1, not {value}.")
        if self.min_score is not None and math.isnan(self.min_score):
            raise RetrievalError("min_score is a number.")
        if self.token_budget is not None and self.token_budget < 0:
            raise RetrievalError(f"token_budget is 0 or more, not {self.token_budget}.")
        if self.level != "step" and (self.tools is not None or self.state is not None):
            raise RetrievalError(f"tools and state are of steps; the level is '{self.level}'.")

    def asking_goal(self) -> str:
        """The goal of the task that asks, as far as it is known."""
        if self.goal is not None:
            return self.goal
        if isinstance(self.text, StepQuery):
            return self.text.goal
        return self.text.strip().partition("\n")[0] if self.level == "step" else self.text


def _check_text(name: str, value: object, *, optional: bool) -> None:
    """Refuse what is no text, or holds half a character: neither can be compared."""
    if value is None and optional:
        return
    if not isinstance(value, str):
        raise RetrievalError(f"{name} is a text, not {type(value).__name__}: {value!r:.80}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise RetrievalError(
            f"{name} is not valid text: what is at place {error.start} is no Unicode character "
            f"({value[error.start]!a}). Was it read as something other than UTF-8?"
        ) from error
