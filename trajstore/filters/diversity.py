"""The stage that keeps a few runs that differ: by strategy, by meaning, or by both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.errors import SelectionError
from trajstore.filters.cosine import unit_vectors
from trajstore.filters.dpp import dpp, quality_of
from trajstore.filters.embeddings import Embed, Text, embedder_name, vectors_of
from trajstore.filters.facility_location import facility_location
from trajstore.filters.k_center import k_center
from trajstore.filters.kernels import Cosine, Kernel, Mixed
from trajstore.filters.kmeans_quota import kmeans_quota
from trajstore.filters.mmr import mmr
from trajstore.filters.outcome import UNKNOWN_OUTCOME
from trajstore.filters.picks import Picks
from trajstore.filters.row_columns import NO_REASON, numbers_named, with_column
from trajstore.filters.selection import Frame, NamedStage, StageResult
from trajstore.filters.sequence_kernels import Bigrams, Edits
from trajstore.filters.shingles import arrays
from trajstore.filters.strategies import Words, strategies

if TYPE_CHECKING:
    from trajstore.filters.kernels import Floats
    from trajstore.filters.shingles import Doubles, Ints

_MOST_EDITS = 2000
_BLOCK = 8192


@dataclass(frozen=True, slots=True)
class Diverse(NamedStage):
    """Keep ``k`` runs of each task, or of all rows, that are unlike each other.

    Adds ``pick`` (int32): the place of a run in the order of picking, from 1; null in a task that
    has no more than ``k`` runs and is kept whole. Needs NumPy.
    """

    name: ClassVar[str] = "diverse"

    k: int
    """Runs to keep of each task, or in all; ``dpp`` may keep fewer where nothing new is left."""
    method: Literal["facility-location", "mmr", "k-center", "dpp", "k-means"] = "facility-location"
    """``facility-location`` keeps what stands for the rest, ``mmr`` trades quality for novelty,
    ``k-center`` keeps the extremes (of successes only, as garbage is extreme), ``dpp`` good ones
    that span the most, ``k-means`` some of each cluster."""
    over: Literal["actions", "embedding", "both"] = "actions"
    """What makes runs alike: their strategies, their vectors, or a weighted mean of the two."""
    per: Literal["task", "pool"] = "task"
    """Pick inside each task, or among all rows."""
    words: Words = "programs"
    """What stands for a call in a strategy."""
    compare: Literal["bigrams", "edits"] = "bigrams"
    """How strategies are compared; ``edits`` is exact in order and count, for small groups."""
    column: str = "embedding"
    """Column of the rows with the vectors; used where it is there."""
    text: Text = "goal"
    """What ``embed`` is given."""
    weight: float = 0.5
    """Share of the vectors in ``both``, 0 to 1."""
    quality: str | None = "reward"
    """Column that says how good a run is, for ``mmr``, ``dpp``, ``k-means`` and the first pick of
    ``k-center``; scaled to 0 to 1 over the rows, unknown counts as 0. None: all are as good."""
    trade: float = 0.7
    """Quality against novelty in ``mmr`` and ``dpp``: 0 asks for novelty alone."""
    epsilon: float | None = None
    """Stochastic greedy for ``facility-location``, above 0 and below 1; None is lazy greedy."""
    seed: int = 0
    """Of stochastic greedy and of k-means."""
    embedder: str | None = None
    """Name of what made the vectors, for the record; the name of ``embed`` where None."""
    embed: Embed | None = None
    """Makes the vectors where the rows have none; a recipe keeps its name only."""

    def __post_init__(self) -> None:
        """Check the numbers, and name the embedder."""
        if self.k < 1:
            raise SelectionError(f"The stage 'diverse' keeps at least 1 run, not {self.k}.")
        if not 0 <= self.weight <= 1 or not 0 <= self.trade <= 1:
            message = f"weight and trade are from 0 to 1, not {self.weight} and {self.trade}."
            raise SelectionError(message)
        if self.method == "dpp" and self.trade == 1:
            raise SelectionError("The method 'dpp' needs a trade below 1; 1 asks for no novelty.")
        if self.epsilon is not None and not 0 < self.epsilon < 1:
            raise SelectionError(f"epsilon is above 0 and below 1, not {self.epsilon}.")
        if self.embedder is None and self.embed is not None:
            object.__setattr__(self, "embedder", embedder_name(self.embed))

    def parameters(self) -> dict[str, Any]:
        """All fields but ``embed``, which no file can hold."""
        values = super(Diverse, self).parameters()
        return {n: v for n, v in values.items() if n != "embed"}

    def apply(self, frame: Frame) -> StageResult:
        """Drop ``less-diverse``; the detail names the pick most like the run, and how like it is.

        A run without a vector goes as ``no-embedding``; ``k-center`` drops ``failure`` and
        ``unknown-outcome`` too.

        Raises:
            SelectionError: there are no vectors, the goal is to tell runs of one task apart, or
                edits are to be compared in a group that is too large.
            MissingDependencyError: NumPy is not installed.
        """
        np = arrays()
        order = pc.sort_indices(frame.rows.column("trajectory_id"))
        ordered = Frame(frame.rows.take(order), frame.steps)
        space = _Space(self, ordered)
        reasons = self._unfit(ordered.rows, space.there)
        fit = np.flatnonzero(pc.is_null(reasons).to_numpy(zero_copy_only=False))
        quality = self._scaled(ordered.rows)
        pick = np.zeros(len(reasons), np.int32)
        near, like = np.full(len(reasons), -1), np.zeros(len(reasons))
        for group in _groups(ordered.rows, fit, self.per):
            if len(group) <= self.k:
                near[group] = group
                continue
            picks, kernel = space.pick(group, quality[group])
            places = np.array(picks.places)
            pick[group[places]] = np.arange(1, len(places) + 1)
            nearest, likeness = most_like(kernel, places)
            near[group], like[group] = group[nearest], likeness
            near[group[places]] = group[places]
        return _result(frame.rows, order, reasons, pick, near, like)

    def _unfit(self, rows: pa.Table, there: Any) -> pa.Array:
        reasons = pc.if_else(pa.array(there), NO_REASON, "no-embedding")
        if self.method == "k-center":
            success = rows.column("success").combine_chunks()
            failed = pc.if_else(success, reasons, "failure")
            reasons = pc.if_else(pc.is_null(success), UNKNOWN_OUTCOME, failed)
        return reasons

    def _scaled(self, rows: pa.Table) -> Doubles:
        """Qualities from 0 to 1."""
        np = arrays()
        if self.quality is None:
            return np.ones(rows.num_rows)  # type: ignore[no-any-return]
        values = numbers_named(rows, self.quality).to_numpy(zero_copy_only=False)
        if np.isnan(values).all():
            return np.zeros(rows.num_rows)  # type: ignore[no-any-return]
        low, high = np.nanmin(values), np.nanmax(values)
        scaled: Doubles = (values - low) / (high - low) if high > low else np.ones_like(values)
        return np.where(np.isnan(values), 0.0, scaled)  # type: ignore[no-any-return]


class _Space:
    """What the rows are compared by, made once for all groups."""

    def __init__(self, stage: Diverse, frame: Frame) -> None:
        np = arrays()
        self._stage = stage
        self.there = np.ones(frame.rows.num_rows, bool)
        self._sequences: Bigrams | Edits | None = None
        if stage.over != "embedding":
            words = strategies(frame, stage.words)
            edits = stage.compare == "edits" and stage.method != "k-means"
            self._sequences = Edits(words) if edits else Bigrams(words)
        self._vectors: Any = None
        if stage.over != "actions":
            self._vectors, self.there = unit_vectors(self._embeddings(frame), stage.column)

    def _embeddings(self, frame: Frame) -> pa.Array | pa.ChunkedArray:
        stage = self._stage
        given = stage.column in frame.rows.column_names
        if stage.per == "task" and stage.text == "goal" and not given:
            message = (
                "Inside one task all runs have the same goal, so its vector tells none apart. Use "
                "text='run' (goal and actions), over='actions', or per='pool'."
            )
            raise SelectionError(message)
        return vectors_of(
            frame,
            stage=stage.name,
            column=stage.column,
            text=stage.text,
            embed=stage.embed,
            embedder=stage.embedder,
        )

    def pick(self, group: Ints, quality: Doubles) -> tuple[Picks, Kernel]:
        """The picks among some rows, and the kernel over those rows."""
        stage = self._stage
        if isinstance(self._sequences, Edits) and len(group) > _MOST_EDITS:
            message = (
                f"compare='edits' would take hours in a group of {len(group):,} runs; up to "
                f"{_MOST_EDITS:,} are compared that way. Use compare='bigrams'."
            )
            raise SelectionError(message)
        kernel = self._kernel(group)
        picks = (
            kmeans_quota(self._points(group), stage.k, seed=stage.seed, quality=self._only(quality))
            if stage.method == "k-means"
            else _METHODS[stage.method](stage, kernel, quality)
        )
        return picks, kernel

    def _only(self, quality: Doubles) -> Doubles | None:
        return None if self._stage.quality is None else quality

    def _kernel(self, group: Ints) -> Kernel:
        sequences = None if self._sequences is None else self._sequences.take(group)
        if self._vectors is None:
            assert sequences is not None
            return sequences
        cosines = Cosine(self._vectors[group])
        return cosines if sequences is None else Mixed(cosines, sequences, self._stage.weight)

    def _points(self, group: Ints) -> Floats:
        """Vectors whose squared distances are weighted sums of those of the parts."""
        np = arrays()
        parts = []
        if self._vectors is not None:
            share = self._stage.weight if self._sequences is not None else 1.0
            parts.append(np.sqrt(share) * self._vectors[group])
        if isinstance(self._sequences, Bigrams):
            share = 1.0 - self._stage.weight if self._vectors is not None else 1.0
            parts.append(np.sqrt(share) * self._sequences.take(group).vectors())
        points: Floats = np.hstack(parts)
        return points


_METHODS: dict[str, Callable[[Diverse, Kernel, Any], Picks]] = {
    "facility-location": lambda stage, kernel, _: facility_location(
        kernel, stage.k, epsilon=stage.epsilon, seed=stage.seed
    ),
    "mmr": lambda stage, kernel, quality: mmr(kernel, quality, stage.k, trade=stage.trade),
    "k-center": lambda stage, kernel, quality: k_center(
        kernel, stage.k, start=int(quality.argmax())
    ),
    "dpp": lambda stage, kernel, quality: dpp(
        kernel, quality_of(quality, stage.trade), stage.k, ridge=1e-3
    ),
}


def most_like(kernel: Kernel, picks: Ints) -> tuple[Ints, Doubles]:
    """For each item the pick that it is most like, the first of equal ones, and how like it is.

    Args:
        kernel: the similarities.
        picks: numbers of the picked items, at least one.
    """
    np = arrays()
    which, how = np.empty(kernel.size, np.int64), np.empty(kernel.size)
    for start in range(0, kernel.size, _BLOCK):
        columns = slice(start, start + _BLOCK)
        block = kernel.block(picks, columns)
        best = block.argmax(axis=0)
        which[columns] = picks[best]
        how[columns] = block[best, np.arange(block.shape[1])]
    return which, how


def _groups(rows: pa.Table, fit: Ints, per: str) -> Iterator[Ints]:
    """The places of the rows of each task, ascending; or all in one group."""
    np = arrays()
    if per == "pool":
        yield fit
        return
    tasks = rows.column("task_id").combine_chunks().dictionary_encode().indices.to_numpy()[fit]
    order = np.argsort(tasks, kind="stable")
    ends = np.flatnonzero(np.diff(tasks[order])) + 1
    yield from np.split(fit[order], ends)


def _result(
    rows: pa.Table, order: pa.Array, reasons: pa.Array, pick: Any, near: Any, like: Any
) -> StageResult:
    np = arrays()
    ids = rows.column("trajectory_id").combine_chunks().take(order)
    kept = pa.array(near == np.arange(len(near)))
    found = pa.array(np.maximum(near, 0))
    likeness = pa.array(np.char.mod("%.3f", like))
    details = pc.binary_join_element_wise(likeness, "like", ids.take(found), " ")
    known = pc.is_valid(reasons)
    reasons = pc.if_else(known, reasons, pc.if_else(kept, NO_REASON, "less-diverse"))
    details = pc.if_else(pc.or_(known, kept), NO_REASON, details)
    back = pc.sort_indices(order)
    picks = pc.if_else(pa.array(pick > 0), pa.array(pick), pa.scalar(None, pa.int32()))
    table = with_column(rows, "pick", picks.take(back))
    return StageResult.split(
        table, pa.chunked_array([reasons.take(back)]), pa.chunked_array([details.take(back)])
    )


STAGES = {Diverse.name: Diverse}
"""Stages of this module by name."""
