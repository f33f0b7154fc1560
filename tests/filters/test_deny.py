from __future__ import annotations

from pathlib import Path

import pytest

from tests.filters.frames import details, selected, summaries, why
from trajstore import open as open_store
from trajstore.errors import SelectionError
from trajstore.filters import stage
from trajstore.pipeline.selecting import select

FRAME = summaries(
    {"task_id": "swe-bench/django__django-11099", "source_digest": "d1"},
    {"task_id": "tau-bench/airline/0", "source_digest": "d2"},
    {"task_id": "tau-bench/airline/10", "source_digest": "d3"},
)


@pytest.mark.parametrize(
    "listed",
    [
        {"tasks": ["swe-bench/django__django-11099"]},
        {"tasks": ["django__django-11099"]},
        {"tasks": [" SWE-bench/Django__django-11099 "]},
        {"trajectories": ["a"]},
        {"digests": ["d1"]},
    ],
)
def test_a_selection_that_would_include_a_denied_run_fails(listed: dict[str, list[str]]) -> None:
    """Cases 11 and 14: the guard must fire, however the id is written."""
    with pytest.raises(
        SelectionError, match="1 of the selected trajectories are on the deny-list, such as a"
    ):
        selected(FRAME, stage("deny", **listed))


def test_a_selection_without_denied_runs_goes_through_whole() -> None:
    assert len(selected(FRAME, stage("deny", tasks=["other"], digests=["d9"]))) == 3


def test_denied_tasks_can_be_dropped_on_purpose_first() -> None:
    listed = ["django__django-11099"]
    selection = selected(FRAME, stage("held-out-tasks", tasks=listed), stage("deny", tasks=listed))
    assert selection.ids() == ["b", "c"]
    assert why(selection) == {"a": "held-out-task"}
    assert details(selection) == {"a": "swe-bench/django__django-11099"}


def test_the_end_of_an_id_matches_whole_parts_only() -> None:
    assert why(selected(FRAME, stage("held-out-tasks", tasks=["airline/0"]))) == {
        "b": "held-out-task"
    }
    assert len(selected(FRAME, stage("held-out-tasks", tasks=["django-11099", "line/0"]))) == 3


def test_a_bare_number_is_a_task_only_where_it_is_the_whole_id() -> None:
    frame = summaries({"task_id": "0"}, {"task_id": "tau-bench/airline/0"})
    assert selected(frame, stage("held-out-tasks", tasks=["0"])).ids() == ["b"]


def test_blank_lines_of_a_list_match_nothing() -> None:
    assert len(selected(FRAME, stage("held-out-tasks", tasks=["", "  "]))) == 3


def test_empty_lists_are_refused() -> None:
    with pytest.raises(SelectionError, match="needs tasks, trajectories or digests"):
        stage("deny")
    with pytest.raises(SelectionError, match="needs at least one task"):
        stage("held-out-tasks", tasks=[])


def test_the_guard_fires_on_real_runs(tmp_path: Path, real_data: Path) -> None:
    pool = open_store(tmp_path / "pool", durable=False)
    pool.import_files(real_data / "mini_swe_agent" / "deepseek_bench1")
    planted = "django__django-13660"
    with pytest.raises(SelectionError, match="swe-bench/django__django-13660"):
        select(pool, [stage("deny", tasks=[planted])])
    kept = select(pool, [stage("held-out-tasks", tasks=[planted]), stage("deny", tasks=[planted])])
    assert f"swe-bench/{planted}" not in kept.rows.column("task_id").to_pylist()
