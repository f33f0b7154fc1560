"""pandas over flat JSONL files, read whole into memory."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from benchmarks import flat
from benchmarks.peers.peer import Peer
from benchmarks.workload import NEEDLE, SHORTEST, Record, Whole

_TEXT = {"trajectory_id": str, "text": str, "reasoning": str, "observation": str, "goal": str}


class PandasJsonl(Peer):
    """``to_json(lines=True)`` in, ``read_json`` out; two files, trajectories and steps."""

    name: ClassVar[str] = "pandas-jsonl"
    about: ClassVar[str] = "fsync of the files; queries run on frames already in memory"
    packages: ClassVar[dict[str, str]] = {"pandas": "pandas"}

    def __init__(self, folder: Path) -> None:
        """Load pandas."""
        super().__init__(folder)
        self._pandas: Any = importlib.import_module("pandas")
        self._runs: Any = None
        self._steps: Any = None

    def ingest(self, records: Sequence[Record]) -> None:
        """Two frames, appended to two files."""
        runs = [flat.trajectory_row(r) for r in records]
        steps = [row for r in records for row in flat.step_rows(r)]
        self._append("trajectories", runs, flat.TRAJECTORIES.names)
        self._append("steps", steps, flat.STEPS.names)

    def _append(self, name: str, rows: list[tuple[Any, ...]], columns: list[str]) -> None:
        frame = self._pandas.DataFrame(rows, columns=columns)
        path = self.folder / f"{name}.jsonl"
        frame.to_json(path, orient="records", lines=True, mode="a")
        with path.open("rb") as file:
            os.fsync(file.fileno())

    def open(self) -> None:
        """Read both files whole."""
        self._runs = self._read("trajectories")
        self._steps = self._read("steps")

    def _read(self, name: str) -> Any:
        return self._pandas.read_json(
            self.folder / f"{name}.jsonl",
            lines=True,
            convert_dates=False,
            precise_float=True,
            dtype=False,
        )

    def close(self) -> None:
        """Drop the frames."""
        self._runs = self._steps = None

    def answer(self, question: str) -> Sequence[Sequence[Any]]:
        """Over the frames."""
        if question == "histogram":
            return [(n, int(c)) for n, c in self._steps["tool_name"].value_counts().items()]
        if question == "search":
            found = self._steps["observation"].str.contains(NEEDLE, regex=False, na=False)
            return [(int(found.sum()),)]
        if question == "shortest":
            return self._shortest()
        by, flag = (
            (["agent", "model"], "success")
            if question == "rates"
            else (
                ["tool_name"],
                "is_error",
            )
        )
        frame = self._runs if question == "rates" else self._steps
        known = frame[frame[flag].notna()]
        grouped = known[flag].astype(float).groupby([known[b] for b in by])
        counted = grouped.agg(["count", "mean"]).reset_index()
        return [
            (*row[:-2], int(row[-2]), float(row[-1]))
            for row in counted.itertuples(index=False, name=None)
        ]

    def _shortest(self) -> list[tuple[Any, ...]]:
        columns = ["task_id", "trajectory_id", "n_tool_calls"]
        solved = self._runs[self._runs["success"].fillna(0).astype(bool)][columns]
        ordered = solved.sort_values(["task_id", "n_tool_calls", "trajectory_id"])
        return list(ordered.groupby("task_id").head(SHORTEST).itertuples(index=False, name=None))

    def fetch(self, ids: Sequence[str]) -> tuple[Any, Any]:
        """Two frames."""
        runs, steps = self._runs, self._steps
        return (
            runs[runs["trajectory_id"].isin(ids)],
            steps[steps["trajectory_id"].isin(ids)],
        )

    def fetched(self, found: Any) -> list[Whole]:
        """Comparable."""
        runs, steps = (
            frame.reindex(columns=names).astype(object).where(frame.notna(), None)
            for frame, names in zip(found, (flat.TRAJECTORIES.names, flat.STEPS.names), strict=True)
        )
        return flat.wholes(
            runs.itertuples(index=False, name=None), steps.itertuples(index=False, name=None)
        )
