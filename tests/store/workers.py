"""What other processes do to a store in the tests of its promises."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.context import ForkServerContext, ForkServerProcess
from typing import Any

import trajstore
from trajstore import Observation, Pool, Step, ToolCall, Trajectory


def start(work: Callable[..., None], *arguments: Any) -> ForkServerProcess:
    """Run a function in a process of its own that shares nothing with this one."""
    context: ForkServerContext = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.store.workers", "trajstore.pipeline"])
    process = context.Process(target=work, args=arguments, daemon=True)
    process.start()
    return process


def run(name: str, steps: int = 3) -> Trajectory:
    """A small run with a call in each step."""
    call = ToolCall.of("search", {"q": name})
    step = Step(
        actor="agent", text=name, tool_calls=(call,), observations=(Observation(text=name * 20),)
    )
    return Trajectory(trajectory_id=name, task_id="t", source="test", steps=(step,) * steps)


def append_for_ever(uri: str, acknowledged: str, prefix: str, most: int = 10**9) -> None:
    """Append small batches, and write down each id only after the append returned."""
    store = trajstore.open(uri)
    out = os.open(acknowledged, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for n in range(most):
        runs = [run(f"{prefix}-{n}-{k}", steps=1 + (n + k) % 4) for k in range(1 + n % 3)]
        store.append(runs)
        os.write(out, "".join(f"{r.trajectory_id}\n" for r in runs).encode())


def tidy_for_ever(uri: str) -> None:
    """Compact, label, replace and delete without end."""
    store = trajstore.open(uri)
    n = 0
    while True:
        n += 1
        store.compact()
        store.append([run("tidy", steps=n), run(f"gone-{n}")])
        store.delete(f"trajectory_id = 'gone-{n}'")


def append_all(uri: str, names: list[str]) -> None:
    """Append the runs one by one."""
    store = trajstore.open(uri, durable=False)
    for name in names:
        store.append(run(name))


def append_versions(uri: str, most: int) -> None:
    """Append ever longer versions of one run."""
    store = trajstore.open(uri, durable=False)
    for n in range(1, most + 1):
        store.append(run("growing", steps=n))


def append_as_nobody(uri: str, result: str) -> None:
    """Try to append without the right to."""
    os.setgid(65534)
    os.setuid(65534)
    try:
        trajstore.open(uri).append(run("x"))
    except trajstore.TrajstoreError as error:
        outcome = f"{type(error).__name__}: {error}"
    else:
        outcome = "appended"
    with open(result, "w") as file:  # noqa: PTH123
        file.write(outcome)


def check_whole(store: Pool) -> set[str]:
    """Ids in the store, after checking that each has exactly its steps and no step is alone."""
    partial = store.sql(
        """
        select coalesce(t.trajectory_id, s.trajectory_id)
        from trajectories t
        full join (select trajectory_id, count(*) n, count(distinct step_index) d
                   from steps group by 1) s using (trajectory_id)
        where t.n_steps is null or t.n_steps <> coalesce(s.n, 0) or s.n <> s.d
        """
    ).fetchall()
    assert partial == []
    ids = [i for (i,) in store.sql("select trajectory_id from trajectories").fetchall()]
    assert len(ids) == len(set(ids))
    return set(ids)


def versions(names: list[str]) -> list[Trajectory]:
    """The same runs, a step longer."""
    return [replace(run(n), steps=run(n, steps=4).steps) for n in names]
