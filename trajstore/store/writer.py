"""Stream trajectories into a store: buffered by rows, bytes and seconds, durable on ``flush``."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self

from trajstore.errors import WriteError
from trajstore.schema import Label, Trajectory
from trajstore.store.append import AppendReport

Append = Callable[[Iterable[Trajectory | Label]], AppendReport]


class TrajectoryWriter:
    """Collects trajectories and labels and commits them in batches.

    It may be shared by threads; many writers of many processes may write to one store. What
    :meth:`append` took is durable once :meth:`flush` (or leaving the ``with`` block) returned.
    Until then it is in memory and a crash loses it. If a commit fails, its rows stay in the buffer
    and the error is raised by the next call.
    """

    def __init__(
        self,
        append: Append,
        *,
        max_rows: int = 20_000,
        max_bytes: int = 32 << 20,
        max_seconds: float = 5.0,
    ) -> None:
        """Commit when any limit is reached.

        Args:
            append: commits a batch, such as ``Store.append``.
            max_rows: trajectories, steps and labels together.
            max_bytes: bytes of text.
            max_seconds: age of the oldest row in the buffer; 0 turns the clock off.
        """
        self._append = append
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._max_seconds = max_seconds
        self._buffer: list[Trajectory | Label] = []
        self._rows = 0
        self._bytes = 0
        self._guard = threading.Lock()
        self._commit = threading.Lock()
        self._timer: threading.Timer | None = None
        self._error: Exception | None = None
        self._closed = False
        self.reports: list[AppendReport] = []
        """One report a commit."""

    def append(self, item: Trajectory | Label) -> None:
        """Take one trajectory or label; commits by itself when the buffer is full.

        Raises:
            WriteError: an earlier commit failed, or the writer is closed.
        """
        with self._guard:
            if self._closed:
                raise WriteError("The writer is closed; make a new one with store.writer().")
            self._buffer.append(item)
            self._rows += 1 + (len(item.steps) if isinstance(item, Trajectory) else 0)
            self._bytes += _size(item)
            full = self._rows >= self._max_rows or self._bytes >= self._max_bytes
            if self._timer is None and self._max_seconds > 0 and not full:
                self._timer = threading.Timer(self._max_seconds, self._flush_in_background)
                self._timer.daemon = True
                self._timer.start()
        if full:
            self.flush()

    def flush(self) -> None:
        """Return when everything taken so far is durable.

        Raises:
            WriteError: it could not be made so; the rows stay in the buffer.
        """
        with self._commit:
            batch = self._take()
            try:
                if batch:
                    self.reports.append(self._append(batch))
            except BaseException:
                self._put_back(batch)
                raise
        error, self._error = self._error, None
        if error is not None and not batch:
            raise error

    def _take(self) -> list[Trajectory | Label]:
        with self._guard:
            batch, self._buffer = self._buffer, []
            self._rows = self._bytes = 0
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
        return batch

    def _put_back(self, batch: list[Trajectory | Label]) -> None:
        with self._guard:
            self._buffer = batch + self._buffer
            self._rows += len(batch)

    def _flush_in_background(self) -> None:
        try:
            self.flush()
        except Exception as error:  # noqa: BLE001  the next call of the owner raises it
            self._error = error

    def close(self) -> None:
        """Flush and take no more."""
        self.flush()
        self._closed = True

    def __enter__(self) -> Self:
        """Use as a context manager."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Flush, also after an error: what was appended before it is good."""
        self.close()


def _size(item: Trajectory | Label) -> int:
    if isinstance(item, Label):
        return 200
    if item.size_bytes:
        return item.size_bytes
    return sum(
        len(s.text or "") + sum(len(o.text or "") for o in s.observations) for s in item.steps
    )
