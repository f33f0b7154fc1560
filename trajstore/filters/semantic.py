"""The stage that keeps one of the runs whose embeddings mean the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import pyarrow as pa
import pyarrow.compute as pc

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
from trajstore.filters.selection import Frame, NamedStage, StageResult
from trajstore.filters.sequences import action_texts, goals

Embed = Callable[[list[str]], Sequence[Sequence[float]]]
"""Texts in, one vector of numbers for each out, all of one length."""

_TEXTS_AT_ONCE = 256


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
    text: Literal["run", "goal"] = "run"
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
        vectors, there = unit_vectors(self._vectors(frame).take(order), self.column)
        scope = scopes(frame, self.within, same_outcome=self.same_outcome).take(order)
        chosen, similarity = cosine_representatives(
            vectors,
            self.threshold,
            has_vector=there,
            scope=scope.to_numpy(),
            far_first=self.order == "far",
        )
        return in_row_order(order, chosen, similarity)

    def _vectors(self, frame: Frame) -> pa.Array | pa.ChunkedArray:
        if self.column in frame.rows.column_names:
            return frame.rows.column(self.column)
        if self.embed is None:
            made = f", made by '{self.embedder}'" if self.embedder else ""
            message = (
                f"The stage '{self.name}' finds no column '{self.column}' among the rows{made}. "
                "Add one of vectors, or give embed=, a function from texts to vectors."
            )
            raise SelectionError(message)
        texts = goals(frame)
        if self.text == "run":
            actions = action_texts(frame)
            joined = pc.binary_join_element_wise(
                pc.fill_null(texts, ""), pc.fill_null(actions, ""), "\n"
            )
            texts = pc.if_else(pc.is_null(actions), pa.scalar(None, pa.string()), joined)
        return embedded(texts, self.embed)


def check_cosine(threshold: float) -> None:
    """Check that a threshold is one.

    Raises:
        SelectionError: it is not above 0 and up to 1.
    """
    if not 0.0 < threshold <= 1.0:
        raise SelectionError(f"A least cosine is above 0 and up to 1, not {threshold}.")


def embedder_name(embed: Embed) -> str:
    """What a function that embeds calls itself: its ``fingerprint``, else its name."""
    for attribute in ("fingerprint", "__qualname__"):
        name = getattr(embed, attribute, None)
        if isinstance(name, str):
            return name
    return type(embed).__qualname__


def embedded(texts: pa.Array | pa.ChunkedArray, embed: Embed) -> pa.Array:
    """A vector for each text, null where it is null; equal texts are embedded once.

    Args:
        texts: strings.
        embed: called with 256 texts at a time, in order of first appearance.

    Raises:
        SelectionError: it gave another number of vectors than it was given texts.
    """
    distinct = pc.unique(texts).drop_null()
    found: list[pa.Array] = [pa.array([], pa.list_(pa.float32()))]
    for start in range(0, len(distinct), _TEXTS_AT_ONCE):
        part = [str(t) for t in distinct[start : start + _TEXTS_AT_ONCE]]
        vectors = [list(v) for v in embed(part)]
        if len(vectors) != len(part):
            message = (
                f"embed gave {len(vectors)} vectors for {len(part)} texts; it must give one each."
            )
            raise SelectionError(message)
        found.append(pa.array(vectors, pa.list_(pa.float32())))
    places = pc.index_in(texts, value_set=distinct)
    whole = places.combine_chunks() if isinstance(places, pa.ChunkedArray) else places
    return pa.concat_arrays(found).take(whole)


STAGES = {SemanticDuplicates.name: SemanticDuplicates}
"""Stages of this module by name."""
