"""What other processes do to an index in the tests of its promises."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing.context import ForkServerContext, ForkServerProcess
from typing import Any

import trajstore
from tests.retrieval.conftest import run
from trajstore.retrieval import items


def start(work: Callable[..., None], *arguments: Any) -> ForkServerProcess:
    """Run a function in a process of its own that shares nothing with this one."""
    context: ForkServerContext = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.retrieval.workers", "trajstore.pipeline"])
    process = context.Process(target=work, args=arguments, daemon=True)
    process.start()
    return process


def append_and_index_for_ever(uri: str, prefix: str) -> None:
    """Append a few runs, delete one now and then, build in small commits, without end."""
    items._RUNS_A_PART = 2
    store = trajstore.open(uri)
    n = 0
    while True:
        n += 1
        store.append([run(f"{prefix}-{n}-{k}", f"sort parcel {prefix} {n} {k}") for k in range(5)])
        store.index(embedder="hashing", levels=["trajectory"])
        store.delete(f"trajectory_id = '{prefix}-{n}-0'")


def index_once(uri: str) -> None:
    """Build the index."""
    items._RUNS_A_PART = 3
    trajstore.open(uri).index(embedder="hashing")
