"""What was done at the steps that a search found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trajstore.errors import RetrievalError
from trajstore.retrieval.hits import Hit
from trajstore.schema import Step
from trajstore.store import Reader, Store


def next_turns(
    source: Store | Reader, hits: Sequence[Hit], *, count: int = 1
) -> list[tuple[Step, ...]]:
    """For each hit of level ``step`` the steps that were taken there, not the start of its run.

    Args:
        source: the store, or the snapshot that was searched.
        hits: the hits.
        count: agent steps to give from there on; what others say between them comes too.

    Raises:
        RetrievalError: a hit is of another level.
    """
    if any(hit.level != "step" for hit in hits):
        raise RetrievalError("Only hits of level 'step' have a next turn.")
    runs = {run.trajectory_id: run.steps for run in source.get_many(runs_of(hits))}
    return turns_of(runs, hits, count)


def runs_of(hits: Sequence[Hit]) -> list[str]:
    """The runs of some hits, each once."""
    return list(dict.fromkeys(str(hit.trajectory_id) for hit in hits))


def turns_of(
    runs: Mapping[str, Sequence[Step]], hits: Sequence[Hit], count: int
) -> list[tuple[Step, ...]]:
    """For each hit the steps from there on, out of the steps of each run."""
    return [_from(runs.get(str(h.trajectory_id), ()), h.step_index or 0, count) for h in hits]


def _from(steps: Sequence[Step], start: int, count: int) -> tuple[Step, ...]:
    taken: list[Step] = []
    for step in steps[start:]:
        if step.actor == "agent":
            count -= 1
            if count < 0:
                break
        taken.append(step)
    while taken and taken[-1].actor != "agent":
        taken.pop()
    return tuple(taken)
