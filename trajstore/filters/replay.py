"""Hand out stored runs more than once: the freshest and least used first."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Mapping

from trajstore.errors import SelectionError


class Replay:
    """Runs to train on, each until it is used up or too old.

    The priority of a run is ``version - decay * uses``; of equal ones the smaller id comes first. A
    use counts when the run is delivered to the caller, never when it is only looked at, so a loader
    that reads ahead uses nothing up.
    """

    def __init__(
        self, versions: Mapping[str, int], *, decay: float = 1.0, most_uses: int | None = None
    ) -> None:
        """Take runs that nobody has used yet.

        Args:
            versions: trajectory id -> number of the policy version that made it.
            decay: versions that one use costs, 0 or more.
            most_uses: times a run is delivered at most; None for no limit.

        Raises:
            SelectionError: a number is out of range.
        """
        if not (decay >= 0 and math.isfinite(decay)):
            raise SelectionError(f"A decay is a finite number of 0 or more, not {decay}.")
        if most_uses is not None and most_uses < 1:
            raise SelectionError(f"A run is used at least once, not {most_uses} times.")
        self._versions = dict(versions)
        self._decay, self._most_uses = decay, most_uses
        self._uses: Counter[str] = Counter()

    def add(self, versions: Mapping[str, int]) -> None:
        """Take more runs; the uses of those that are there already stay."""
        self._versions.update(versions)

    def evict(self, current: int, most_staleness: int) -> list[str]:
        """Remove runs more than ``most_staleness`` versions behind ``current``, and name them.

        A run exactly that far behind stays.
        """
        old = sorted(i for i, v in self._versions.items() if current - v > most_staleness)
        for trajectory_id in old:
            del self._versions[trajectory_id]
        return old

    def uses(self, trajectory_id: str) -> int:
        """How often a run was delivered."""
        return self._uses[trajectory_id]

    def ahead(self, n: int) -> list[str]:
        """The runs that :meth:`deliver` would give now; nothing counts as used."""
        able = (
            i for i in self._versions if self._most_uses is None or self._uses[i] < self._most_uses
        )
        return heapq.nsmallest(n, able, key=lambda i: (-self._priority(i), i))

    def deliver(self, n: int) -> list[str]:
        """Up to ``n`` different runs, the highest priority first; each counts as used once more."""
        given = self.ahead(n)
        self._uses.update(given)
        return given

    def _priority(self, trajectory_id: str) -> float:
        return self._versions[trajectory_id] - self._decay * self._uses[trajectory_id]
