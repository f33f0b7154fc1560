"""The store on disk: one Delta table of record, read with DuckDB."""

from __future__ import annotations

from trajstore.store.append import AppendReport, Batch
from trajstore.store.conflicts import Conflict
from trajstore.store.pins import Pin
from trajstore.store.reader import Condition, Reader
from trajstore.store.store import Store
from trajstore.store.upkeep import CompactReport, DeleteReport, VacuumReport
from trajstore.store.values import Transcript
from trajstore.store.verify import VerifyReport, verify_store
from trajstore.store.views import VIEW_MEANINGS, VIEW_NAMES
from trajstore.store.writer import TrajectoryWriter

__all__ = [
    "VIEW_MEANINGS",
    "VIEW_NAMES",
    "AppendReport",
    "Batch",
    "CompactReport",
    "Condition",
    "Conflict",
    "DeleteReport",
    "Pin",
    "Reader",
    "Store",
    "TrajectoryWriter",
    "Transcript",
    "VacuumReport",
    "VerifyReport",
    "verify_store",
]
