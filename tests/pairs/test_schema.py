"""Each column is declared once, with its meaning."""

from __future__ import annotations

import pytest

from trajstore.pairs import (
    CREDIT_SCHEMA,
    CREDITS,
    GROUP_SCHEMA,
    GROUPS,
    PAIR_SCHEMA,
    PAIRS,
    TURN_SCHEMA,
    TURNS,
)
from trajstore.schema import Column


@pytest.mark.parametrize(
    ("columns", "schema"),
    [(PAIRS, PAIR_SCHEMA), (GROUPS, GROUP_SCHEMA), (CREDITS, CREDIT_SCHEMA), (TURNS, TURN_SCHEMA)],
)
def test_schemas_are_made_of_the_declared_columns(
    columns: tuple[Column, ...], schema: object
) -> None:
    assert [c.name for c in columns] == schema.names  # type: ignore[attr-defined]
    assert all(len(c.meaning) > 5 for c in columns)
    for column in columns:
        field = schema.field(column.name)  # type: ignore[attr-defined]
        assert (field.type, field.nullable) == (column.type, column.nullable)


def test_pairs_have_the_columns_that_exports_read() -> None:
    assert PAIR_SCHEMA.names == [
        "pair_id",
        "pair_group",
        "task_id",
        "level",
        "policy",
        "parameters",
        "chosen_id",
        "rejected_id",
        "chosen_step",
        "rejected_step",
        "n_prompt_steps",
        "prompt_digest",
        "chosen_reward",
        "rejected_reward",
        "margin",
        "weight",
        "same_start",
        "criterion",
    ]
