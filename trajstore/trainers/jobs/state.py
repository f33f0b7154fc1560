"""What a job remembers between two starts: a small file, and metrics that agree with it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trajstore.errors import TrainingError
from trajstore.schema import json_text
from trajstore.trainers.metrics import read_metrics
from trajstore.trainers.trainer import METRICS_FILE

STATE_FILE = "state.json"
"""Name of the file in the job's folder."""


def is_first_process() -> bool:
    """Whether this process writes the job's files: the first of those that torchrun starts."""
    return os.environ.get("RANK", "0") == "0"


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

    def __init__(self, folder: Path, values: dict[str, Any]) -> None:
        """Take over what is known; see :meth:`begin`."""
        self._folder = folder
        self._values = values
        self._metrics = folder / METRICS_FILE
        kept = read_metrics(self._metrics)[: values.get("lines", 0)]
        self.lines = len(kept)
        """Lines of metrics so far."""
        folder.mkdir(parents=True, exist_ok=True)
        if not is_first_process():
            return
        self._metrics.write_text("".join(json_text(k) + "\n" for k in kept), encoding="utf-8")

    @classmethod
    def begin(cls, folder: Path, digest: str, *, resume: bool, fresh: bool) -> JobState:
        """The state of a job in a folder: a new one, or the one to go on from.

        Args:
            folder: of the job.
            digest: of its file.
            resume: there must be something to go on from.
            fresh: remove what is there and start anew.

        Raises:
            TrainingError: the folder holds another job, the file has changed since, or there is
                nothing to go on from.
        """
        file = folder / STATE_FILE
        if not is_first_process() and (fresh or not file.is_file()):
            return cls(folder, {"digest": digest})
        if not file.is_file():
            if resume:
                message = f"{folder} holds no job to go on from; leave --resume out to start one."
                raise TrainingError(message, path=folder)
            if folder.is_dir() and any(folder.iterdir()):
                message = f"{folder} holds other files; give the job an output of its own."
                raise TrainingError(message, path=folder)
        elif fresh:
            shutil.rmtree(folder)
        else:
            values = json.loads(file.read_text(encoding="utf-8"))
            if values.get("digest") != digest:
                raise TrainingError(_changed(folder), path=folder)
            return cls(folder, values)
        made = cls(folder, {"digest": digest})
        made.remember("digest", digest)
        return made

    def recall(self, name: str, default: Any = None) -> Any:
        """The value of a name, as it was kept."""
        return self._values.get(name, default)

    def remember(self, name: str, value: Any) -> None:
        """Keep a value that JSON can hold."""
        self._values = {**self._values, name: value, "lines": self.lines}
        if is_first_process():
            write_json(self._folder / STATE_FILE, self._values)

    def log(self, line: Mapping[str, Any]) -> None:
        """Append a line of metrics."""
        if not is_first_process():
            return
        with self._metrics.open("a", encoding="utf-8") as file:
            file.write(json_text(dict(line)) + "\n")
        self.lines += 1


def _changed(folder: Path) -> str:
    return (
        f"The job in {folder} was started with another file. Change the file back to go on with "
        "it, give this one another output, or start anew with --fresh, which removes the folder."
    )
