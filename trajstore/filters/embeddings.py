"""Where the vectors of rows come from: a column, or a function from texts to vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.errors import SelectionError
from trajstore.filters.selection import Frame
from trajstore.filters.sequences import action_texts, goals

Embed = Callable[[list[str]], Sequence[Sequence[float]]]
"""Texts in, one vector of numbers for each out, all of one length."""

_TEXTS_AT_ONCE = 256

Text = Literal["run", "goal"]
"""What is embedded: the goal and the actions, or the goal alone."""


def vectors_of(
    frame: Frame, *, stage: str, column: str, text: Text, embed: Embed | None, embedder: str | None
) -> pa.Array | pa.ChunkedArray:
    """A vector for each row, null where there is none.

    Args:
        frame: the rows.
        stage: who asks, for the message.
        column: taken as it is where the rows have it.
        text: what ``embed`` is given.
        embed: makes the vectors where there is no such column.
        embedder: name of what made them, for the message.

    Raises:
        SelectionError: there is neither the column nor a function.
    """
    if column in frame.rows.column_names:
        return frame.rows.column(column)
    if embed is None:
        made = f", made by '{embedder}'" if embedder else ""
        message = (
            f"The stage '{stage}' finds no column '{column}' among the rows{made}. "
            "Add one of vectors, or give embed=, a function from texts to vectors."
        )
        raise SelectionError(message)
    texts = goals(frame)
    if text == "run":
        actions = action_texts(frame)
        joined = pc.binary_join_element_wise(
            pc.fill_null(texts, ""), pc.fill_null(actions, ""), "\n"
        )
        texts = pc.if_else(pc.is_null(actions), pa.scalar(None, pa.string()), joined)
    return embedded(texts, embed)


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
