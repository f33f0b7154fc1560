"""Frames to test stages with: summary rows written by hand, or runs in a real store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from trajstore import Observation, Step, ToolCall, Trajectory
from trajstore import open as open_store
from trajstore.filters import SUMMARY_SCHEMA, Frame, Selection, Stage, run_stages
from trajstore.pipeline.selecting import summary_frame
from trajstore.schema import finish

_COUNTS = {"n_steps", "n_agent_steps", "n_tool_calls", "n_tool_errors", "n_format_errors"}


class NoSteps:
    """Steps of runs that are there as summaries only; to ask for them is a fault."""

    def sql(self, query: str) -> pa.Table:
        raise AssertionError(query)

    def trajectories(self, ids: Sequence[str]) -> Iterator[Trajectory]:
        raise AssertionError(ids)


def summaries(*rows: Mapping[str, Any]) -> Frame:
    """A frame of summary rows; ids are a, b, c, ... and the rest is null or 0 unless given."""
    full = [
        {"trajectory_id": chr(97 + place), "task_id": "task", "source": "hand"}
        | dict.fromkeys({*_COUNTS, "size_bytes"}, 0)
        | dict(row)
        for place, row in enumerate(rows)
    ]
    columns = {n: [r.get(n) for r in full] for n in SUMMARY_SCHEMA.names}
    arrays = [pa.array(columns[f.name], f.type) for f in SUMMARY_SCHEMA]
    return Frame(pa.table(arrays, schema=SUMMARY_SCHEMA), NoSteps())


def stored(folder: Path, *runs: Trajectory) -> Frame:
    """A frame over a store that holds the runs."""
    pool = open_store(folder / "pool", durable=False)
    pool.append([finish(r) for r in runs])
    return summary_frame(pool.reader())


def run(identity: str, *steps: Step, **fields: Any) -> Trajectory:
    """A run of a few steps."""
    given = {"task_id": "task", "source": "hand"} | fields
    return finish(Trajectory(trajectory_id=identity, steps=steps, **given))


def call(name: str, arguments: Any, result: str = "ok", *, is_error: bool | None = None) -> Step:
    """An agent step with one tool call and its result."""
    return Step(
        actor="agent",
        tool_calls=(ToolCall.of(name, arguments, "c"),),
        observations=(Observation(call_id="c", text=result, is_error=is_error),),
    )


def said(text: str) -> Step:
    """An agent step that only says something."""
    return Step(actor="agent", text=text)


def asked(text: str) -> Step:
    """A user step."""
    return Step(actor="user", text=text)


def bash(command: str, result: str = "", *, is_error: bool | None = None) -> Step:
    """A shell command with its output."""
    return call("bash", {"command": command}, result, is_error=is_error)


def selected(frame: Frame, *stages: Stage) -> Selection:
    """What the stages leave."""
    return run_stages(frame, stages)


def why(selection: Selection) -> dict[str, str]:
    """Id -> reason of everything that was dropped."""
    rows = selection.dropped.to_pylist()
    return {r["trajectory_id"]: r["reason"] for r in rows}


def details(selection: Selection) -> dict[str, str | None]:
    """Id -> detail of everything that was dropped."""
    return {r["trajectory_id"]: r["detail"] for r in selection.dropped.to_pylist()}
