from __future__ import annotations

import pytest

import trajstore


def test_the_front_door_has_these_names() -> None:
    assert sorted(trajstore.__all__) == [
        "Batch",
        "ImportOptions",
        "ImportReport",
        "Label",
        "Observation",
        "Pool",
        "Reflection",
        "Skill",
        "Step",
        "Store",
        "ToolCall",
        "Trajectory",
        "TrajstoreError",
        "Workflow",
        "open",
        "trajectory_id",
    ]


@pytest.mark.parametrize("name", trajstore.__all__)
def test_every_name_is_there_and_documented(name: str) -> None:
    assert getattr(trajstore, name).__doc__
    assert name in dir(trajstore)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        trajstore.nonsense  # noqa: B018
