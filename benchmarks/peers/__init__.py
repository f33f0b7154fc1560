"""The stores that are measured, one file each."""

from __future__ import annotations

from benchmarks.peers.duckdb_jsonl import DuckdbJsonl
from benchmarks.peers.iceberg_tables import IcebergTables
from benchmarks.peers.jsonl import OrjsonJsonl, StandardJsonl
from benchmarks.peers.lance_tables import LanceTables
from benchmarks.peers.mlflow_traces import MlflowTraces
from benchmarks.peers.pandas_jsonl import PandasJsonl
from benchmarks.peers.parquet_files import ParquetFiles
from benchmarks.peers.peer import (
    Answers,
    Fetches,
    FetchesArrow,
    Ingests,
    IngestsArrow,
    Peer,
)
from benchmarks.peers.sqlite_documents import SqliteDocuments
from benchmarks.peers.sqlite_steps import SqliteSteps
from benchmarks.peers.trajstore_pool import TrajstorePool

PEERS: tuple[type[Peer], ...] = (
    TrajstorePool,
    StandardJsonl,
    OrjsonJsonl,
    SqliteSteps,
    SqliteDocuments,
    PandasJsonl,
    DuckdbJsonl,
    LanceTables,
    IcebergTables,
    ParquetFiles,
    MlflowTraces,
)
"""trajstore first, then its peers in the order of the tables."""

__all__ = [
    "PEERS",
    "Answers",
    "Fetches",
    "FetchesArrow",
    "Ingests",
    "IngestsArrow",
    "Peer",
]
