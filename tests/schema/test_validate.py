from __future__ import annotations

import pyarrow as pa
import pytest

from trajstore.errors import SchemaError, StoreFormatError
from trajstore.schema import (
    LABEL_SCHEMA,
    SCHEMA_VERSION,
    SCHEMAS,
    TABLES,
    check,
    check_version,
    steps_to_arrow,
    trajectories_from_arrow,
    trajectories_to_arrow,
    validate,
)
from trajstore.testing import sample_trajectories


def test_every_column_has_a_meaning_and_a_place_in_its_schema() -> None:
    for table, columns in TABLES.items():
        assert [c.name for c in columns] == SCHEMAS[table].names
        for column in columns:
            assert column.meaning
            assert SCHEMAS[table].field(column.name).nullable == column.nullable


def test_a_column_of_one_name_has_one_type_in_all_stored_tables() -> None:
    types: dict[str, pa.DataType] = {}
    for table in ("trajectories", "steps", "labels"):
        for column in TABLES[table]:
            assert types.setdefault(column.name, column.type) == column.type


def test_good_tables_have_no_problems() -> None:
    runs = sample_trajectories(5, seed=1)
    assert validate(trajectories_to_arrow(runs), "trajectories") == []
    assert validate(steps_to_arrow(runs), "steps") == []
    assert validate(LABEL_SCHEMA.empty_table(), "labels") == []


def broken(column: str, values: list[object], type_: pa.DataType | None = None) -> list[str]:
    runs = sample_trajectories(len(values), seed=1)
    table = trajectories_to_arrow(runs)
    at = table.schema.get_field_index(column)
    changed = table.set_column(at, column, pa.array(values, type_))
    return [str(p) for p in validate(changed, "trajectories")]


def test_a_wrong_type_names_both_types() -> None:
    assert broken("reward", ["a"]) == [
        "trajectories: column 'reward': type string, expected double"
    ]


def test_a_null_where_none_may_be_names_its_row() -> None:
    found = broken("task_id", ["a", None], pa.string())
    assert found == ["trajectories: row 1, column 'task_id': null is not allowed here"]


def test_an_unknown_word_is_answered_with_the_known_ones() -> None:
    found = broken("status", [None, "done"], pa.string())
    assert len(found) == 1
    assert found[0].startswith("trajectories: row 1, column 'status': 'done' is not one of ")
    assert found[0].endswith("terminated, truncated, error, running")


def test_missing_and_strange_columns_are_named() -> None:
    table = LABEL_SCHEMA.empty_table().rename_columns(
        ["scor" if n == "value" else n for n in LABEL_SCHEMA.names]
    )
    with pytest.raises(SchemaError) as caught:
        check(table, "labels")
    assert "column 'scor': unknown column; known are label_id" in str(caught.value)
    assert "column 'value': missing" in str(caught.value)


def test_values_to_arrow_and_back_is_the_identity() -> None:
    runs = sample_trajectories(10, seed=2)
    back = trajectories_from_arrow(trajectories_to_arrow(runs), steps_to_arrow(runs))
    assert back == runs


def test_this_format_version_and_older_ones_are_read() -> None:
    check_version(SCHEMA_VERSION, path="x")
    check_version(1, path="x")
    with pytest.raises(StoreFormatError, match="Upgrade it"):
        check_version(SCHEMA_VERSION + 1, path="x")
    with pytest.raises(StoreFormatError, match="never existed"):
        check_version(0, path="x")
