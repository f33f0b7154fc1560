from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trajstore.errors import JudgeError
from trajstore.filters.rewards import REWARDS
from trajstore.pipeline import (
    Criterion,
    Rubric,
    find_rubric,
    read_rubric,
    rubric_for_progress,
    rubric_library,
)

TEXT = """
name = "two"
version = "1"
pass_at = 6
[[criteria]]
name = "accuracy"
weight = 0.75
meaning = "right"
[[criteria]]
name = "form"
weight = 0.25
meaning = "tidy"
"""


def rubric(**changes: Any) -> Rubric:
    usual = {"name": "one", "version": "1", "criteria": (one("accuracy", 1.0),)}
    return Rubric(**(usual | changes))


def one(name: str, weight: float) -> Criterion:
    return Criterion(name=name, weight=weight, meaning=f"{name} is good")


def test_the_library_holds_these() -> None:
    assert list(rubric_library()) == [
        "research@1",
        "rler@1-early",
        "rler@2-middle",
        "rler@3-late",
    ]


def test_the_research_rubric_has_the_published_weights() -> None:
    """0.4 * completion + 0.3 * accuracy + 0.15 * structure + 0.15 * citation."""
    criteria = rubric_library()["research@1"].criteria
    weights = {c.name: c.weight for c in criteria}
    assert weights == {"completion": 0.4, "accuracy": 0.3, "structure": 0.15, "citation": 0.15}
    assert weights.items() <= REWARDS["judge"].parameters.items()


def test_the_total_is_the_weighted_sum() -> None:
    """0.4 * 8 + 0.3 * 6 + 0.15 * 10 + 0.15 * 2 = 6.8."""
    scores = {"completion": 8, "accuracy": 6, "structure": 10, "citation": 2}
    assert find_rubric("research").total(scores) == 6.8


def test_an_evolving_rubric_gets_stricter() -> None:
    marks = [rubric_for_progress(p).pass_at for p in (0.0, 0.34, 0.67, 1.0)]
    assert marks == [5.0, 6.5, 8.0, 8.0]


@pytest.mark.parametrize(("progress", "version"), [(0.33, "1-early"), (0.5, "2-middle")])
def test_each_version_gets_a_third_of_training(progress: float, version: str) -> None:
    assert rubric_for_progress(progress).version == version


def test_a_progress_out_of_range_is_refused() -> None:
    with pytest.raises(JudgeError, match="from 0 to 1, not 50"):
        rubric_for_progress(50)


def test_a_rubric_without_versions_stays_as_it_is() -> None:
    assert rubric_for_progress(0.9, "research").label == "research@1"


def test_a_name_alone_is_its_newest_version() -> None:
    assert find_rubric("rler").version == "3-late"
    assert find_rubric("rler@1-early").version == "1-early"


def test_a_rubric_comes_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(TEXT)
    found = find_rubric(path)
    assert found == find_rubric(str(path))
    assert (found.label, found.pass_at, found.criteria[0].weight) == ("two@1", 6.0, 0.75)


def test_an_unknown_rubric_is_answered_with_the_real_ones() -> None:
    with pytest.raises(JudgeError, match=r"no rubric 'rlre'\. Rubrics: research@1, rler@1-early"):
        find_rubric("rlre")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(JudgeError, match=r"gone\.toml cannot be read"):
        find_rubric(tmp_path / "gone.toml")


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (("pass_at", "pass_it"), "does not know pass_it; its fields are name, version"),
        (("weight = 0.75", 'wait = 1\nweight = "x"'), "does not know wait"),
        (('version = "1"', "version = 1"), "version must be text, not 1"),
        (("0.25", "0.5"), "the weights sum to 1.25, not to 1"),
        (("0.75", "1.25\n#"), "the weights sum to 1.5"),
        (("name = ", "name "), "is no rubric"),
        (('"form"', '"accuracy"'), "two criteria have one name"),
        (("pass_at = 6", "pass_at = 60"), r"mine.toml: .*pass_at must be from 0 to 10, not 60"),
    ],
)
def test_a_file_that_does_not_fit_says_where_and_why(change: tuple[str, str], fault: str) -> None:
    with pytest.raises(JudgeError, match=fault):
        read_rubric(TEXT.replace(*change), "mine.toml")


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"criteria": ()}, "has no criteria"),
        ({"criteria": (one("a", 2.0), one("b", -1.0))}, "the weight of 'b' must be above 0"),
        ({"name": "My Rubric"}, "'My Rubric' is no name"),
        ({"prompt": "Judge {transcript}"}, r"no place for \{criteria\}, \{answer\}"),
    ],
)
def test_a_rubric_that_cannot_work_is_refused(changes: dict[str, Any], fault: str) -> None:
    with pytest.raises(JudgeError, match=fault):
        rubric(**changes)


def test_any_change_of_what_is_asked_is_another_version() -> None:
    base = rubric()
    edited = [
        rubric(criteria=(Criterion(name="accuracy", weight=1.0, meaning="other"),)),
        rubric(prompt=base.prompt + "\n"),
        rubric(system="x"),
        rubric(pass_at=5.0),
    ]
    versions = {r.evaluator_version for r in (base, *edited)}
    assert len(versions) == 5
    assert all(v.startswith("one@1+") for v in versions)
    assert rubric(about="words").evaluator_version == base.evaluator_version


def test_the_prompt_holds_criteria_run_and_shape() -> None:
    system, user = rubric().messages("THE RUN")
    assert system["role"] == "system"
    assert "- accuracy: accuracy is good" in user["content"]
    assert "THE RUN" in user["content"]
    assert user["content"].endswith('{"scores": {"accuracy": 0}, "why": "..."}')


def test_a_run_cannot_open_a_place_of_the_prompt() -> None:
    text = rubric().messages("{criteria} {answer} {transcript}")[-1]["content"]
    assert "{criteria} {answer} {transcript}" in text
