"""Which items of memory a run was given: one row each, so that what they are worth can be asked."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Literal, Protocol, get_args

from trajstore.errors import MemoryItemError
from trajstore.schema import Use
from trajstore.store import Store

UseKind = Literal["trajectory", "step", "skill", "reflection", "workflow", "insight"]
"""What an item of memory is."""


class Given(Protocol):
    """An item as a search gives it."""

    @property
    def item_id(self) -> str:
        """Its id."""

    @property
    def score(self) -> float:
        """The score it was found with."""


def record_uses(
    store: Store,
    trajectory_id: str,
    items: Iterable[Given | str],
    kind: UseKind,
    *,
    given_at: datetime | None = None,
) -> int:
    """Record the items that a run was given, in the order in which it got them.

    The run may be stored before or after; its outcome is looked up whenever somebody asks. A run
    that is given nothing has no row, which is how runs without memory are told from the others.

    Args:
        store: the store.
        trajectory_id: the run.
        items: hits of a search, or ids.
        kind: what they are.
        given_at: when; now where None.

    Returns:
        How many are new: an item that the run was given before counts once.

    Raises:
        MemoryItemError: there is no such kind.
    """
    if kind not in get_args(UseKind):
        kinds = ", ".join(get_args(UseKind))
        raise MemoryItemError(f"There is no kind {kind!r} of items. Kinds: {kinds}")
    uses = [
        Use(
            trajectory_id=trajectory_id,
            kind=kind,
            item_id=item if isinstance(item, str) else item.item_id,
            score=None if isinstance(item, str) else float(item.score),
            rank=rank,
            given_at=given_at,
        )
        for rank, item in enumerate(items, start=1)
    ]
    return store.add_uses(uses) if uses else 0


WITH_AND_WITHOUT = """\
SELECT t.trajectory_id IN (SELECT trajectory_id FROM uses) AS with_memory,
    count(*) AS runs,
    count(*) FILTER (t.success) AS successes,
    avg(t.success::INT) AS success_rate
FROM trajectories t
GROUP BY 1 ORDER BY 1"""
"""SQL: runs that were given anything against runs that were given nothing."""
