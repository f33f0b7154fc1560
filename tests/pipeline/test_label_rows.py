from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from trajstore.pipeline.label_rows import label_rows
from trajstore.schema import LABEL_SCHEMA, Label, label_id, labels_to_arrow

AT = datetime(2026, 1, 2, tzinfo=UTC)
TEXT = st.text(st.characters(codec="utf-8"), max_size=6)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "trajectory_id": TEXT,
            "step_index": st.none() | st.integers(0, 2**31 - 1),
            "name": TEXT,
            "value": st.none() | st.floats(),
            "rationale": st.none() | TEXT,
        }
    ),
    max_size=6,
)


@given(rows=ROWS, version=TEXT)
def test_rows_are_those_of_labels_made_one_by_one(
    rows: list[dict[str, object]], version: str
) -> None:
    labels = [
        Label(evaluator='a"b', evaluator_version=version, created_at=AT, **row)  # type: ignore[arg-type]
        for row in rows
    ]
    columns = {
        name: pa.array([row[name] for row in rows], LABEL_SCHEMA.field(name).type)
        for name in ("trajectory_id", "step_index", "name", "value", "rationale")
    }
    found = label_rows(columns, evaluator='a"b', evaluator_version=version, at=AT)
    assert found.schema == LABEL_SCHEMA
    assert str(found.to_pylist()) == str(labels_to_arrow(labels).to_pylist())


def test_what_is_not_given_is_null() -> None:
    columns = {"trajectory_id": pa.array(["r"]), "name": pa.array(["n"]), "value": pa.array([0.5])}
    (row,) = label_rows(columns, evaluator="e", evaluator_version="1", at=AT).to_pylist()
    label = Label(trajectory_id="r", name="n", value=0.5, evaluator="e", evaluator_version="1")
    assert row["label_id"] == label_id(label)
    assert (row["step_index"], row["rationale"], row["success"]) == (None, None, None)
