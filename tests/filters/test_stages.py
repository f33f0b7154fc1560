from __future__ import annotations

import subprocess
import sys
from dataclasses import fields
from types import ModuleType
from typing import Any

import pytest

from trajstore.errors import SelectionError
from trajstore.filters import STAGES, stage, stages, stages_from, usage

MADE: dict[str, dict[str, Any]] = {
    "steps": {"most": 5},
    "agent-steps": {"least": 1},
    "tool-calls": {"most": 5},
    "tokens": {"most": 5},
    "completion-tokens": {"most": 5},
    "seconds": {"most": 0.5},
    "cost": {"most": 0.5},
    "size": {"most": 5},
    "success": {},
    "reward": {"least": 0.5},
    "above-task-mean": {},
    "status": {"keep": ["terminated", "truncated"]},
    "where": {"condition": "reward > 0"},
    "keep": {"condition": "reward > 0"},
    "tool-errors": {"most": 1},
    "format-errors": {},
    "repeats": {},
    "loops": {"times": 2},
    "tools": {"required": ["bash"]},
    "staleness": {"most": 4, "current": "iter-9"},
    "expiry": {"ttl_s": 60, "now": "2026-01-01"},
    "environment-version": {"current": {"web": "2"}},
    "superseded": {},
    "deny": {"tasks": ["t"]},
    "held-out-tasks": {"tasks": ["t"]},
    "secrets": {},
    "integrity": {"rules": ["tests-edited"]},
}


@pytest.mark.parametrize("name", MADE)
def test_a_stage_is_made_again_from_its_own_parameters(name: str) -> None:
    made = stage(name, **MADE[name])
    again = stage(name, **made.parameters())
    assert again.name == name
    assert again.parameters() == made.parameters()


@pytest.mark.parametrize("name", MADE)
def test_given_parameters_are_told(name: str) -> None:
    told = stage(name, **MADE[name]).parameters()
    given = {k: v for k, v in MADE[name].items() if k != "now"}
    assert {k: told[k] for k in given} == given


@pytest.mark.parametrize("name", STAGES)
def test_every_stage_is_named_as_it_is_registered_and_documented(name: str) -> None:
    factory: Any = STAGES[name]
    assert factory.name == name
    assert factory.__doc__
    assert all(f.name in usage(name) for f in fields(factory) if f.init)


def test_an_unknown_stage_is_answered_with_the_nearest_and_all() -> None:
    with pytest.raises(SelectionError, match=r"no stage 'sucess'. Did you mean 'success'.*steps"):
        stage("sucess")


def test_an_unknown_parameter_is_answered_with_the_real_ones() -> None:
    with pytest.raises(SelectionError, match=r"'steps' has no parameter 'max'.*least.*most"):
        stage("steps", max=5)


def test_a_missing_parameter_is_named() -> None:
    with pytest.raises(SelectionError, match=r"'where' needs condition"):
        stage("where")


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("steps", {"most": "5"}),
        ("steps", {"most": True}),
        ("success", {"failures": 1}),
        ("status", {"keep": "terminated"}),
        ("status", {"keep": [1]}),
        ("integrity", {"rules": ["nonsense"]}),
        ("superseded", {"cost": "reward"}),
    ],
)
def test_a_value_of_the_wrong_type_is_refused(name: str, parameters: dict[str, Any]) -> None:
    with pytest.raises(SelectionError, match=f"'{name}' cannot take"):
        stage(name, **parameters)


def test_whole_numbers_stand_for_fractions() -> None:
    assert stage("above-task-mean", margin=1).parameters() == {"margin": 1.0}


def test_a_recipe_is_a_list_of_stages() -> None:
    made = stages_from([{"stage": "success"}, {"stage": "steps", "most": 3}])
    assert [s.name for s in made] == ["success", "steps"]


def test_a_recipe_entry_without_a_stage_is_named_by_its_place() -> None:
    with pytest.raises(SelectionError, match="Entry 2 of the recipe has no 'stage'"):
        stages_from([{"stage": "success"}, {"most": 3}])


def test_the_registry_is_a_mapping_in_order_of_names() -> None:
    assert list(STAGES) == sorted(STAGES)
    assert len(STAGES) == len(list(STAGES)) >= len(MADE)
    assert "nonsense" not in STAGES


def test_two_modules_cannot_name_the_same_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    twin = ModuleType("trajstore.filters.twin")
    twin.STAGES = {"steps": STAGES["steps"]}  # type: ignore[attr-defined]  # a module made here
    monkeypatch.setitem(sys.modules, twin.__name__, twin)
    monkeypatch.setattr(stages, "_modules", lambda _: iter(["length", "twin"]))
    with pytest.raises(SelectionError, match=r"Two modules of trajstore\.filters name .* 'steps'"):
        stages._found.__wrapped__()


def test_importing_the_package_loads_no_stage() -> None:
    program = "import sys, trajstore.filters; print('trajstore.filters.length' in sys.modules)"
    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, text=True
    )
    assert out.stdout.strip() == "False"
