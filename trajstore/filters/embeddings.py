"""Where the vectors of rows come from: a column, or a function from texts to vectors."""

from __future__ import annotations

from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.errors import SelectionError
from trajstore.filters.selection import Frame
from trajstore.filters.semantic import Embed, embedded
from trajstore.filters.sequences import action_texts, goals

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
