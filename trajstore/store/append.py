"""Append a batch: exactly one copy of every run, the longest version of it, in one commit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.errors import SchemaError
from trajstore.schema import LABEL_SCHEMA, STEP_SCHEMA, TRAJECTORY_SCHEMA, check
from trajstore.store.commit import Action, abandon, commit_onto, newest
from trajstore.store.conflicts import Conflict, conflict
from trajstore.store.known import RANK_COLUMNS, Existing, KnownIds, is_as_long, rank
from trajstore.store.layout import Location
from trajstore.store.parts import write_parts
from trajstore.store.rows import random_revisions, sorted_rows, stored, tombstones
from trajstore.store.snapshot import REPLACED, Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Rows to append together: trajectories, all their steps, and labels on any trajectory."""

    trajectories: pa.Table = field(default_factory=TRAJECTORY_SCHEMA.empty_table)
    """Rows of ``TRAJECTORY_SCHEMA``."""
    steps: pa.Table = field(default_factory=STEP_SCHEMA.empty_table)
    """Rows of ``STEP_SCHEMA`` of exactly those trajectories."""
    labels: pa.Table = field(default_factory=LABEL_SCHEMA.empty_table)
    """Rows of ``LABEL_SCHEMA``."""

    def check(self) -> None:
        """Check schemas, and that every trajectory comes with exactly its ``n_steps`` steps.

        Raises:
            SchemaError: with every problem found.
        """
        check(self.trajectories, "trajectories")
        check(self.steps, "steps")
        check(self.labels, "labels")
        counts = self.steps.column("trajectory_id").value_counts()
        have = dict(zip(counts.field(0).to_pylist(), counts.field(1).to_pylist(), strict=True))
        ids = self.trajectories.column("trajectory_id").to_pylist()
        wanted = self.trajectories.column("n_steps").to_pylist()
        wrong = [f"trajectory {i} comes {n} times" for i, n in Counter(ids).items() if n > 1]
        wrong += [
            f"trajectory {i} says n_steps={n} and comes with {have.get(i, 0)}"
            for i, n in zip(ids, wanted, strict=True)
            if have.get(i, 0) != n
        ]
        wrong += [f"steps of {i} come without their trajectory" for i in have.keys() - set(ids)]
        if wrong:
            shown = "\n  ".join(wrong[:20])
            raise SchemaError(f"The steps do not fit the trajectories:\n  {shown}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendReport:
    """What an append did."""

    snapshot: int
    """Snapshot in which all of it is visible."""
    added: int = 0
    """Trajectories that are new."""
    replaced: int = 0
    """Trajectories of which a longer version took the place of a shorter one."""
    already: int = 0
    """Trajectories that were there, as whole or more so."""
    steps: int = 0
    """Steps written."""
    labels: int = 0
    """Labels written."""
    labels_already: int = 0
    """Labels that were there."""
    conflicts: tuple[Conflict, ...] = ()
    """Of ``already``, versions as long as the one that stays, with another outcome."""


class Appender:
    """Appends batches to one store; keeps only a bounded cache of known ids."""

    def __init__(self, location: Location, lock: Path | None) -> None:
        """Write to the Delta table at ``location``, taking turns by ``lock``."""
        self._location = location
        self._lock = lock
        self._known = KnownIds(location)
        self._seen: Snapshot | None = None
        self._rooted: set[Path] = set()

    def append(self, parts: Batch | Iterable[Batch], *, durable: bool) -> AppendReport:
        """Write what is new of a batch, in one commit.

        A trajectory that is there already, as whole or more so, is left out; a longer version
        replaces the shorter one. Files are encoded before the commit and outside the lock, and
        written again only if another process brought some of the same ids meanwhile.

        Args:
            parts: the batch, or parts of it with different trajectories. Steps of a part are
                encoded while the next part is made.
            durable: fsync before returning.

        Raises:
            SchemaError: the rows do not fit.
            WriteError: nothing was made visible.
        """
        seen = newest(self._location, self._seen)
        plans: list[_Plan] = []
        given = [parts] if isinstance(parts, Batch) else parts
        pending = self._encode(self._planned(given, seen, plans), durable=durable)

        def prepare(head: Snapshot) -> Sequence[Action] | None:
            nonlocal pending
            self._seen = head
            if any(plan.outdated(head, self._known) for plan in plans):
                abandon(self._location, pending)
                again = [plan.batch for plan in plans]
                plans.clear()
                pending = self._encode(self._planned(again, head, plans), durable=durable)
            return pending

        try:
            self._seen = landed = commit_onto(
                self._location,
                self._lock,
                prepare,
                operation="append",
                durable=durable,
                known=seen,
            )
        except BaseException:
            abandon(self._location, pending)
            raise
        return _report(plans, landed.version)

    def _planned(
        self, parts: Iterable[Batch], snapshot: Snapshot, plans: list[_Plan]
    ) -> Iterator[tuple[str, pa.Table]]:
        """What to write of each part, by record; the small tables of all parts come last."""
        last: dict[str, list[pa.Table]] = {}
        ids: set[str] = set()
        for part in parts:
            part.check()
            plan = _Plan(_labels_once(part), self._known, snapshot)
            twice = sorted(ids.intersection(plan.ids))
            if twice:
                raise SchemaError(f"Trajectory {twice[0]} is in two parts of one batch.")
            ids.update(plan.ids)
            plans.append(plan)
            for record, rows in plan.tables():
                if record == "step":
                    yield record, rows
                else:
                    last.setdefault(record, []).append(rows)
        for record, tables in last.items():
            yield record, pa.concat_tables(tables)

    def _encode(self, tables: Iterable[tuple[str, pa.Table]], *, durable: bool) -> list[Action]:
        return [*write_parts(self._location, tables, durable=durable, rooted=self._rooted)]


class _Plan:
    """Which rows of a batch to write, as seen from one snapshot."""

    def __init__(self, batch: Batch, known: KnownIds, snapshot: Snapshot) -> None:
        self.batch = batch
        self.seen = frozenset(f.path for f in snapshot.files)
        self.ids = batch.trajectories.column("trajectory_id").to_pylist()
        self.label_ids = batch.labels.column("label_id").to_pylist()
        there = known.trajectories(self.ids, snapshot)
        self.replaced: dict[str, Existing] = {}
        self.conflicts: list[Conflict] = []
        self._compare(there)
        self.kept = (set(self.ids) - there.keys()) | self.replaced.keys()
        self.known_labels = known.labels(self.label_ids, snapshot)
        self.n_steps = 0

    def _compare(self, there: dict[str, Existing]) -> None:
        """Which versions take the place of those that are there, and which only judge otherwise."""
        if not there:
            return
        rows = self.batch.trajectories.select([*RANK_COLUMNS, "source_uri"])
        same = pc.is_in(rows.column("trajectory_id"), value_set=pa.array(there, pa.string()))
        for row in rows.filter(same).to_pylist():
            known, given = there[row["trajectory_id"]], rank(row)
            if given > known.rank:
                self.replaced[row["trajectory_id"]] = known
            elif is_as_long(given, known.rank):
                found = conflict(row, success=known.success, reward=known.reward)
                self.conflicts += [] if found is None else [found]

    @property
    def already(self) -> int:
        return len(self.ids) - len(self.kept)

    def outdated(self, head: Snapshot, known: KnownIds) -> bool:
        """Whether commits that came since bring ids of this batch, or took away what it saw."""
        if {f.path for f in head.files} == self.seen:
            return False
        if self.already or self.replaced:
            return True
        if known.trajectories(self.ids, head, seen=self.seen):
            return True
        return bool(known.labels(self.label_ids, head, seen=self.seen))

    def tables(self) -> list[tuple[str, pa.Table]]:
        """What to write, by record."""
        rows, steps = self.batch.trajectories, self.batch.steps
        if self.already:
            kept = pa.array(sorted(self.kept), pa.string())
            rows = rows.filter(pc.is_in(rows.column("trajectory_id"), value_set=kept))
            steps = steps.filter(pc.is_in(steps.column("trajectory_id"), value_set=kept))
        rows = sorted_rows(rows, ["trajectory_id"])
        steps = sorted_rows(steps, ["trajectory_id", "step_index"])
        self.n_steps = len(steps)
        revisions = random_revisions(len(rows))
        order = pc.index_in(
            steps.column("trajectory_id"), value_set=rows.column("trajectory_id").combine_chunks()
        )
        written = [
            ("trajectory", stored("trajectory", rows, revisions)),
            ("step", stored("step", steps, revisions.take(order.combine_chunks()))),
        ]
        if self.label_ids:
            labels = self._new_labels()
            written.append(("label", stored("label", labels, random_revisions(len(labels)))))
        if self.replaced:
            written.append(("tombstone", self._tombstones()))
        return written

    def _new_labels(self) -> pa.Table:
        labels = self.batch.labels
        if self.known_labels:
            there = pa.array(sorted(self.known_labels), pa.string())
            labels = labels.filter(pc.invert(pc.is_in(labels.column("label_id"), value_set=there)))
        return sorted_rows(labels, ["trajectory_id", "label_id"])

    def _tombstones(self) -> pa.Table:
        dead = sorted((e.revision, i) for i, e in self.replaced.items())
        return tombstones([r for r, _ in dead], [i for _, i in dead], REPLACED)


def _report(plans: Sequence[_Plan], version: int) -> AppendReport:
    """The numbers of all plans, once they have landed."""
    replaced = sum(len(p.replaced) for p in plans)
    known = sum(len(p.known_labels) for p in plans)
    return AppendReport(
        snapshot=version,
        added=sum(len(p.kept) for p in plans) - replaced,
        replaced=replaced,
        already=sum(p.already for p in plans),
        steps=sum(p.n_steps for p in plans),
        labels=sum(len(p.label_ids) for p in plans) - known,
        labels_already=known,
        conflicts=tuple(c for p in plans for c in p.conflicts),
    )


def _labels_once(batch: Batch) -> Batch:
    """Leave out a label that the batch says twice."""
    labels = batch.labels
    if not len(labels) or pc.count_distinct(labels.column("label_id")).as_py() == len(labels):
        return batch
    numbered = labels.append_column("row", pa.array(range(len(labels)), pa.int64()))
    first = numbered.group_by("label_id").aggregate([("row", "min")]).column("row_min")
    return replace(batch, labels=labels.take(first))
