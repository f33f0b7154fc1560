"""A small store and recipes over it."""

from __future__ import annotations

from pathlib import Path

from trajstore import Observation, Pool, Step, ToolCall, Trajectory
from trajstore import open as open_store

TASKS = {"task-3": "sing", "task-7": "dance", "task-1": "fly", "task-5": "swim", "task-8": "row"}
"""Task -> goal; with a share of 0.2, tasks 3 and 7 are held out (``algorithms.md``: .090402 and
.005101, the others above .2)."""


def run(task: str, attempt: int, *, success: bool) -> Trajectory:
    """A run of two agent turns; what it says and does depends on its number."""
    call = ToolCall.of("look", {"at": f"{TASKS[task]} {attempt}"}, "c1")
    seen = Observation(text="seen", call_id="c1")
    return Trajectory(
        trajectory_id=f"{task}/{attempt}",
        task_id=task,
        attempt=attempt,
        goal=TASKS[task],
        source="hand",
        status="terminated",
        success=success,
        reward=float(success),
        steps=(
            Step(actor="user", text=TASKS[task]),
            Step(actor="agent", text="first", tool_calls=(call,), observations=(seen,)),
            Step(actor="agent", text=f"done {attempt}"),
        ),
    )


def small_store(folder: Path) -> Pool:
    """Five tasks with two attempts: the first succeeds, the second fails."""
    store = open_store(folder, durable=False)
    store.append([run(task, n, success=n == 0) for task in TASKS for n in range(2)])
    return store


def written(folder: Path, text: str, name: str = "recipe.toml") -> Path:
    """A recipe on disk."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text)
    return path


PLACES = 'store = "pool"\noutput = "sets"\n'
SPLIT = "[split]\nshares = { val = 0.2 }\nnear_goals = false\n"
