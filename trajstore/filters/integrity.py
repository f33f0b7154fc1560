"""Runs whose success may not be worth learning from: tests changed, answers found, rewards gamed.

Each rule is a sentence about tool calls, written down in ``docs/algorithms/integrity.md``. A rule
says what was done, not why; look at what it finds before you trust it.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.errors import SelectionError
from trajstore.filters.evidence import Run, run_of, runs_of
from trajstore.filters.findings import Finding, Rule
from trajstore.filters.integrity_answers import (
    find_answers_fetched,
    find_answers_read,
    find_gold_copied,
    find_history_read,
)
from trajstore.filters.integrity_gaming import find_reward_gaming, find_unverified_claims
from trajstore.filters.integrity_tests import find_test_changes
from trajstore.filters.selection import Frame, NamedStage, StageResult
from trajstore.schema import Trajectory

INTEGRITY_RULES: tuple[Rule, ...] = typing.get_args(Rule)
"""All rules, the gravest first."""

DEFAULT_INTEGRITY_RULES: tuple[Rule, ...] = INTEGRITY_RULES[:7]
"""Rules that are on unless others are named. ``tests-read``, ``history-read`` and
``answer-fetched`` are normal work outside of a benchmark."""

_FINDERS: tuple[tuple[Callable[[Run], Iterator[Finding]], frozenset[Rule]], ...] = (
    (
        find_test_changes,
        frozenset({"tests-deleted", "tests-skipped", "tests-edited", "tests-read"}),
    ),
    (find_reward_gaming, frozenset({"reward-gaming"})),
    (find_answers_read, frozenset({"answer-read"})),
    (find_gold_copied, frozenset({"gold-copied"})),
    (find_unverified_claims, frozenset({"unverified-claim"})),
    (find_history_read, frozenset({"history-read"})),
    (find_answers_fetched, frozenset({"answer-fetched"})),
)
"""What finds what."""


def integrity_findings(
    trajectory: Trajectory, rules: Iterable[Rule] = DEFAULT_INTEGRITY_RULES
) -> list[Finding]:
    """What the rules find in one trajectory, the gravest rule first, then by step.

    Raises:
        SelectionError: there is no such rule.
    """
    return _found(run_of(trajectory), _known(rules))


def _known(rules: Iterable[Rule]) -> frozenset[Rule]:
    wanted = frozenset(rules)
    wrong = sorted(wanted - set(INTEGRITY_RULES))
    if wrong:
        message = f"Integrity knows no {', '.join(wrong)}. Rules: {', '.join(INTEGRITY_RULES)}"
        raise SelectionError(message)
    if not wanted:
        raise SelectionError(f"Name at least one rule: {', '.join(INTEGRITY_RULES)}")
    return wanted


def _found(run: Run, rules: frozenset[Rule]) -> list[Finding]:
    findings = [
        finding
        for find, names in _FINDERS
        if names & rules
        for finding in find(run)
        if finding.rule in rules
    ]
    return sorted(findings, key=lambda f: (INTEGRITY_RULES.index(f.rule), f.step_index))


@dataclass(frozen=True, slots=True)
class Integrity(NamedStage):
    """Keep runs in which no integrity rule fires."""

    name: ClassVar[str] = "integrity"

    rules: tuple[Rule, ...] = DEFAULT_INTEGRITY_RULES
    """The rules to look at; all of them are in :data:`INTEGRITY_RULES`."""

    def __post_init__(self) -> None:
        """Check the names."""
        _known(self.rules)

    def apply(self, frame: Frame) -> StageResult:
        """Drop a run for the gravest rule that fires; the detail tells all that do, and where."""
        rules = frozenset(self.rules)
        ids: list[str] = []
        reasons: list[str] = []
        details: list[str] = []
        for run in runs_of(frame):
            if findings := _found(run, rules):
                ids.append(run.trajectory_id)
                reasons.append(findings[0].rule)
                details.append(_described(findings))
        place = pc.index_in(
            frame.rows.column("trajectory_id"), value_set=pa.array(ids, pa.string())
        )
        return StageResult.split(
            frame.rows,
            pa.array(reasons, pa.string()).take(place),
            pa.array(details, pa.string()).take(place),
        )


def _described(findings: Sequence[Finding]) -> str:
    """The first finding of each rule, with its step."""
    first: dict[str, Finding] = {}
    for finding in findings:
        first.setdefault(finding.rule, finding)
    return "; ".join(f"{f.rule} at step {f.step_index}: {f.what}" for f in first.values())


STAGES = {Integrity.name: Integrity}
"""Stages of this module by name."""
