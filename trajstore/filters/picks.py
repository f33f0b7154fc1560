"""What a diversity algorithm picked."""

from __future__ import annotations

from dataclasses import dataclass

from trajstore.errors import SelectionError


@dataclass(frozen=True, slots=True)
class Picks:
    """Items in the order in which they were picked."""

    places: tuple[int, ...]
    """Their numbers, from 0."""
    scores: tuple[float, ...]
    """What each was worth when it was picked; the algorithm says in what."""


def check_size(k: int) -> None:
    """Check how many items to pick.

    Raises:
        SelectionError: it is below 0.
    """
    if k < 0:
        raise SelectionError(f"Pick 0 items or more, not {k}.")
