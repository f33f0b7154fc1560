"""Runs of a job as rows to train on, and why a run gives none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from trajstore.rollouts.templates import ChatTemplate
from trajstore.schema import Trajectory
from trajstore.trainers.rows import TokenRow
from trajstore.trainers.sampled import REASONS
from trajstore.trainers.tokenise import Facts, Refused, RowOptions, tokenise_all

HELD_OUT = "it is an attempt at a held-out task, which would measure memory then"
"""Why a run at a held-out task gives no row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Examples:
    """Rows of runs, and what gave none."""

    rows: list[TokenRow]
    """In the order of the runs."""
    runs: int
    """Runs that were looked at."""
    refused: list[Refused]
    """Runs without a row, and why."""

    @property
    def unused(self) -> dict[str, int]:
        """Runs of which something stored is not used, such as ``foreign_tokens``."""
        return unused_of(self.rows)


def unused_of(rows: Iterable[TokenRow]) -> dict[str, int]:
    """How many runs have what they store left out, by the names of ``REASONS``; none is not told.

    Args:
        rows: of the runs.
    """
    found = {(REASONS[why], row.trajectory_id) for row in rows for why in row.unused}
    return dict(sorted(Counter(name for name, _ in found).items()))


def examples_of(
    runs: Iterable[Trajectory],
    tokenizer: Any,
    template: ChatTemplate,
    *,
    held_out: AbstractSet[str],
    facts: Callable[[Trajectory], Facts],
    options: RowOptions,
) -> Examples:
    """Rows of runs; none of a held-out task.

    Args:
        runs: of which.
        tokenizer: of the model.
        template: how messages become text.
        held_out: ids of the tasks that are measured on.
        facts: what is known of each run.
        options: choices for all.
    """
    rows: list[TokenRow] = []
    refused: list[Refused] = []
    looked = 0
    for found in tokenise_all(
        _not_held_out(runs, held_out, refused), tokenizer, template, facts=facts, options=options
    ):
        looked += 1
        if isinstance(found, Refused):
            refused.append(found)
        else:
            rows += found
    looked += sum(r.reason == HELD_OUT for r in refused)
    return Examples(rows=rows, runs=looked, refused=refused)


def _not_held_out(
    runs: Iterable[Trajectory], held_out: AbstractSet[str], refused: list[Refused]
) -> Iterator[Trajectory]:
    """The runs but those at held-out tasks, which are refused."""
    for run in runs:
        if run.task_id in held_out:
            refused.append(Refused(trajectory_id=run.trajectory_id, reason=HELD_OUT))
        else:
            yield run
