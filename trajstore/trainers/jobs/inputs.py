"""What a job is given beside its file, so that going on with something else is noticed."""

from __future__ import annotations

import hashlib
from pathlib import Path

from trajstore.filters import Selection
from trajstore.schema import digest
from trajstore.trainers.jobs.config import JobConfig
from trajstore.trainers.jobs.state import JobState

_END = 1 << 20
"""Bytes at each end of a file of weights that are looked at."""
_WEIGHTS = ("*.safetensors", "*.bin", "config.json", "adapter_config.json")


def check_inputs(config: JobConfig, state: JobState, seen: dict[str, str]) -> None:
    """Compare what a job is given now with what it began with; remember that, the first time.

    Args:
        config: of the job.
        state: of the job.
        seen: of :func:`inputs_of`.

    Raises:
        TrainingError: the selection or the base is another one.
    """
    known = state.recall("inputs")
    if known is None:
        state.remember("inputs", seen)
        return
    for name, (table, key) in {
        "selection": ("data", "selection"),
        "base": ("model", "base"),
    }.items():
        if known.get(name) != seen.get(name):
            message = (
                f"What {key} names has changed since this job began. Put it back to go on, give "
                "the job another output, or start anew with --fresh, which removes its folder."
            )
            raise config.error(message, table, key)


def inputs_of(config: JobConfig) -> dict[str, str]:
    """Hashes of the selection's ids and of the base's files, where the file names them.

    Weights are many bytes, so a file of them counts by its name, size, beginning and end.
    """
    seen: dict[str, str] = {}
    if config.data.selection is not None:
        chosen = Selection.read(config.located(config.data.selection))
        seen["selection"] = digest("selection", str(chosen.snapshot), *sorted(chosen.ids()))
    if config.base is not None:
        files = sorted({f for pattern in _WEIGHTS for f in config.base.glob(pattern)})
        seen["base"] = digest("base", *(part for f in files for part in (f.name, _ends(f))))
    return seen


def _ends(file: Path) -> str:
    size = file.stat().st_size
    with file.open("rb") as stream:
        seen = hashlib.sha256(stream.read(_END))
        stream.seek(max(0, size - _END))
        seen.update(stream.read(_END))
    return f"{size}:{seen.hexdigest()}"
