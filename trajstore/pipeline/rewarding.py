"""Compute a reward over a snapshot of a store, and keep it as labels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.errors import SelectionError
from trajstore.filters import Selection
from trajstore.filters.rewards import (
    PASS_THRESHOLD,
    Reward,
    Spread,
    outranked,
    read_input,
    reward_named,
    reward_spread,
)
from trajstore.pipeline.label_rows import label_rows
from trajstore.store import Batch, Condition, Reader, Store

REWARD_LABEL = "reward"
"""Name of the label that holds the reward of a whole run; step labels bear the rule's name."""

_RUNS_AT_ONCE = 5_000
_LABELS_A_COMMIT = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardReport:
    """What a reward gave, and what of it was new."""

    reward: str
    """Name of the reward."""
    evaluator: str
    """The evaluator that the labels name."""
    evaluator_version: str
    """Version of formula and parameters that the labels name."""
    snapshot: int
    """Snapshot that it was computed over."""
    trajectories: int
    """Runs looked at."""
    without: int
    """Those for which nothing could be said: an outcome or score is unknown, or no rule fired."""
    labels: int
    """Labels written; in a dry run all that would be said, new or not."""
    already: int
    """Labels that said the same before."""
    spread: Spread = field(default_factory=Spread)
    """How the rewards of attempts at one task differ (rewards of whole runs only)."""
    outranked: tuple[str, ...] = ()
    """Tasks in which a failure has at least the reward of a success; the penalties are too high for
    them (rewards of whole runs only)."""


def write_rewards(
    store: Store,
    name: str,
    parameters: Mapping[str, Any] | None = None,
    *,
    where: str | Condition | None = None,
    selection: Selection | None = None,
    at: int | str | None = None,
    dry_run: bool = False,
    each: Callable[[pa.Table], None] | None = None,
) -> RewardReport:
    """Compute a reward over one snapshot and append it as labels.

    Labels name the evaluator ``trajstore/NAME`` and as its version the formula's number with all
    parameters. Saying the same again adds nothing, and nothing is ever replaced: after an outcome
    has changed, the new value stands beside the old one, and the newest counts.

    Args:
        store: where to read and write.
        name: a key of :data:`trajstore.filters.rewards.REWARDS`.
        parameters: its parameters; defaults for the others.
        where: an SQL condition over ``trajectories``; None for all. What a reward compares a run
            with (the shortest success of its task) is taken from the whole snapshot all the same.
        selection: only runs of this selection, as they are in its own snapshot; not with ``where``
            or ``at``.
        at: compute over this snapshot or pin instead of the newest.
        dry_run: compute, and write nothing.
        each: called with the values as they are computed, a table of a few thousand runs at a time
            in order of run (and step): what the reward's function gives.

    Raises:
        SelectionError: there is no such reward or parameter, or a selection comes with ``where`` or
            ``at``.
        QueryError: the condition does not fit.
    """
    reward = reward_named(name)
    filled = reward.filled(parameters)
    reader, rows = _asked(store, where, selection, at)
    writer = _Writer(store, reward, reward.evaluator_version(filled), dry_run=dry_run)
    parts = []
    for part, result in _computed(reader, reward, filled, rows):
        writer.add(part, result)
        if each is not None:
            each(result)
        if reward.level == "trajectory":
            parts.append(result.select(["trajectory_id", "value"]))
    writer.flush()
    spread, above = _checked(rows, parts, filled)
    return RewardReport(
        reward=name,
        evaluator=reward.evaluator,
        evaluator_version=writer.version,
        snapshot=reader.snapshot.version,
        trajectories=rows.num_rows,
        without=writer.without,
        labels=writer.labels,
        already=writer.already,
        spread=spread,
        outranked=above,
    )


def _asked(
    store: Store,
    where: str | Condition | None,
    selection: Selection | None,
    at: int | str | None,
) -> tuple[Reader, pa.Table]:
    """The snapshot, and the rows of the runs that are asked for."""
    if selection is None:
        reader = store.reader() if at is None else store.at(at)
        return reader, read_input(_sql(reader), "rows", _condition(where))
    if where is not None or at is not None:
        raise SelectionError("Give a selection, or a condition and a snapshot, not both.")
    reader = store.reader() if selection.snapshot is None else store.at(selection.snapshot)
    rows = read_input(_sql(reader), "rows")
    ids = selection.rows.column("trajectory_id")
    return reader, rows.filter(pc.is_in(rows.column("trajectory_id"), value_set=ids))


def _sql(reader: Reader) -> Any:
    return lambda query: reader.query(query).read_all()


def _condition(where: str | Condition | None) -> str:
    if where is None:
        return "true"
    return where if isinstance(where, str) else where.to_sql()


def _computed(
    reader: Reader, reward: Reward, parameters: Mapping[str, Any], rows: pa.Table
) -> Iterator[tuple[pa.Table, pa.Table]]:
    """Parts of the rows, each with its rewards; steps of a few thousand runs at a time."""
    others = [n for n in reward.inputs if n != "rows"]
    if not others:
        yield rows, reward({"rows": rows}, **parameters)
        return
    for start in range(0, rows.num_rows, _RUNS_AT_ONCE):
        part = rows.slice(start, _RUNS_AT_ONCE)
        ids = part.column("trajectory_id").combine_chunks()
        low, high = (str(ids[place]).replace("'", "''") for place in (0, -1))
        inside = f"trajectory_id BETWEEN '{low}' AND '{high}'"
        inputs = {"rows": part}
        for name in others:
            table = read_input(_sql(reader), name, inside)
            asked = pc.is_in(table.column("trajectory_id"), value_set=ids)
            # A filter copies every text, so it only comes where it has something to take away.
            inputs[name] = table if pc.all(asked).as_py() is not False else table.filter(asked)
        yield part, reward(inputs, **parameters)


def _checked(
    rows: pa.Table, parts: list[pa.Table], parameters: Mapping[str, Any]
) -> tuple[Spread, tuple[str, ...]]:
    if not parts:
        return Spread(), ()
    rewarded = pa.concat_tables(parts)
    threshold = parameters.get("pass_threshold", PASS_THRESHOLD)
    above = outranked(rows, rewarded, pass_threshold=threshold)
    spread = reward_spread(rows, rewarded, pass_threshold=threshold)
    return spread, tuple(above.column("task_id").to_pylist())


class _Writer:
    """Turns results into labels and appends them, up to a million in one commit."""

    def __init__(self, store: Store, reward: Reward, version: str, *, dry_run: bool) -> None:
        self.version = version
        self.without = 0
        self.labels = 0
        self.already = 0
        self._store = store
        self._reward = reward
        self._dry_run = dry_run
        self._at = datetime.now(UTC)
        self._waiting: list[pa.Table] = []

    def add(self, rows: pa.Table, result: pa.Table) -> None:
        """Take the rewards of some rows."""
        said = result.filter(pc.is_valid(result.column("value")))
        ids = pc.unique(said.column("trajectory_id"))
        self.without += rows.num_rows - len(ids)
        if self._dry_run:
            self.labels += said.num_rows
            return
        for start in range(0, said.num_rows, _LABELS_A_COMMIT):
            part = said.slice(start, _LABELS_A_COMMIT)
            if sum(t.num_rows for t in self._waiting) + part.num_rows > _LABELS_A_COMMIT:
                self.flush()
            self._waiting.append(self._labels(part))

    def flush(self) -> None:
        """Append what waits."""
        if not self._waiting:
            return
        labels = pa.concat_tables(self._waiting)
        self._waiting = []
        new = labels.filter(pc.invert(pc.is_in(labels.column("label_id"), value_set=self._known())))
        self.already += labels.num_rows - new.num_rows
        if new.num_rows:
            done = self._store.append(Batch(labels=new))
            self.labels += done.labels
            self.already += done.labels_already

    def _known(self) -> pa.Array:
        """Ids of the labels of this reward and version: one scan instead of a look-up a label."""
        evaluator, version = (
            text.replace("'", "''") for text in (self._reward.evaluator, self.version)
        )
        query = f"""
            SELECT label_id FROM labels
            WHERE evaluator = '{evaluator}' AND evaluator_version = '{version}'"""
        return self._store.query(query).read_all().column("label_id").combine_chunks()

    def _labels(self, result: pa.Table) -> pa.Table:
        columns = {n: result.column(n) for n in ("trajectory_id", "value")}
        if self._reward.level == "step":
            columns |= {n: result.column(n) for n in ("step_index", "name", "rationale")}
        else:
            named = pa.repeat(REWARD_LABEL, result.num_rows)
            columns |= {"name": named, "rationale": _terms(result)}
        return label_rows(
            columns,
            evaluator=self._reward.evaluator,
            evaluator_version=self.version,
            at=self._at,
        )


def _terms(result: pa.Table) -> pa.Array | pa.ChunkedArray:
    """The terms of each sum as text, such as ``task=1, format=-0.1, length=-0.04``."""
    names = [n for n in result.column_names if n not in {"trajectory_id", "value"}]
    said = [
        pc.binary_join_element_wise(name, pc.round(result.column(name), 6).cast(pa.string()), "=")
        for name in names
    ]
    return pc.binary_join_element_wise(*said, ", ")
