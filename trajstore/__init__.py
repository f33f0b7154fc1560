"""trajstore: the place where LLM-agent trajectories live and turn into better agents.

>>> import trajstore
>>> store = trajstore.open("pool")                     # doctest: +SKIP
>>> store.import_files("runs/")                        # doctest: +SKIP
>>> store.sql("select agent, avg(success::int) from trajectories group by 1").pl()  # doctest: +SKIP
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trajstore.errors import TrajstoreError
    from trajstore.importers import ImportOptions
    from trajstore.pipeline import ImportReport, Pool
    from trajstore.schema import (
        Label,
        Observation,
        Reflection,
        Skill,
        Step,
        ToolCall,
        Trajectory,
        Workflow,
        trajectory_id,
    )
    from trajstore.store import Batch, Store

__version__ = "0.1.0"

_HOMES = {
    "TrajstoreError": "trajstore.errors",
    "ImportOptions": "trajstore.importers",
    "ImportReport": "trajstore.pipeline",
    "Pool": "trajstore.pipeline",
    "Label": "trajstore.schema",
    "Observation": "trajstore.schema",
    "Reflection": "trajstore.schema",
    "Skill": "trajstore.schema",
    "Step": "trajstore.schema",
    "ToolCall": "trajstore.schema",
    "Trajectory": "trajstore.schema",
    "Workflow": "trajstore.schema",
    "trajectory_id": "trajstore.schema",
    "Batch": "trajstore.store",
    "Store": "trajstore.store",
}

__all__ = [
    "Batch",
    "ImportOptions",
    "ImportReport",
    "Label",
    "Observation",
    "Pool",
    "Reflection",
    "Skill",
    "Step",
    "Store",
    "ToolCall",
    "Trajectory",
    "TrajstoreError",
    "Workflow",
    "open",
    "trajectory_id",
]


def open(  # noqa: A001  trajstore.open reads as it should
    uri: str | Path,
    *,
    create: bool = True,
    storage_options: Mapping[str, str] | None = None,
    durable: bool = True,
    memory_limit: str | None = None,
) -> Pool:
    """Open (or make) the store at a folder or an object-store URI.

    Args:
        uri: folder, or URI such as ``s3://bucket/pool``.
        create: make it where it is not there yet.
        storage_options: of the object store, as deltalake takes them (``AWS_ENDPOINT_URL``, ...).
        durable: appends return only when they would survive a power loss.
        memory_limit: for SQL, such as ``"4GB"``; 80 % of the memory where None.

    Raises:
        StoreNotFoundError: there is none and ``create`` is False.
        StoreFormatError: it is of a version that this trajstore cannot read.
    """
    from trajstore.pipeline import Pool

    return Pool(
        uri,
        create=create,
        storage_options=storage_options,
        durable=durable,
        memory_limit=memory_limit,
    )


def __getattr__(name: str) -> object:
    """Load a public name when it is first used, so that ``import trajstore`` costs nothing."""
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    message = f"module 'trajstore' has no attribute {name!r}"
    raise AttributeError(message)


def __dir__() -> list[str]:
    """Public names."""
    return [*__all__, "__version__"]
