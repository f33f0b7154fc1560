"""What must never be in a set: held-out tasks, planted runs, contents known by their hash."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.errors import SelectionError
from trajstore.filters.row_columns import NO_REASON
from trajstore.filters.selection import Frame, NamedStage, StageResult

_NAMED_IN_ERROR = 5


@dataclass(frozen=True, slots=True)
class Deny(NamedStage):
    """Refuse to go on with a run that is on a deny-list.

    Put it where nothing of the list may be left, such as after ``held-out-tasks`` or at the end:
    a selection that would include a denied run fails instead of leaving it out in silence.
    """

    name: ClassVar[str] = "deny"

    tasks: tuple[str, ...] = ()
    """Ids of tasks, matched as :class:`HeldOutTasks` does."""
    trajectories: tuple[str, ...] = ()
    """Ids of trajectories."""
    digests: tuple[str, ...] = ()
    """``source_digest`` of runs: the same content is denied under any id."""

    def __post_init__(self) -> None:
        """Check that the list is not empty."""
        if not (self.tasks or self.trajectories or self.digests):
            raise SelectionError("The stage 'deny' needs tasks, trajectories or digests.")

    def apply(self, frame: Frame) -> StageResult:
        """Keep all rows.

        Raises:
            SelectionError: a row is on the list; the message names the first ones.
        """
        rows = frame.rows
        denied = same_task(rows.column("task_id"), self.tasks)
        for column, listed in (
            ("trajectory_id", self.trajectories),
            ("source_digest", self.digests),
        ):
            hit = pc.is_in(rows.column(column), value_set=pa.array(listed, pa.string()))
            denied = pc.or_(denied, hit)
        found = rows.filter(denied)
        if found.num_rows:
            named = found.slice(0, _NAMED_IN_ERROR).column("trajectory_id")
            message = (
                f"{found.num_rows} of the selected trajectories are on the deny-list, such as "
                f"{', '.join(str(i) for i in named)} (task {found.column('task_id')[0]}). "
                "Drop them on purpose with the stage 'held-out-tasks' or 'where' before this one."
            )
            raise SelectionError(message)
        return StageResult.split(rows, pa.nulls(rows.num_rows, pa.string()))


@dataclass(frozen=True, slots=True)
class HeldOutTasks(NamedStage):
    """Keep runs at tasks that are not held out for evaluation.

    Ids are compared without regard to case and to spaces around them. An entry matches a task of
    exactly that id, and a task whose id ends in it behind a slash (``django__django-11099``
    matches ``swe-bench/django__django-11099``), unless the entry is only a number.
    """

    name: ClassVar[str] = "held-out-tasks"

    tasks: tuple[str, ...]
    """Ids of the tasks."""

    def __post_init__(self) -> None:
        """Check that the list is not empty."""
        if not self.tasks:
            raise SelectionError("The stage 'held-out-tasks' needs at least one task.")

    def apply(self, frame: Frame) -> StageResult:
        """Drop ``held-out-task``; the detail is the task."""
        tasks = frame.rows.column("task_id")
        reasons = pc.if_else(same_task(tasks, self.tasks), "held-out-task", NO_REASON)
        return StageResult.split(frame.rows, reasons, tasks)


def same_task(tasks: pa.ChunkedArray, listed: tuple[str, ...]) -> pa.ChunkedArray:
    """Whether each task is on the list; see :class:`HeldOutTasks` for what matches.

    Args:
        tasks: ``task_id`` of rows.
        listed: ids as somebody wrote them down.
    """
    wanted = _plain(pa.array(listed, pa.string())).drop_null()
    wanted = wanted.filter(pc.not_equal(wanted, ""))
    distinct = pc.unique(tasks)
    rest = _plain(distinct)
    on_list = pc.is_in(rest, value_set=wanted)
    while len(wanted) and pc.any(pc.match_substring(rest, "/")).as_py():
        rest = pc.replace_substring_regex(rest, r"^[^/]*(?:/|$)", "")
        by_end = pc.and_(pc.is_in(rest, value_set=wanted), pc.invert(pc.utf8_is_decimal(rest)))
        on_list = pc.or_(on_list, by_end)
    return on_list.take(pc.index_in(tasks, value_set=distinct))


def _plain(ids: pa.Array) -> pa.Array:
    return pc.utf8_lower(pc.utf8_trim_whitespace(ids))


STAGES = {s.name: s for s in (Deny, HeldOutTasks)}
"""Stages of this module by name."""
