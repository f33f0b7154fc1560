"""Rows and records of a selection for one target."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from trajstore.errors import ExportError
from trajstore.exports import axolotl, llama_factory, openai, openrlhf, trl, verl
from trajstore.exports.sft import (
    DEFAULT_OPTIONS,
    Refusal,
    SftOptions,
    SftRow,
    Target,
    run_rows,
)
from trajstore.exports.target import Record, SftTarget
from trajstore.schema import Trajectory

TARGETS: Mapping[str, SftTarget] = {
    module.TARGET.name: module.TARGET
    for module in (trl, openai, llama_factory, verl, openrlhf, axolotl)
}
"""Name -> target, in the order of the documentation."""


def target(name: str) -> SftTarget:
    """The target of that name.

    Raises:
        ExportError: there is none.
    """
    if name not in TARGETS:
        raise ExportError(f"there is no export to {name!r}; known are {', '.join(TARGETS)}")
    return TARGETS[name]


def sft_rows(
    trajectories: Iterable[Trajectory],
    *,
    to: Target = "trl",
    include_reasoning: bool = True,
    options: SftOptions = DEFAULT_OPTIONS,
) -> Iterator[SftRow | Refusal]:
    """Rows and refusals, in the order of the trajectories; nothing is left out without a word.

    Args:
        trajectories: runs to train on. Which runs those are is for the caller to say: no outcome is
            looked at here.
        to: the trainer.
        include_reasoning: False leaves reasoning out, whatever ``options`` says.
        options: what rows look like; what the trainer leaves no choice about is set.

    Raises:
        ExportError: ``to`` is not known, or does not take the layout.
    """
    chosen = options if include_reasoning else replace(options, include_reasoning=False)
    trainer = target(to)
    for found in sft_records(trajectories, trainer, trainer.prepare(chosen)):
        yield found if isinstance(found, Refusal) else found[0]


def sft_records(
    trajectories: Iterable[Trajectory], trainer: SftTarget, options: SftOptions
) -> Iterator[tuple[SftRow, Record] | Refusal]:
    """Each row with its record in the target's shape, and refusals.

    Args:
        trajectories: runs to train on.
        trainer: the target.
        options: as :meth:`SftTarget.prepare` gave them.
    """
    for trajectory in trajectories:
        for row in run_rows(trajectory, options):
            if isinstance(row, Refusal):
                yield row
                continue
            record = trainer.record(row, options)
            yield record if isinstance(record, Refusal) else (row, record)
