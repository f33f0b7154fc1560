"""What a job reads: a snapshot that stays readable, and the runs that ``[data]`` names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from random import Random

from trajstore.errors import QueryError, SnapshotError, TrainingError
from trajstore.filters import Selection
from trajstore.schema import Trajectory
from trajstore.store import Reader, Store
from trajstore.trainers.jobs.config import JobConfig
from trajstore.trainers.jobs.processes import Processes
from trajstore.trainers.jobs.state import JobState

_RUNS_A_READ = 256


class JobData:
    """The pinned snapshot of a job and its runs; it never writes to them."""

    def __init__(
        self, config: JobConfig, store: Store, state: JobState, processes: Processes, *, pin: bool
    ) -> None:
        """Open the snapshot that the job began with, or the one to begin with.

        Args:
            config: of the job.
            store: that it reads.
            state: remembers the number of the snapshot.
            processes: that read the same one.
            pin: keep the snapshot from being cleaned away.

        Raises:
            TrainingError: the snapshot is gone.
        """
        self._config = config
        self._store = store
        snapshot = state.recall("snapshot")
        if snapshot is None:
            snapshot = processes.once(lambda: self._begun(pin=pin))
            state.remember("snapshot", snapshot)
        try:
            self.reader: Reader = store.at(snapshot)
        except SnapshotError as error:
            message = f"The snapshot of this job is gone: {error} Start anew with --fresh."
            raise TrainingError(message) from error

    def _begun(self, *, pin: bool) -> int:
        """The snapshot to begin with."""
        asked, selection = self._config.job.snapshot, self._selection
        if asked is None and selection is not None:
            asked = selection.snapshot
        reader = self._store.reader() if asked is None else self._store.at(asked)
        snapshot = reader.snapshot.version
        if pin:
            self._store.pin(self.pin_name, snapshot)
        return snapshot

    @property
    def pin_name(self) -> str:
        """Name of the pin that keeps the job's snapshot readable."""
        return f"train-{self._config.name}-{self._config.digest[:8]}"

    @cached_property
    def _selection(self) -> Selection | None:
        file = self._config.data.selection
        return None if file is None else Selection.read(self._config.located(file))

    def run_ids(self) -> list[str]:
        """Ids of the runs that ``[data]`` names, in ascending order; a sample where it has a limit.

        Raises:
            TrainingError: there are none.
        """
        data = self._config.data
        if self._selection is not None:
            ids = sorted(self._selection.ids())
        else:
            try:
                ids = [i for part in self.reader.ids(data.where) for i in part]
            except QueryError as error:
                raise self._config.error(str(error), "data", "where") from error
        if data.limit is not None and len(ids) > data.limit:
            draw = Random(self._config.job.seed)  # noqa: S311 - a seeded choice, no secret
            ids = sorted(draw.sample(ids, data.limit))
        if not ids:
            message = (
                f"No run of snapshot {self.reader.snapshot.version} fits [data]; trajstore query "
                "shows what there is."
            )
            raise self._config.error(message, "data", "where")
        return ids

    def runs(self, ids: Sequence[str] | None = None) -> Iterator[Trajectory]:
        """Runs of the job's snapshot, a few hundred in memory; those of ``[data]`` where None."""
        chosen = self.run_ids() if ids is None else ids
        for start in range(0, len(chosen), _RUNS_A_READ):
            yield from self.reader.get_many(chosen[start : start + _RUNS_A_READ])
