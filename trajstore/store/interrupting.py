"""Ctrl-C for long queries."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import duckdb

_T = TypeVar("_T")


def interruptible(cursor: duckdb.DuckDBPyConnection, work: Callable[[], _T]) -> _T:
    """Do work of a cursor so that Ctrl-C stops it, and give its result.

    While DuckDB hands over Arrow data it looks at no signal. So the main thread, which gets the
    signals, waits here and lets another one work.

    Raises:
        KeyboardInterrupt: after the cursor has stopped.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    with ThreadPoolExecutor(1) as other:
        future = other.submit(work)
        try:
            return future.result()
        except KeyboardInterrupt:
            cursor.interrupt()
            raise
