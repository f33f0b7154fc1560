"""Filter and rank a million summary rows: ``python -m benchmarks.ranking``.

Keeps successes with at most 30 tool calls and of those the two best of each task: by reward, then
tool calls, tokens, id. Beside it pandas does the same over the same columns, and both must keep the
same runs. The target is less than three seconds of wall time for a million rows with eight attempts
a task, on a machine that does nothing else; CPU time stands beside it.
"""

from __future__ import annotations

import argparse
import importlib.util
import resource
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if __package__ in {None, ""}:  # run as a file: python benchmarks/ranking.py
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pyarrow as pa

from benchmarks.measure import (
    DisagreementError,
    Row,
    environment,
    milliseconds,
    time_rounds,
    timed_rows,
)
from benchmarks.report import tables
from trajstore.filters import SUMMARY_SCHEMA, Frame, Stage, run_stages, stage
from trajstore.filters.shingles import arrays

if TYPE_CHECKING:
    from trajstore.schema import Trajectory

WORK = "filter and rank summary rows"
MOST_S = 3.0
"""The design's target for a million rows."""

STAGES: tuple[Stage, ...] = (
    stage("success"),
    stage("tool-calls", most=30),
    stage("top-n", n=2),
)
"""What trajstore does."""


def summary_rows(n: int, seed: int = 0) -> pa.Table:
    """``n`` summary rows in no order, eight attempts a task, one in twenty of unknown outcome."""
    np = arrays()
    draw = np.random.default_rng(seed)
    numbers = draw.permutation(n)
    chance = draw.random(n)
    made: dict[str, Any] = {
        "trajectory_id": [f"0190{i % 65536:04x}-0000-8000-8000-{i:012x}" for i in numbers],
        "task_id": [f"env/{i // 8}" for i in numbers],
        "attempt": numbers % 8,
        "source": np.array(["a", "b", "c"])[draw.integers(0, 3, n)],
        "environment": np.array(["x", "y"])[draw.integers(0, 2, n)],
        "agent": np.array(["p", "q", "r"])[draw.integers(0, 3, n)],
        "success": pa.array(chance < 0.5, mask=chance > 0.95),
        "reward": np.round(draw.random(n), 2),
        "prompt_tokens": draw.integers(1_000, 90_000, n),
        "completion_tokens": draw.integers(100, 9_000, n),
        "duration_s": draw.random(n) * 100,
    }
    counts = ("n_steps", "n_agent_steps", "n_tool_calls", "n_tool_errors", "n_format_errors")
    made |= {name: draw.integers(0, 40, n) for name in (*counts, "size_bytes")}
    columns = [
        pa.array(made[f.name]).cast(f.type) if f.name in made else pa.nulls(n, f.type)
        for f in SUMMARY_SCHEMA
    ]
    return pa.table(columns, schema=SUMMARY_SCHEMA)


class NoSteps:
    """Steps that no stage of this benchmark asks for."""

    def sql(self, query: str) -> pa.Table:
        """Refuse."""
        raise NotImplementedError(query)

    def trajectories(self, ids: Sequence[str]) -> Iterator[Trajectory]:
        """Refuse."""
        raise NotImplementedError(ids)


def by_trajstore(rows: pa.Table) -> list[str]:
    """Ids of the runs that the stages keep, in ascending order."""
    return run_stages(Frame(rows, NoSteps()), STAGES).ids()


def by_pandas(rows: pa.Table) -> list[str]:
    """The same in pandas."""
    frame = rows.to_pandas()
    good = frame[(frame["success"] == True) & (frame["n_tool_calls"] <= 30)]  # noqa: E712
    good = good.assign(tokens=good["prompt_tokens"] + good["completion_tokens"])
    ordered = good.sort_values(
        ["task_id", "reward", "n_tool_calls", "tokens", "trajectory_id"],
        ascending=[True, False, True, True, True],
    )
    kept = ordered.groupby("task_id", sort=False).head(2)
    return sorted(kept["trajectory_id"])


def measure(n: int, *, repeats: int, pandas: bool) -> list[Row]:
    """Rows of wall time.

    Raises:
        DisagreementError: the two keep different runs.
    """
    rows = summary_rows(n)
    jobs: dict[str, Callable[[int], list[str]]] = {"trajstore": lambda _: by_trajstore(rows)}
    if pandas:
        jobs["pandas"] = lambda _: by_pandas(rows)
    kept: dict[str, list[str]] = {}
    check = partial(_check, kept)
    took = time_rounds(jobs, repeats=repeats, budget_s=600.0, check=check)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    notes = {name: f"{len(kept[name]):,} of {n:,} runs kept" for name in jobs}
    notes["trajstore"] += f"; peak memory of the process {peak:,.0f} MB"
    return timed_rows(WORK, took, "ms", milliseconds, notes=notes)


def _check(kept: dict[str, list[str]], name: str, _: int, ids: list[str]) -> None:
    kept[name] = ids
    if kept.get("trajstore", ids) != ids:
        raise DisagreementError(f"{name} keeps other runs than trajstore")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; 1 if a side disagrees or the target is missed."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.ranking",
        description="Filter and rank summary rows.",
        epilog="Example: python -m benchmarks.ranking --rows 100000",
    )
    parser.add_argument("--rows", type=int, default=1_000_000, help="summary rows")
    parser.add_argument("--repeats", type=int, default=5, help="runs of each side")
    given = parser.parse_args(arguments)
    pandas = importlib.util.find_spec("pandas") is not None
    if not pandas:
        print("not measured: pandas (pip install pandas)", file=sys.stderr)
    asked = sys.argv[1:] if arguments is None else arguments
    about = environment(["python", "-m", "benchmarks.ranking", *asked])
    try:
        rows = measure(given.rows, repeats=given.repeats, pandas=pandas)
    except DisagreementError as error:
        print(f"The sides disagree: {error}", file=sys.stderr)
        return 1
    print("\n".join(f"- {name}: {about[name]}" for name in ("command", "machine", "load before")))
    seconds = rows[0].value / 1000
    print(f"\n{tables(rows)}\n\n{seconds:.2f} s, target below {MOST_S:g} s for a million rows")
    return 0 if seconds < MOST_S else 1


if __name__ == "__main__":
    sys.exit(main())
