"""Reports say what became of everything, in words that are declared."""

from __future__ import annotations

import json
import re
from pathlib import Path

import trajstore.pairs
from tests.pairs.worlds import paired, run
from trajstore.pairs import REASONS, RUN_REASONS, TASK_REASONS, GroupReport, PairReport


def test_the_reasons_that_queries_give_are_all_declared() -> None:
    folder = Path(trajstore.pairs.__file__).parent
    text = "\n".join(p.read_text() for p in sorted(folder.glob("*.py")) if p.name != "report.py")
    given = set(re.findall(r"THEN '([a-z-]+)'", text))
    assert len(given) > 20
    assert given <= REASONS.keys()


def test_a_reason_belongs_to_one_level_only() -> None:
    assert len(REASONS) == len(RUN_REASONS) + len(TASK_REASONS) + len(trajstore.pairs.PAIR_REASONS)


def test_the_report_is_json_and_adds_up() -> None:
    runs = [run("a", "x(1)", reward=1), run("b", "y(1)"), run("c", "z(1)", task="u")]
    _, report = paired(runs)
    told = json.loads(json.dumps(report.as_dict()))
    assert (told["runs"], told["tasks"], told["pairs"], told["tasks_paired"]) == (3, 2, 1, 1)
    assert told["tasks_dropped"] == {"one-run": 1}


def test_the_report_in_words() -> None:
    runs = [run("a", "x(1)", reward=1), run("b", "y(1)"), run("c", "z(1)", task="u", reward=None)]
    assert paired(runs)[1].explain().splitlines() == [
        "1 trajectory pairs by best_worst on reward, from 1 of 2 tasks and 3 runs",
        "runs left out: 1",
        "  1  unknown-outcome: nobody judged it by this criterion",
        "tasks without a pair: 1",
        "  1  no-runs-left: every run of the task was left out",
        "the chosen side is the longer one in 50.0%",
    ]


def test_what_a_person_should_look_at_has_a_line_of_its_own() -> None:
    report = PairReport(
        level="trajectory",
        policy="best_worst",
        criterion="reward",
        runs=9,
        tasks=1,
        pairs=2,
        tasks_paired=1,
        other_start=1,
        other_policy=2,
        rejected_only=3,
    )
    assert report.explain().splitlines()[1:] == [
        "3 runs were cut off and may only be rejected",
        "1 pairs start from different observations",
        "2 pairs compare runs of different agents, models or versions",
    ]


def test_a_group_report_is_json() -> None:
    report = GroupReport(
        variant="grpo",
        criterion="reward",
        runs=2,
        runs_grouped=2,
        groups=1,
        sizes={2: 1},
        zero_variance={},
        same_verdict=0,
        groups_dropped=0,
    )
    assert json.loads(json.dumps(report.as_dict()))["sizes"] == {"2": 1}
    assert report.warnings == ()
