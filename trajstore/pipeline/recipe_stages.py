"""Stages of a recipe: what ``[[select]]`` and ``[split]`` say, as stages of a selection."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from trajstore._toml import Table, keys_of, unknown
from trajstore.errors import SelectionError, TrajstoreError
from trajstore.filters import STAGES, Frame, Stage, StageResult, stage, usage

SPLIT = "split"
_NEEDED = {"expiry": ("now", "now = 2026-03-01T12:00:00Z")}
"""Parameters that a stage takes from the clock where they are not given."""

_QUOTED = re.compile(r"'(?:[^']|'')*'")
_CHANGING = re.compile(
    r"\b(now|today|random|uuid|uuidv4|uuidv7|gen_random_uuid|get_current_time\w*|transaction_timestamp"
    r"|age)\s*\(|\b(current_timestamp|current_date|current_time|localtime|localtimestamp)\b",
    re.IGNORECASE,
)
"""SQL that says something else each time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitRecipe:
    """The table ``[split]``: tasks held out, made before any stage looks at a run."""

    shares: Mapping[str, float] = field(default_factory=lambda: {"val": 0.1})
    """Held-out splits and their shares of the groups of tasks; the sum is below 1."""
    rest: str = "train"
    """Name of the split of all other tasks."""
    near_goals: bool = True
    """Keep tasks with nearly the same goal on one side (needs NumPy); false looks for equal goals
    and prompts only."""
    goal_jaccard: float = 0.8
    """Least Jaccard similarity of the word pairs of two such goals, above 0 and at most 1."""
    most_share: float = 0.5
    """Most tasks in one group, as a share of all tasks."""

    def check(self) -> None:
        """Check the values.

        Raises:
            SelectionError: one is out of its range.
        """
        self.stages()

    def names(self) -> tuple[str, ...]:
        """The names of all splits, the held-out ones first."""
        return (*self.shares, self.rest)

    def stages(self) -> tuple[Stage, ...]:
        """The split, and the check that nothing leaks from one side to the other."""
        likeness = self.goal_jaccard if self.near_goals else None
        split = stage(
            SPLIT,
            shares=dict(self.shares),
            rest=self.rest,
            goal_jaccard=likeness,
            most_share=self.most_share,
        )
        return (split, stage("leak-check", goal_jaccard=likeness))


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeStage:
    """A stage, and where the recipe names it."""

    inner: Stage
    """The stage."""
    table: Table
    """Where it stands."""
    instead: Mapping[str, Any] = field(default_factory=dict)
    """Parameters told in another way than the stage does: files, as the recipe names them."""

    @property
    def name(self) -> str:
        """The stage's name."""
        return self.inner.name

    def parameters(self) -> dict[str, Any]:
        """The stage's parameters."""
        return {**self.inner.parameters(), **self.instead}

    def apply(self, frame: Frame) -> StageResult:
        """What the stage decides.

        Raises:
            RecipeError: it cannot; the message begins with file and line.
        """
        try:
            return self.inner.apply(frame)
        except TrajstoreError as error:
            raise self.table.error(f"The stage '{self.name}' failed: {error}") from error


@dataclass(slots=True)
class Once:
    """A stage that is asked once, however many sets begin with it.

    The sets of a recipe share their first stages, and so what those stages see.
    """

    inner: Stage
    """The stage."""
    _result: StageResult | None = None

    @property
    def name(self) -> str:
        """The stage's name."""
        return self.inner.name

    def parameters(self) -> dict[str, Any]:
        """The stage's parameters."""
        return self.inner.parameters()

    def apply(self, frame: Frame) -> StageResult:
        """What the stage decides, or has decided."""
        if self._result is None:
            self._result = self.inner.apply(frame)
        return self._result


def stages_of(table: Table, key: str, *, seed: int | None, folder: Path) -> tuple[RecipeStage, ...]:
    """The stages of a list of tables such as ``[[select]]``.

    Args:
        table: where the list stands.
        key: its name.
        seed: for stages that draw and say none.
        folder: what file names in the recipe are relative to.

    Raises:
        RecipeError: an unknown stage or parameter, a missing one, or a value that does not fit.
    """
    return tuple(_stage(entry, seed, folder) for entry in table.tables(key))


def _stage(entry: Table, seed: int | None, folder: Path) -> RecipeStage:
    name = _name(entry)
    known = [f.name for f in keys_of(STAGES[name])]
    given = {k: v for k, v in entry.values.items() if k != "stage"}
    for key in given:
        if key not in known:
            raise entry.error(_no_parameter(name, key, known), key)
    instead = {}
    if "seed" in known and "seed" not in given:
        given["seed"] = _seed(entry, name, seed)
    if isinstance(given.get("file"), str):
        instead["file"] = given["file"]
        given["file"] = str(folder / given["file"])
    _settled(entry, given)
    needed, example = _NEEDED.get(name, ("", ""))
    if needed and needed not in given:
        message = (
            f"The stage '{name}' needs '{needed}', since a recipe must give the same sets "
            f"tomorrow: write {example}, or another moment."
        )
        raise entry.error(message)
    try:
        return RecipeStage(inner=stage(name, **given), table=entry, instead=instead)
    except SelectionError as error:
        about = list(_named(str(error), given))
        raise entry.error(str(error), *about[:1]) from error


def _settled(entry: Table, given: Mapping[str, Any]) -> None:
    """Refuse a condition that says something else each time."""
    condition = given.get("condition")
    found = _CHANGING.search(_QUOTED.sub("", condition)) if isinstance(condition, str) else None
    if found is not None:
        message = (
            f"The condition asks for {found[0].rstrip('( ')}, which changes, and a recipe must "
            "give the same sets tomorrow: write the moment out, such as TIMESTAMPTZ '2026-03-01', "
            "or draw by the stage 'sample'."
        )
        raise entry.error(message, "condition")


def _name(entry: Table) -> str:
    name = entry.values.get("stage")
    if not isinstance(name, str):
        raise entry.error(f'{entry.title} needs stage = the name of one, such as "success".')
    if name == SPLIT:
        message = "Splits are made before anything else: write a table [split] instead."
        raise entry.error(message, "stage")
    if name not in STAGES:
        raise entry.error(unknown(f"There is no stage '{name}'", name, STAGES), "stage")
    return name


def _no_parameter(name: str, key: str, known: list[str]) -> str:
    near = get_close_matches(key, known, n=1)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    return f"The stage '{name}' has no parameter '{key}'.{hint} {usage(name)}"


def _seed(entry: Table, name: str, seed: int | None) -> int:
    if seed is None:
        message = (
            f"The stage '{name}' needs a seed, so that the same recipe gives the same sets: write "
            "seed = 0 here, or once for all at the top of the recipe."
        )
        raise entry.error(message)
    return seed


def _named(message: str, given: Mapping[str, Any]) -> Iterator[str]:
    """Parameters that an error speaks of."""
    return (key for key in given if f"{key}=" in message or f" {key} " in message)
