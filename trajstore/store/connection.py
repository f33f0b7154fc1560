"""DuckDB connections: one for our own reads, one a snapshot for everybody's SQL."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import duckdb

from trajstore._optional import require
from trajstore.store.layout import Location


def quoted(text: str) -> str:
    """Text as an SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def internal_connection(
    location: Location, *, memory_limit: str | None = None, threads: int | None = None
) -> duckdb.DuckDBPyConnection:
    """An in-memory DuckDB that caches Parquet footers and reads the store's files.

    Args:
        location: a store on an object store needs its file system registered.
        memory_limit: such as ``"2GB"``; DuckDB's own default where None.
        threads: worker threads; all cores where None.
    """
    connection = duckdb.connect(":memory:")
    connection.execute("SET parquet_metadata_cache=true")
    connection.execute("SET python_enable_replacements=false")
    connection.execute("SET preserve_insertion_order=true")
    connection.execute("SET TimeZone='UTC'")
    connection.execute("SET autoinstall_known_extensions=false")
    connection.execute("SET autoload_known_extensions=false")
    connection.execute(f"SET temp_directory={quoted(tempfile.gettempdir() + '/trajstore-spill')}")
    if memory_limit is not None:
        connection.execute(f"SET memory_limit={quoted(memory_limit)}")
    if threads is not None:
        connection.execute(f"SET threads={int(threads)}")
    if location.local is None:
        connection.register_filesystem(object_store(location))
    return connection


def object_store(location: Location) -> Any:
    """An fsspec file system for the location's object store.

    Raises:
        MissingDependencyError: the package for it is not installed.
    """
    scheme = urlsplit(location.uri).scheme
    if scheme not in {"s3", "s3a"}:
        fsspec = require("fsspec", extra="s3", purpose=f"A store on {scheme}://")
        return fsspec.filesystem(scheme)
    s3fs = require("s3fs", extra="s3", purpose="A store on S3")
    return s3fs.S3FileSystem(**_s3_arguments(location.storage_options))


def _s3_arguments(options: Mapping[str, str]) -> dict[str, object]:
    lowered = {k.lower(): v for k, v in options.items()}
    arguments: dict[str, object] = {"use_listings_cache": False, "skip_instance_cache": True}
    client: dict[str, object] = {}
    for ours, theirs in (
        ("aws_access_key_id", "key"),
        ("aws_secret_access_key", "secret"),
        ("aws_session_token", "token"),
        ("aws_endpoint_url", "endpoint_url"),
    ):
        if ours in lowered:
            arguments[theirs] = lowered[ours]
    if "aws_region" in lowered:
        client["region_name"] = lowered["aws_region"]
    if client:
        arguments["client_kwargs"] = client
    return arguments
