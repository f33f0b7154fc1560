"""The processes of a job: one by itself, or those that torchrun started, which work as one."""

from __future__ import annotations

import atexit
import gc
import os
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import cache
from typing import Any, TypeVar

from trajstore._optional import require

T = TypeVar("T")

_PATIENCE = timedelta(days=30)
"""The others wait as long as the first samples or makes something; a process that ends is noticed
at once, as its connections close."""


class Processes:
    """The processes that work at one job.

    All of them go through the same lines of the job in the same order, and decide by the same
    values: what the first one read, drew or was told reaches the others by :meth:`once`. Neither
    :meth:`once` nor :meth:`wait` may stand inside the work of another :meth:`once`.
    """

    def __init__(self, rank: int = 0, count: int = 1, group: Any = None) -> None:
        """Take part.

        Args:
            rank: of this process, from 0.
            count: of all processes.
            group: of torch.distributed, over which they talk; None where there is only one.
        """
        self.rank = rank
        """Of this process, from 0."""
        self.count = count
        """Of all processes."""
        self._group = group

    @property
    def first(self) -> bool:
        """Whether this process writes the job's files."""
        return self.rank == 0

    def once(self, work: Callable[[], T]) -> T:
        """What the first process's call gives; the others wait for it and call nothing.

        Args:
            work: gives a value that can be pickled.
        """
        if self._group is None:
            return work()
        told: list[Any] = [work() if self.first else None]
        _torch().distributed.broadcast_object_list(told, src=0, group=self._group)
        found: T = told[0]
        return found

    def wait(self) -> None:
        """Return once every process has come here."""
        if self._group is not None:
            _torch().distributed.barrier(group=self._group)

    def share(self, items: Sequence[T]) -> Sequence[T]:
        """The items of this process: those of all processes together are all, none twice."""
        return items[self.rank :: self.count]


ALONE = Processes()
"""One process."""


@cache
def launched() -> Processes:
    """The processes that torchrun or accelerate started, this one among them; else one.

    They are joined the first time, on the device of their own that each will train on.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return ALONE
    torch = _torch()
    accelerate = require("accelerate", extra="train", purpose="Training in several processes")
    state = accelerate.PartialState(cpu=not torch.cuda.is_available())
    group = torch.distributed.new_group(backend="gloo", timeout=_PATIENCE)
    atexit.register(leave)
    return Processes(state.process_index, state.num_processes, group)


def leave() -> None:
    """Close the connections to the other processes, so that no thread of them outlives Python.

    Where one does, a process whose work is done may still end with an abort. Let go of whatever
    trained before: a wrapped model that outlives the group closes it while it keeps Python's lock,
    for which a thread of the group may wait, and the process never ends.
    """
    launched.cache_clear()
    distributed = _torch().distributed
    if distributed.is_available() and distributed.is_initialized():
        # A trainer may lie in a cycle, such as with a callback that keeps it.
        gc.collect()
        distributed.destroy_process_group()


def _torch() -> Any:
    return require("torch", extra="train", purpose="Training")
