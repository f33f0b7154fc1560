"""Columns by well-known names and by mapping."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from trajstore.importers.well_known import (
    FIELDS,
    Columns,
    at,
    column_names,
    mapping_fault,
)
from trajstore.schema import TRAJECTORY_SCHEMA


def test_every_field_is_a_column_of_the_schema_and_its_own_first_name() -> None:
    for field, (_, names) in FIELDS.items():
        assert field in TRAJECTORY_SCHEMA.names
        assert names[0] == field


@pytest.mark.parametrize(
    ("column", "value", "field", "expected"),
    [
        ("resolved", True, "success", True),
        ("resolved", 0, "success", False),
        ("is_correct", 1.0, "success", True),
        ("instance_id", "django-1", "task_id", "django-1"),
        ("task_id", 0, "task_id", "0"),
        ("problem_statement", "Fix it", "goal", "Fix it"),
        ("reward", -1, "reward", -1.0),
        ("score", 0.25, "reward", 0.25),
        ("model_name", "m", "model", "m"),
        ("exit_status", "submitted", "termination_reason", "submitted"),
        ("instance_cost", 0.5, "cost_usd", 0.5),
        ("trial", 3, "attempt", 3),
        ("start_time", 0, "started_at", datetime(1970, 1, 1, tzinfo=UTC)),
        ("rewards", {"tests": 1}, "rewards", {"tests": 1.0}),
        ("tags", ["a", "b"], "tags", ("a", "b")),
    ],
)
def test_well_known_names_are_read(column: str, value: Any, field: str, expected: Any) -> None:
    columns = Columns({column: value})
    assert columns.take(field) == expected
    assert columns.left() == {}


@pytest.mark.parametrize(
    ("column", "value", "field"),
    [
        ("success", "submitted", "success"),
        ("resolved", 0.5, "success"),
        ("resolved", None, "success"),
        ("reward", "high", "reward"),
        ("attempt", 1.5, "attempt"),
        ("model", {"name": "m"}, "model"),
        ("status", "success", "status"),
        ("started_at", "NORMALIZED", "started_at"),
        ("tags", [1], "tags"),
        ("rewards", {"tests": "x"}, "rewards"),
        ("task_id", True, "task_id"),
    ],
)
def test_a_value_that_does_not_fit_stays_where_it_was(column: str, value: Any, field: str) -> None:
    columns = Columns({column: value})
    assert columns.take(field) is None
    assert columns.left() == ({} if value is None else {column: value})


def test_the_first_name_that_fits_wins() -> None:
    columns = Columns({"success": "maybe", "resolved": True, "correct": False})
    assert columns.take("success") is True
    assert columns.left() == {"success": "maybe", "correct": False}


def test_a_mapped_column_wins_over_well_known_names() -> None:
    columns = Columns({"success": True, "target": False}, {"success": "target"})
    assert columns.take("success") is False
    assert columns.left() == {"success": True}


def test_a_mapping_reaches_into_objects_and_json_text() -> None:
    row = {"info": {"eval": '{"score": {"value": 0.75}}'}}
    assert Columns(row, {"reward": "info.eval.score.value"}).take("reward") == 0.75


def test_a_column_that_was_only_reached_into_is_left_whole() -> None:
    columns = Columns({"info": {"ok": 1, "more": 2}}, {"success": "info.ok"})
    assert columns.take("success") is True
    assert columns.left() == {"info": {"ok": 1, "more": 2}}


def test_a_mapped_value_that_does_not_fit_is_an_error_that_names_it() -> None:
    columns = Columns({"verdict": "yes"}, {"success": "verdict"})
    with pytest.raises(ValueError, match="'verdict', mapped to 'success', holds 'yes', not true"):
        columns.take("success")


def test_a_mapped_null_is_unknown() -> None:
    assert Columns({"verdict": None}, {"success": "verdict"}).take("success") is None


def test_names_with_dots_in_them_are_found_too() -> None:
    assert at({"a.b": {"c": 1}}, "a.b.c") == 1
    assert at({"a": {"b.c": 2}}, "a.b.c") == 2
    assert at({"a": 1}, "a.b") is None
    assert at({"a": "no json"}, "a.b") is None


def test_the_view_shows_mapped_conversation_columns_under_their_usual_names() -> None:
    columns = Columns({"log": [1], "goal": "g"}, {"messages": "log", "goal": "goal"})
    assert columns.view() == {"log": [1], "goal": "g", "messages": [1]}
    columns.use({"messages"})
    assert columns.left() == {"goal": "g"}


def test_column_names_are_listed_with_what_lies_inside() -> None:
    rows = [{"a": 1, "info": {"x": {"y": 1}}}, {"b": '{"z": 1}', "c": "{broken"}]
    assert column_names(rows) == ["a", "info", "info.x", "info.x.y", "b", "b.z", "c"]


def test_a_good_mapping_has_no_fault() -> None:
    assert mapping_fault({"goal": "text", "messages": "log"}, ["text", "log"]) is None


def test_an_unknown_column_is_named_beside_the_real_ones() -> None:
    fault = mapping_fault({"goal": "problm"}, ["problem", "log"])
    assert fault == "there is no column problm; columns: problem, log"


def test_an_unknown_field_is_named_beside_the_real_ones() -> None:
    fault = mapping_fault({"outcome": "problem"}, ["problem"])
    assert fault is not None
    assert "outcome" in fault
    assert "success" in fault
