from __future__ import annotations

from tests.filters.frames import selected, summaries
from trajstore.filters import run_stages, stage

ROWS = summaries({"success": True}, {"success": False}, {"success": None}, {"success": None})


def test_the_funnel_is_an_aligned_table() -> None:
    selection = run_stages(
        ROWS, [stage("success"), stage("steps", most=3), stage("format-errors")], snapshot=12
    )
    assert selection.explain().splitlines() == [
        "stage          parameters  in  out  dropped",
        "success                     4    1  unknown-outcome 2, failure 1",
        "steps          most=3       1    1",
        "format-errors  most=0       1    1",
        "1 trajectories of snapshot 12 selected",
    ]


def test_without_stages_only_the_count_is_said() -> None:
    assert selected(ROWS).explain() == "4 trajectories selected"


def test_thousands_are_grouped() -> None:
    many = summaries(*({"trajectory_id": f"{i:05}"} for i in range(1500)))
    assert "1,500" in selected(many, stage("success")).explain()


def test_a_long_parameter_is_cut_with_a_mark() -> None:
    long = selected(ROWS, stage("keep", condition="n_steps >= 0 AND " * 20 + "true"))
    line = long.explain().splitlines()[1]
    assert "…" in line
    assert len(line) < 90
