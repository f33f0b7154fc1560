"""The stage that keeps one of the runs whose embeddings mean the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import pyarrow as pa

from trajstore.errors import SelectionError
from trajstore.filters.clusters import (
    Clusters,
    Within,
    best_first,
    groups_table,
    keep_best,
    scopes,
)
from trajstore.filters.cosine import cosine_representatives, unit_vectors
from trajstore.filters.duplicates import in_row_order
from trajstore.filters.embeddings import Embed, Text, embedder_name, vectors_of
from trajstore.filters.selection import Frame, NamedStage, StageResult


@dataclass(frozen=True, slots=True)
class SemanticDuplicates(NamedStage):
    """Keep one of the runs whose vectors point the same way.

    This finds what is said in other words, which ``near-duplicates`` cannot, and it takes for equal
    what only sounds alike, which ``near-duplicates`` does not: hence a stage of its own, with its
    own threshold. Needs NumPy. A run without a vector is a duplicate of nothing.
    """

    name: ClassVar[str] = "semantic-duplicates"

    threshold: float = 0.95
    """Least cosine, above 0 and up to 1, itself included; SemDeDup's eps is 1 minus it."""
    column: str = "embedding"
    """Column of the rows with the vectors; used where it is there."""
    text: Text = "run"
    """What ``embed`` is given: goal and actions, or the goal alone."""
    within: Within = "task"
    """Which runs are compared: ``task``, ``goal`` or ``all``."""
    same_outcome: bool = False
    """Compare only runs of the same outcome."""
    order: Literal["best", "far"] = "best"
    """Who is kept: the best run, or as in SemDeDup the one farthest from the centre."""
    most_share: float | None = 0.5
    """Most runs of one source in one cluster, as a share of the source; None for no bound."""
    embedder: str | None = None
    """Name of what made the vectors, for the record; the name of ``embed`` where None."""
    embed: Embed | None = None
    """Makes the vectors where the rows have none; a recipe keeps its name only."""

    def __post_init__(self) -> None:
        """Check the threshold, and name the embedder."""
        check_cosine(self.threshold)
        if self.embedder is None and self.embed is not None:
            object.__setattr__(self, "embedder", embedder_name(self.embed))

    def parameters(self) -> dict[str, Any]:
        """All fields but ``embed``, which no file can hold."""
        values = super(SemanticDuplicates, self).parameters()
        return {n: v for n, v in values.items() if n != "embed"}

    def apply(self, frame: Frame) -> StageResult:
        """Drop ``semantic-duplicate``; the detail is the id of the run that is kept.

        Raises:
            SelectionError: there are no vectors, or one cluster swallows a source.
            MissingDependencyError: NumPy is not installed.
        """
        return keep_best(
            frame.rows,
            self._clusters(frame),
            stage=self.name,
            reason="semantic-duplicate",
            most_share=self.most_share,
        )

    def groups(self, frame: Frame) -> pa.Table:
        """What would be joined, in :data:`~trajstore.filters.clusters.GROUP_SCHEMA`."""
        return groups_table(frame.rows, self._clusters(frame))

    def _clusters(self, frame: Frame) -> Clusters:
        order = best_first(frame.rows)
        given = vectors_of(
            frame,
            stage=self.name,
            column=self.column,
            text=self.text,
            embed=self.embed,
            embedder=self.embedder,
        )
        vectors, there = unit_vectors(given.take(order), self.column)
        scope = scopes(frame, self.within, same_outcome=self.same_outcome).take(order)
        chosen, similarity = cosine_representatives(
            vectors,
            self.threshold,
            has_vector=there,
            scope=scope.to_numpy(),
            far_first=self.order == "far",
        )
        return in_row_order(order, chosen, similarity)


def check_cosine(threshold: float) -> None:
    """Check that a threshold is one.

    Raises:
        SelectionError: it is not above 0 and up to 1.
    """
    if not 0.0 < threshold <= 1.0:
        raise SelectionError(f"A least cosine is above 0 and up to 1, not {threshold}.")


STAGES = {SemanticDuplicates.name: SemanticDuplicates}
"""Stages of this module by name."""
