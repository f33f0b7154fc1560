from __future__ import annotations

import hashlib
import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from trajstore.schema import (
    Label,
    Reflection,
    Skill,
    Workflow,
    canonical_action,
    canonical_json,
    digest,
    label_id,
    mask_volatile,
    reflection_id,
    skill_id,
    trajectory_id,
    workflow_id,
)

START = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)


def test_an_id_is_a_uuid_of_version_8_and_the_standard_variant() -> None:
    parsed = uuid.UUID(trajectory_id("s", "k", START))
    assert parsed.version == 8
    assert parsed.variant == uuid.RFC_4122


def test_the_first_48_bits_are_the_start_in_milliseconds() -> None:
    parsed = uuid.UUID(trajectory_id("s", "k", START))
    assert parsed.int >> 80 == int(START.timestamp() * 1000)


def test_an_unknown_start_is_zero() -> None:
    assert uuid.UUID(trajectory_id("s", "k")).int >> 80 == 0


def test_ids_of_later_runs_sort_behind() -> None:
    ids = [trajectory_id("s", str(n), START + timedelta(milliseconds=n)) for n in range(20)]
    assert ids == sorted(ids)


def test_the_zone_of_the_start_does_not_matter() -> None:
    elsewhere = START.astimezone(timezone(timedelta(hours=5)))
    assert trajectory_id("s", "k", START) == trajectory_id("s", "k", elsewhere)


@given(st.text(), st.text(), st.text(), st.text())
def test_different_runs_have_different_ids(a: str, b: str, c: str, d: str) -> None:
    if (a, b) != (c, d) and "\x1f" not in a + b + c + d:
        assert trajectory_id(a, b) != trajectory_id(c, d)


def test_the_canonical_action_is_the_documented_one() -> None:
    """Worked example: sha256 of ``search\\x1f{"a":[1,2],"b":1}`` starts 61a439f7cf166e34."""
    text = canonical_action("search", canonical_json({"b": 1, "a": [1, 2]}))
    assert text == 'search\x1f{"a":[1,2],"b":1}'
    assert hashlib.sha256(text.encode()).hexdigest().startswith("61a439f7cf166e34")


def test_a_digest_keeps_none_and_empty_apart() -> None:
    assert len({digest(None), digest(""), digest(), digest("", ""), digest(["", ""])}) == 5


def test_a_label_id_leaves_only_the_time_out() -> None:
    label = Label(trajectory_id="a", evaluator="e", value=1.0)
    assert label_id(label) == label_id(replace(label, created_at=START))
    changes = [{"value": 2.0}, {"success": True}, {"step_index": 0}, {"name": "x"}]
    changes += [{"rationale": "r"}, {"evaluator_version": "2"}, {"evaluator": "f"}]
    changed = {label_id(replace(label, **c)) for c in changes}  # type: ignore[arg-type]
    assert len(changed | {label_id(label)}) == 8


def test_a_skill_id_changes_with_the_code_alone() -> None:
    skill = Skill(name="mine", code="x", language="python", source="s")
    assert skill_id(skill).startswith("mine@")
    assert skill_id(skill) == skill_id(replace(skill, description="d"))
    assert skill_id(skill) != skill_id(replace(skill, code="y"))


def test_reflections_and_workflows_are_known_by_what_they_say() -> None:
    reflection = Reflection(task_id="t", text="x", source="s", trial=1)
    assert reflection_id(reflection) == reflection_id(replace(reflection, source="other"))
    assert reflection_id(reflection) != reflection_id(replace(reflection, trial=2))
    workflow = Workflow(name="w", steps="[]", source="s")
    assert workflow_id(workflow) != workflow_id(replace(workflow, steps="[1]"))


def test_what_differs_from_run_to_run_is_masked_by_its_kind() -> None:
    text = (
        "id 0B1C2D3E-4f5a-6789-8abc-def012345678 at 2026-01-02 03:04:05.6 /tmp/x1y/log 0x7ffe12ab90"
    )
    assert mask_volatile(text) == "id <uuid> at <time> <tmp>/log <address>"


def test_hashes_and_plain_numbers_are_not_masked() -> None:
    text = "commit 3ea751c087f3a9d7 line 42 in /home/me/tmp.py 0x1f"
    assert mask_volatile(text) == text
