"""Reflexion in ALFWorld and WebShop: outcome and memory of each task after a trial, no steps."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trajstore.importers.importer import uri
from trajstore.importers.items import ImportOptions, Item, Problem
from trajstore.importers.source import Record, Source
from trajstore.schema import Reflection, Trajectory, json_text, trajectory_id

TRIAL_FILE = re.compile(r"env_results_trial_(\d+)\.json")
"""Name of the file that a run writes after trial k."""

_RUN_FOLDER = re.compile(r"(?P<agent>.+?)_run_logs(?:_\d+)?")
_WORDS = {
    "alfworld": re.compile(
        r"\b(?:countertop|cabinet|drawer|sinkbasin|fridge|microwave|desklamp|shelf|in/on)\b"
    ),
    "webshop": re.compile(r"\b(?:product|price|budget|search query|buy|bought|click\w*)\b"),
}


def trial_of(name: str) -> int:
    """The trial that a file name says; -1 where it says none."""
    named = TRIAL_FILE.fullmatch(name)
    return int(named[1]) if named else -1


def _is_sound(value: Mapping[str, Any]) -> bool:
    kinds = (("name", str), ("memory", list), ("is_success", bool))
    return all(isinstance(value[field], kind) for field, kind in kinds)


def is_trial_record(value: Any) -> bool:
    """Whether a value is one environment's line of a trial file."""
    return isinstance(value, dict) and {"name", "memory", "is_success"} <= value.keys()


@dataclass(slots=True, kw_only=True)
class Before:
    """What the trial file before says; success is carried forward, memory only grows."""

    trial: int = -1
    """Trial of that file; -1 where there is none."""
    solved: set[str] = field(default_factory=set)
    """Environments that were solved by then."""
    remembered: dict[str, int] = field(default_factory=dict)
    """Reflections by environment."""

    def take(self, value: Any) -> None:
        """Note one record."""
        if is_trial_record(value) and _is_sound(value):
            self.remembered[value["name"]] = len(value["memory"])
            if value["is_success"]:
                self.solved.add(value["name"])


class TrialFile(Source):
    """One trial file while it is read, with what earlier trials said."""

    def __init__(self, path: Path, *, uri: str, importer: str, before: Before | None) -> None:
        """Open a file whose name matches :data:`TRIAL_FILE`.

        Args:
            path: the file.
            uri: how to call it.
            importer: name of the importer, for ``source``.
            before: state after the trial before; read from the files beside this one where None.
        """
        super().__init__(path, uri=uri)
        folder = path.absolute().parent
        self.trial = trial_of(path.name)
        self.before = before_trial(folder, self.trial) if before is None else before
        self.after = Before(trial=self.trial)
        self.run = folder.name
        self.importer = importer
        self.environment = environment_of(self)
        self.carried: list[str] = []
        self.unclear: list[str] = []

    def items(self, record: Record, options: ImportOptions) -> Iterator[Item]:
        """The attempt of one environment in this trial, where it happened, and new reflections."""
        value = record.value
        name, memory, solved = value["name"], value["memory"], value["is_success"]
        if not _is_sound(value):
            raise TypeError("name, memory and is_success are not a text, a list and a truth value")
        self.after.take(value)
        prefix = self.environment or options.environment or "reflexion"
        if name in self.before.solved or value.get("skip"):
            self.carried.append(name)
        elif solved and not self._is_first_success(name):
            self.unclear.append(name)
        else:
            yield Trajectory(
                trajectory_id=self.attempt_id(name, self.trial),
                task_id=f"{prefix}/{name}",
                attempt=self.trial,
                source=self.importer,
                source_uri=uri(self, record),
                environment=self.environment,
                agent=self._agent(),
                parent_id=self.attempt_id(name, self.trial - 1) if self.trial else None,
                relation="retry" if self.trial else None,
                status="terminated" if solved else None,
                success=solved,
                metadata=json_text({"run": self.run}),
            )
        known = self.before.remembered.get(name, 0)
        written = ((n, str(m)) for n, m in enumerate(memory) if n >= known and str(m).strip())
        for position, text in written:
            yield Reflection(
                task_id=f"{prefix}/{name}",
                text=text,
                source=self.importer,
                trial=position,
                trajectory_id=self.attempt_id(name, position),
                environment=self.environment,
                source_uri=uri(self, record),
                metadata=json_text({"run": self.run}),
            )

    def attempt_id(self, name: str, trial: int) -> str:
        """Id of one attempt: environment, name of the run (its folder), task, trial."""
        return trajectory_id("reflexion", f"{self.environment}/{self.run}/{name}/{trial}")

    def notes(self) -> Iterator[Problem]:
        """What the file repeats of earlier trials, and what it cannot tell alone."""
        if self.carried:
            reason = (
                f"{len(self.carried)} environments were solved in an earlier trial or skipped; "
                f"they had no attempt in trial {self.trial}"
            )
            yield Problem(source=self.uri, reason=reason, kind="ignored")
        if self.unclear:
            reason = (
                f"solved in trial {self.trial} or before: {', '.join(self.unclear)}; put "
                f"env_results_trial_{self.trial - 1}.json beside the file to tell which"
            )
            yield Problem(source=self.uri, reason=reason)

    def _is_first_success(self, name: str) -> bool:
        """Whether the trial right before knows the environment; it did not solve it, then."""
        is_next = self.before.trial == self.trial - 1
        return self.trial == 0 or (is_next and name in self.before.remembered)

    def _agent(self) -> str | None:
        named = _RUN_FOLDER.fullmatch(self.run)
        return named["agent"] if named else None


def before_trial(folder: Path, trial: int) -> Before:
    """What the nearest earlier trial file in the folder says."""
    for earlier in range(trial - 1, -1, -1):
        path = folder / f"env_results_trial_{earlier}.json"
        if path.is_file():
            before = Before(trial=earlier)
            for record in Source(path).elements():
                if isinstance(record, Record):
                    before.take(record.value)
            return before
    return Before()


def environment_of(source: Source) -> str | None:
    """``alfworld`` or ``webshop``: by the words of the reflections, else by a folder above.

    None where neither tells.
    """
    counts = dict.fromkeys(_WORDS, 0)
    for record in source.elements():
        if isinstance(record, Record) and is_trial_record(record.value):
            for environment, words in _WORDS.items():
                counts[environment] += len(words.findall(str(record.value["memory"])))
    best = max(counts, key=lambda environment: counts[environment])
    if counts[best]:
        return best
    above = (part.lower() for part in reversed(source.path.absolute().parts[:-1]))
    return next((e for part in above for e in _WORDS if e in part), None)
