"""Where a training set comes from: lineage, counts, and the files that tell them."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from trajstore.errors import ExportError
from trajstore.exports.files import Kind, WrittenFile
from trajstore.schema import SCHEMA_VERSION

MANIFEST = "manifest.json"
"""Name of the file that describes an export."""

CARD = "README.md"
"""Name of the dataset card, which ``datasets`` reads."""

_MOST_IDS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """How the runs of an export were selected."""

    snapshot: int | None = None
    """Snapshot of the store, or None where the runs come from elsewhere."""
    filter: str = ""
    """The selection in words or SQL, enough to make it again."""
    funnel: Sequence[Mapping[str, Any]] = ()
    """One object a stage: ``stage``, ``parameters``, ``in``, ``out``, ``dropped`` (reason ->
    count)."""


@dataclass(slots=True)
class Tally:
    """Counts what becomes of the runs of one export, or of the pairs or tasks."""

    runs_in: int = 0
    runs_out: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    refused_ids: dict[str, list[str]] = field(default_factory=dict)
    rules: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    _last: str | None = None
    _ids: Any = field(default_factory=hashlib.sha256)

    def refuse(self, trajectory_id: str, reason: str) -> None:
        """Count a run that gives no row; the first 100 ids of each reason are kept."""
        self.runs_in += 1
        self.refused[reason] += 1
        ids = self.refused_ids.setdefault(reason, [])
        if len(ids) < _MOST_IDS:
            ids.append(trajectory_id)

    def take(self, trajectory_id: str, *, success: bool | None, rules: Mapping[str, int]) -> None:
        """Count a row; rows of one run come one after the other."""
        self.rules.update(rules)
        if trajectory_id == self._last:
            return
        self._last = trajectory_id
        self.runs_in += 1
        self.runs_out += 1
        self.outcomes[{True: "success", False: "failure", None: "unknown"}[success]] += 1
        self._ids.update(trajectory_id.encode() + b"\n")

    @property
    def ids_sha256(self) -> str:
        """SHA-256 over the ids of the exported runs in order, each followed by a newline."""
        return str(self._ids.hexdigest())


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportReport:
    """What an export wrote and what it refused."""

    folder: Path | None
    """Where it lies; None for a stream."""
    files: tuple[WrittenFile, ...]
    """The data files; empty for a stream."""
    rows: int
    """Rows written."""
    runs: int
    """Runs that gave at least one row."""
    refused: Mapping[str, int]
    """Reason -> runs (or pairs, or tasks) that gave none."""
    refused_ids: Mapping[str, Sequence[str]]
    """Reason -> the first 100 of their ids."""
    manifest: Mapping[str, Any]
    """What ``manifest.json`` says."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Reason of a refusal that occurred -> why, and what to do."""


def manifest(  # noqa: PLR0913 - what an export was told, each by name
    tally: Tally,
    lineage: Lineage,
    *,
    kind: str,
    to: str,
    format_: str,
    files: Sequence[WrittenFile],
    rows: int,
    options: Mapping[str, Any],
    unit: str = "trajectories",
) -> dict[str, Any]:
    """Everything there is to say about an export; equal exports have equal manifests.

    ``unit`` says what the tally counts: ``trajectories``, or ``pairs`` or ``tasks``, which have no
    outcome of their own.
    """
    counted: dict[str, Any] = {unit: tally.runs_out}
    if unit == "trajectories":
        counted["outcomes"] = _sorted(tally.outcomes)
    stage = {
        "stage": f"export {kind}",
        "parameters": {"to": to, **options},
        "in": tally.runs_in,
        "out": tally.runs_out,
        "dropped": _sorted(tally.refused),
    }
    return {
        "kind": kind,
        "to": to,
        "format": format_,
        "rows": rows,
        **counted,
        "refused": _sorted(tally.refused),
        "refused_ids": {reason: tally.refused_ids[reason] for reason in sorted(tally.refused_ids)},
        "rules_applied": _sorted(tally.rules),
        "snapshot": lineage.snapshot,
        "filter": lineage.filter,
        "selection_funnel": [*(dict(s) for s in lineage.funnel), stage],
        "ids_sha256": tally.ids_sha256,
        "schema_version": SCHEMA_VERSION,
        "trajstore_version": _version(),
        "created_by": f"trajstore export {kind} --to {to} --format {format_}",
        "files": [asdict(f) for f in files],
    }


def _sorted(counts: Mapping[str, int]) -> dict[str, int]:
    return {name: counts[name] for name in sorted(counts)}


def _version() -> str:
    try:
        return importlib.metadata.version("trajstore")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def manifest_text(content: Mapping[str, Any]) -> str:
    """The manifest as indented JSON."""
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def earlier_files(folder: Path) -> list[str]:
    """Names of the data and further files that an earlier export left in the folder.

    Raises:
        ExportError: the folder holds a manifest that trajstore did not write.
    """
    path = folder / MANIFEST
    if not path.exists():
        return []
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        told = [file["name"] for file in content["files"]] + content.get("further_files", [])
        names = [Path(name).name for name in told]
    except (ValueError, KeyError, TypeError) as error:
        message = f"{path} is no manifest of trajstore; export into another folder"
        raise ExportError(message, path=path) from error
    return names


_CARD_TYPES: Mapping[Kind, str] = {
    "json-list": "list: json",
    "bool-list": "list: bool",
    "int-list": "list: int32",
    "double-list": "list: float64",
    "string": "dtype: string",
    "double": "dtype: float64",
    "int": "dtype: int64",
    "bool": "dtype: bool",
    "json": "dtype: json",
    "said-list": "list:\n    - name: role\n      dtype: string\n    - name: content\n      "
    "dtype: string",
}


def card_text(content: Mapping[str, Any], columns: Mapping[str, Kind], usage: str) -> str:
    """The dataset card: data files and features for ``datasets``, counts and usage for people."""
    file = content["files"][0]["name"]
    told = set(columns.values()) <= _CARD_TYPES.keys()
    features = "".join(f"  - name: {n}\n    {_CARD_TYPES[k]}\n" for n, k in columns.items() if told)
    refused = ", ".join(f"{reason} {n}" for reason, n in content["refused"].items()) or "none"
    return (
        "---\n"
        "configs:\n- config_name: default\n  data_files:\n"
        f"  - split: train\n    path: {file}\n"
        + (f"dataset_info:\n  features:\n{features}" if told else "")
        + "---\n\n"
        f"# {content['kind']} set for {content['to']}, written by trajstore\n\n"
        f"{content['rows']} rows from {content['trajectories']} trajectories; refused: {refused}.\n"
        f"`{MANIFEST}` tells where they come from.\n\n{usage}"
    )
