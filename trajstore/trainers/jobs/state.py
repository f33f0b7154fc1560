"""What a job remembers between two starts: a small file, and metrics that agree with it."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trajstore.errors import TrainingError
from trajstore.schema import json_text
from trajstore.trainers.jobs.processes import ALONE, Processes
from trajstore.trainers.metrics import read_metrics
from trajstore.trainers.trainer import METRICS_FILE

STATE_FILE = "state.json"
"""Name of the file in the job's folder."""
_LOCK = ".lock"


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a file whole or not at all, also if the process is killed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.new")
    with beside.open("w", encoding="utf-8") as file:
        file.write(json.dumps(value, indent=1, sort_keys=True) + "\n")
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


class JobState:
    """Values by name, each kept as soon as it is set, and lines of metrics.

    Lines that were written after the last value was kept are dropped at the next start, as the
    work behind them is done again: so a job that was killed has the lines of one that was not.
    """

    def __init__(self, folder: Path, values: dict[str, Any], *, writes: bool = True) -> None:
        """Take over what is known; see :meth:`begin`."""
        self._folder = folder
        self._values = values
        self._writes = writes
        self._metrics = folder / METRICS_FILE
        self.lines = 0
        """Lines of metrics so far."""
        if not writes:
            return
        kept = read_metrics(self._metrics)[: values.get("lines", 0)]
        self.lines = len(kept)
        folder.mkdir(parents=True, exist_ok=True)
        self._metrics.write_text("".join(json_text(k) + "\n" for k in kept), encoding="utf-8")

    @classmethod
    def begin(
        cls,
        folder: Path,
        digest: str,
        *,
        resume: bool,
        fresh: bool,
        processes: Processes = ALONE,
    ) -> JobState:
        """The state of a job in a folder: a new one, or the one to go on from.

        Args:
            folder: of the job.
            digest: of its file.
            resume: there must be something to go on from.
            fresh: remove what is there and start anew.
            processes: that begin together; the first one looks and writes.

        Raises:
            TrainingError: the folder holds another job, the file has changed since, there is
                nothing to go on from, or another process works there.
        """
        lock = _locked(folder) if processes.first else None
        known = processes.once(lambda: _known(folder, digest, resume=resume, fresh=fresh))
        made = cls(folder, known or {"digest": digest}, writes=processes.first)
        if lock is not None:
            weakref.finalize(made, os.close, lock)
        if known is None:
            made.remember("digest", digest)
        return made

    def recall(self, name: str, default: Any = None) -> Any:
        """The value of a name, as it was kept."""
        return self._values.get(name, default)

    def remember(self, name: str, value: Any) -> None:
        """Keep a value that JSON can hold."""
        self._values = {**self._values, name: value, "lines": self.lines}
        if self._writes:
            write_json(self._folder / STATE_FILE, self._values)

    def log(self, line: Mapping[str, Any]) -> None:
        """Append a line of metrics."""
        if not self._writes:
            return
        with self._metrics.open("a", encoding="utf-8") as file:
            file.write(json_text(dict(line)) + "\n")
        self.lines += 1


def _locked(folder: Path) -> int:
    """A file that is locked for this process as long as it is open, whatever ends the process."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        message = f"Another process works at the job in {folder}; wait for it, or stop it."
        raise TrainingError(message, path=folder) from error
    return lock


def _known(folder: Path, digest: str, *, resume: bool, fresh: bool) -> dict[str, Any] | None:
    """What an earlier start of the job kept; None for a new one, of which nothing is left then."""
    file = folder / STATE_FILE
    if not file.is_file():
        if resume:
            message = f"{folder} holds no job to go on from; leave --resume out to start one."
            raise TrainingError(message, path=folder)
        if any(f.name != _LOCK for f in folder.iterdir()):
            message = f"{folder} holds other files; give the job an output of its own."
            raise TrainingError(message, path=folder)
        return None
    if fresh:
        for old in folder.iterdir():
            if old.is_dir() and not old.is_symlink():
                shutil.rmtree(old)
            elif old.name != _LOCK:
                old.unlink()
        return None
    values: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    if values.get("digest") != digest:
        raise TrainingError(_changed(folder), path=folder)
    return values


def _changed(folder: Path) -> str:
    return (
        f"The job in {folder} was started with another file. Change the file back to go on with "
        "it, give this one another output, or start anew with --fresh, which removes the folder."
    )
