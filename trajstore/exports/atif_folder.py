"""A folder of ATIF documents, one a run, with a manifest."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from trajstore.errors import ExportError
from trajstore.exports.atif import atif_text
from trajstore.exports.files import WrittenFile
from trajstore.exports.manifest import (
    MANIFEST,
    ExportReport,
    Lineage,
    Tally,
    earlier_files,
    manifest,
    manifest_text,
)
from trajstore.schema import Trajectory, digest

_ENDING = ".trajectory.json"
_SAFE = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,150}")
_NO_LINEAGE = Lineage()


@dataclass(frozen=True, slots=True, kw_only=True)
class AtifReport(ExportReport):
    """What :func:`export_atif` wrote."""

    size_bytes: int
    """Bytes of all documents."""


def export_atif(
    trajectories: Iterable[Trajectory],
    folder: Path | str,
    *,
    lineage: Lineage = _NO_LINEAGE,
) -> AtifReport:
    """Write ``ID.trajectory.json`` for each run, and ``manifest.json`` at the end.

    Each file appears complete or not at all. An id that cannot be a file name is replaced by its
    hash in the name, never in the file. Memory holds one run, and name, size and hash of each file.
    Documents of an earlier export in the folder that are not written again are removed.

    Args:
        trajectories: the runs, read once.
        folder: made if it is not there.
        lineage: how the runs were selected; goes into the manifest.

    Raises:
        ExportError: ``folder`` is a file, it holds documents that no manifest names, or two runs
            have the same id.
    """
    out = Path(folder)
    earlier = _checked(out)
    out.mkdir(parents=True, exist_ok=True)
    files: dict[str, WrittenFile] = {}
    tally = Tally()
    for trajectory in trajectories:
        name = _file_name(trajectory.trajectory_id)
        if name in files:
            which = trajectory.trajectory_id
            raise ExportError(f"two runs have the id {which!r}; export one of them", path=out)
        files[name] = _write(out / name, atif_text(trajectory) + "\n")
        tally.take(trajectory.trajectory_id, success=trajectory.success, rules={})
    report = _report(out, tuple(files.values()), tally, lineage)
    _write(out / MANIFEST, manifest_text(report.manifest))
    for stale in earlier - files.keys():
        (out / stale).unlink(missing_ok=True)
    return report


def _checked(folder: Path) -> set[str]:
    """Documents of an earlier export; refuse a folder with documents that are not known."""
    if folder.exists() and not folder.is_dir():
        raise ExportError(f"{folder} is a file; an export goes into a folder", path=folder)
    if not folder.exists():
        return set()
    earlier = set(earlier_files(folder))
    foreign = sorted(p.name for p in folder.glob(f"*{_ENDING}") if p.name not in earlier)
    if foreign:
        message = (
            f"{folder} holds {foreign[0]}, which no {MANIFEST} names (an export that was stopped "
            "leaves such files); export into another folder, or remove them"
        )
        raise ExportError(message, path=folder)
    return {name for name in earlier if name.endswith(_ENDING)}


def _file_name(trajectory_id: str) -> str:
    stem = trajectory_id if _SAFE.fullmatch(trajectory_id) else digest(trajectory_id)
    return f"{stem}{_ENDING}"


def _write(path: Path, text: str) -> WrittenFile:
    content = text.encode("utf-8")
    staged = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        staged.write_bytes(content)
        staged.replace(path)
    finally:
        staged.unlink(missing_ok=True)
    sha256 = hashlib.sha256(content).hexdigest()
    return WrittenFile(name=path.name, rows=1, sha256=sha256, bytes=len(content))


def _report(
    folder: Path, files: tuple[WrittenFile, ...], tally: Tally, lineage: Lineage
) -> AtifReport:
    content = manifest(
        tally,
        lineage,
        kind="atif",
        to="atif",
        format_="json",
        files=files,
        rows=len(files),
        options={},
    )
    content["created_by"] = "trajstore export atif"
    return AtifReport(
        folder=folder,
        files=files,
        rows=len(files),
        runs=len(files),
        refused={},
        refused_ids={},
        manifest=content,
        size_bytes=sum(file.bytes for file in files),
    )
