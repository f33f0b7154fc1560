"""One of several runs that did the same: who stays, who goes, and what is refused."""

from __future__ import annotations

import random
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.filters.frames import call, details, run, selected, why
from tests.filters.in_memory import did, frame_of, shuffled
from trajstore import Trajectory
from trajstore.errors import MissingDependencyError, SelectionError
from trajstore.filters import Frame, Stage, stage
from trajstore.filters.clusters import GROUP_SCHEMA
from trajstore.filters.duplicates import ExactDuplicates, Merge, NearDuplicates

pytest.importorskip("numpy")

LONG = "a b c d e f g h i j k l m n o p q r s t"
"""20 actions: one changed leaves 19 of 23 padded pairs, 0.826."""
ONE_OFF = LONG.replace("j", "x")

WORDS = st.lists(st.sampled_from("abc"), max_size=4).map(" ".join)
RUNS = st.lists(
    st.tuples(WORDS, st.sampled_from(["t1", "t2"]), st.sampled_from([True, False, None])),
    min_size=1,
    max_size=8,
)


def runs_of(described: list[tuple[str, str, bool | None]]) -> list[Trajectory]:
    return [
        did(f"r{n}", actions, task_id=task, success=success)
        for n, (actions, task, success) in enumerate(described)
    ]


def kept(made: Stage, frame: Frame) -> list[str]:
    return sorted(made.apply(frame).rows["trajectory_id"].to_pylist())


def test_a_replay_loop_leaves_what_is_unique() -> None:
    """Case 19: 6,076 items of which 583 are unique, all in one batch."""
    draw = random.Random(0)
    numbers = [*range(583), *(draw.randrange(583) for _ in range(6076 - 583))]
    frame = frame_of(*(did(f"r{n:05}", f"t{x} end") for n, x in enumerate(numbers)))
    selection = selected(frame, stage("exact-duplicates"))
    assert len(selection) == 583
    assert selection.funnel[0].dropped == {"exact-duplicate": 6076 - 583}
    assert sum(selection.rows["duplicates"].to_pylist()) == 6076 - 583


def test_runs_that_differ_in_volatile_values_only_are_exact_duplicates() -> None:
    frame = frame_of(
        run("a", call("cat", {"path": "/tmp/tmp1/log"})),
        run("b", call("cat", {"path": "/tmp/tmp2/log"})),
        run("c", call("cat", {"path": "/etc/log"})),
    )
    assert why(selected(frame, stage("exact-duplicates"))) == {"b": "exact-duplicate"}


def test_the_detail_names_the_run_that_is_kept() -> None:
    frame = frame_of(did("a", "x y"), did("b", "x y"))
    assert details(selected(frame, stage("exact-duplicates"))) == {"b": "a"}


def test_another_order_of_actions_is_another_run() -> None:
    frame = frame_of(did("a", "x y"), did("b", "y x"))
    assert len(selected(frame, stage("exact-duplicates"))) == 2


def test_the_same_actions_at_another_task_are_no_duplicates_unless_asked() -> None:
    frame = frame_of(did("a", "x y", task_id="t1"), did("b", "x y", task_id="t2"))
    assert len(selected(frame, stage("exact-duplicates"))) == 2
    assert len(selected(frame, stage("exact-duplicates", within="all"))) == 1


def test_one_goal_under_two_task_ids_can_be_compared() -> None:
    frame = frame_of(
        did("a", "x", task_id="t1", goal="Fix  the bug"),
        did("b", "x", task_id="t2", goal="fix the BUG"),
        did("c", "x", task_id="t3", goal="another"),
        did("d", "x", task_id="t4"),
        did("e", "x", task_id="t5"),
    )
    assert why(selected(frame, stage("exact-duplicates", within="goal"))) == {
        "b": "exact-duplicate"
    }


def test_another_version_of_the_environment_is_never_superseded() -> None:
    """Case 23: likeness supersedes nothing without the key, task and environment version."""
    frame = frame_of(
        did("a", LONG, environment_version="1", success=True, reward=1.0),
        did("b", LONG, environment_version="2", success=False, reward=0.0),
    )
    made = [stage("exact-duplicates"), stage("near-duplicates")]
    assert len(selected(frame, *made)) == 2


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ({"success": True}, {"success": None}),
        ({"success": None}, {"success": False}),
        ({"success": True, "reward": 0.1}, {"success": False, "reward": 0.9}),
        ({"success": True, "reward": 0.9}, {"success": True, "reward": 0.1}),
        ({"success": True, "reward": 0.1}, {"success": True}),
        (
            {"prompt_tokens": 5, "completion_tokens": 5},
            {"prompt_tokens": 9, "completion_tokens": 9},
        ),
        ({"prompt_tokens": 9, "completion_tokens": 9}, {"prompt_tokens": 1}),
    ],
)
def test_the_better_run_is_kept_whatever_its_id(
    better: dict[str, Any], worse: dict[str, Any]
) -> None:
    for first, second in (("a", "b"), ("b", "a")):
        frame = frame_of(did(first, "x", **better), did(second, "x", **worse))
        assert selected(frame, stage("exact-duplicates")).ids() == [first]


def test_of_near_duplicates_the_one_with_fewer_calls_is_kept() -> None:
    frame = frame_of(did("a", f"{LONG} u"), did("b", LONG))
    assert selected(frame, stage("near-duplicates")).ids() == ["b"]


def test_a_tie_goes_to_the_smaller_id() -> None:
    frame = frame_of(did("b", "x"), did("a", "x"), did("c", "x"))
    assert selected(frame, stage("exact-duplicates")).ids() == ["a"]


@pytest.mark.parametrize("name", ["exact-duplicates", "near-duplicates"])
def test_runs_that_did_nothing_are_duplicates_of_nothing(name: str) -> None:
    frame = frame_of(did("a", ""), did("b", ""), did("c", ""))
    assert len(selected(frame, stage(name))) == 3


def test_a_run_with_one_action_changed_is_a_near_duplicate() -> None:
    frame = frame_of(did("a", LONG), did("b", ONE_OFF), did("c", "a b c"))
    made = stage("near-duplicates", threshold=0.8)
    selection = selected(frame, made)
    assert (why(selection), details(selection)) == ({"b": "near-duplicate"}, {"b": "a"})
    assert len(selected(frame, stage("near-duplicates", threshold=0.83))) == 3


def test_likeness_is_that_of_padded_pairs() -> None:
    """algorithms.md B2: A and A with `edit` doubled share .8571 of their padded pairs."""
    a, b = "search open edit test submit", "search open edit edit test submit"
    groups = NearDuplicates(threshold=0.8).groups(frame_of(did("a", a), did("b", b)))
    assert groups["similarity"].to_pylist() == [1.0, pytest.approx(6 / 7)]


def test_short_runs_can_be_near_duplicates() -> None:
    frame = frame_of(did("a", "x"), did("b", "x"), did("c", "y"))
    assert why(selected(frame, stage("near-duplicates"))) == {"b": "near-duplicate"}


def test_words_that_mean_the_same_are_not_near_duplicates() -> None:
    """Case 22: a paraphrase is for the stage of its own."""
    frame = frame_of(
        run("a", call("answer", {"text": "the cat sat on the mat"})),
        run("b", call("answer", {"text": "on the mat, a cat was sitting"})),
    )
    assert len(selected(frame, stage("near-duplicates", threshold=0.3))) == 2


def test_failures_can_be_kept_apart_from_successes_for_pairs() -> None:
    frame = frame_of(
        did("a", LONG, success=True), did("b", ONE_OFF, success=False), did("c", ONE_OFF)
    )
    made = stage("near-duplicates", same_outcome=True)
    assert len(selected(frame, made)) == 3
    assert len(selected(frame, stage("near-duplicates"))) == 1


def test_a_dry_run_lists_the_groups() -> None:
    """Case 21: what would be joined can be seen before."""
    frame = frame_of(did("a", "x"), did("b", "x y z", success=True), did("c", "x y z"))
    groups = ExactDuplicates().groups(frame)
    assert groups.schema == GROUP_SCHEMA
    assert groups.to_pylist() == [
        {"cluster": "b", "trajectory_id": "b", "kept": True, "similarity": 1.0},
        {"cluster": "b", "trajectory_id": "c", "kept": False, "similarity": 1.0},
    ]


def test_groups_are_what_the_stage_then_does() -> None:
    frame = frame_of(did("a", LONG), did("b", ONE_OFF), did("c", LONG), did("d", "x"))
    made = NearDuplicates()
    gone = [r for r in made.groups(frame).to_pylist() if not r["kept"]]
    assert {r["trajectory_id"]: r["cluster"] for r in gone} == details(selected(frame, made))


def test_the_kept_run_counts_whom_it_stands_for() -> None:
    """Case 21: counters and provenance of what was joined are not lost."""
    frame = frame_of(did("a", LONG), did("b", LONG), did("c", ONE_OFF), did("d", ONE_OFF))
    made = [stage("exact-duplicates"), stage("near-duplicates")]
    (row,) = selected(frame, *made).rows.to_pylist()
    assert (row["trajectory_id"], row["duplicates"]) == ("a", 3)
    assert row["duplicate_ids"] == ["b", "c", "d"]


def test_what_was_joined_is_not_among_the_rows_any_more() -> None:
    """Case 24."""
    frame = frame_of(did("a", LONG), did("b", LONG), did("c", ONE_OFF))
    selection = selected(frame, stage("exact-duplicates"), stage("near-duplicates"))
    gone = {i for row in selection.rows["duplicate_ids"].to_pylist() for i in row}
    assert gone == {"b", "c"}
    assert not gone & set(selection.ids())


def test_one_cluster_that_swallows_a_source_stops_with_its_name() -> None:
    runs = [did(f"r{n:02}", "same") for n in range(15)]
    runs += [did(f"s{n:02}", f"other{n}") for n in range(10)]
    message = r"exact-duplicates.*that of r00, out of 15 of the 25 runs of the source 'hand'"
    with pytest.raises(SelectionError, match=message):
        selected(frame_of(*runs), stage("exact-duplicates"))


def test_a_swallowed_source_is_let_through_where_that_is_wanted() -> None:
    runs = [did(f"r{n:02}", "same") for n in range(25)]
    for share in (None, 1.0):
        assert len(selected(frame_of(*runs), stage("near-duplicates", most_share=share))) == 1


def test_a_small_source_is_no_reason_to_stop() -> None:
    runs = [did(f"r{n:02}", "same") for n in range(19)]
    assert len(selected(frame_of(*runs), stage("exact-duplicates"))) == 1


@settings(deadline=None, max_examples=25)
@given(RUNS, st.data(), st.sampled_from(["task", "all"]))
def test_exact_duplicates_do_not_depend_on_the_order_of_the_rows(
    described: list[tuple[str, str, bool | None]], data: st.DataObject, within: str
) -> None:
    frame = frame_of(*runs_of(described))
    order = data.draw(st.permutations(range(len(described))))
    made = stage("exact-duplicates", within=within)
    assert kept(made, frame) == kept(made, shuffled(frame, order))


@settings(deadline=None, max_examples=25)
@given(RUNS, st.data(), st.sampled_from([0.4, 0.7, 1.0]))
def test_near_duplicates_do_not_depend_on_the_order_of_the_rows(
    described: list[tuple[str, str, bool | None]], data: st.DataObject, threshold: float
) -> None:
    frame = frame_of(*runs_of(described))
    order = data.draw(st.permutations(range(len(described))))
    made = NearDuplicates(threshold=threshold, within="all")
    assert kept(made, frame) == kept(made, shuffled(frame, order))
    assert made.groups(frame) == made.groups(shuffled(frame, order))


@settings(deadline=None, max_examples=25)
@given(RUNS)
def test_what_exact_duplicates_keeps_has_no_exact_duplicates(
    described: list[tuple[str, str, bool | None]],
) -> None:
    frame = frame_of(*runs_of(described))
    once = ExactDuplicates(within="all").apply(frame).rows
    distinct = {actions for actions, _, _ in described if actions}
    nothing = sum(not actions for actions, _, _ in described)
    assert once.num_rows == len(distinct) + nothing


def test_exact_duplicates_are_near_duplicates_at_1() -> None:
    frame = frame_of(did("a", "x y"), did("b", "x y"), did("c", "x y z"))
    exact = selected(frame, stage("exact-duplicates")).ids()
    assert selected(frame, stage("near-duplicates", threshold=1.0)).ids() == exact


def test_the_curve_of_the_bands_used_can_be_shown() -> None:
    """Case 25."""
    assert "0.7 -> 0.9999" in NearDuplicates(threshold=0.7).minhash().curve()
    assert NearDuplicates(bands=14, rows=9).minhash().curve((0.7,)).endswith("0.7 -> 0.4382")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"threshold": 0.0}, "threshold"),
        ({"shingle": 0}, "1 action or more"),
        ({"bands": 3}, "bands and rows together"),
        ({"within": "source"}, "within='source'"),
    ],
)
def test_parameters_that_do_not_fit_are_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(SelectionError, match=message):
        stage("near-duplicates", **parameters)


@pytest.mark.parametrize(
    "made", [ExactDuplicates(within="goal"), NearDuplicates(shingle=3), Merge(groups=(("a", "b"),))]
)
def test_a_stage_can_be_made_again_from_its_parameters(made: Stage) -> None:
    assert stage(made.name, **made.parameters()) == made


def test_runs_are_merged_by_their_ids_whatever_they_did() -> None:
    """Case 21: nobody lowers a threshold for all to join two."""
    frame = frame_of(did("a", "x"), did("b", "y", success=True), did("c", "x"), did("d", "z"))
    selection = selected(frame, stage("merge", groups=[["a", "b"]]))
    assert (why(selection), details(selection)) == ({"a": "merged"}, {"a": "b"})
    assert selection.ids() == ["b", "c", "d"]
    assert selection.rows["duplicate_ids"].to_pylist() == [["a"], [], []]


def test_merging_can_keep_the_first_named() -> None:
    frame = frame_of(did("a", "x"), did("b", "y", success=True), did("c", "z"))
    selection = selected(frame, stage("merge", groups=[["c", "a", "b"]], keep_first=True))
    assert selection.ids() == ["c"]


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([], "none is no group"),
        ([["a"]], "is no group"),
        ([["a", "b"], ["b", "c"]], "b stands there twice"),
    ],
)
def test_groups_that_are_none_are_refused(groups: list[list[str]], message: str) -> None:
    with pytest.raises(SelectionError, match=message):
        stage("merge", groups=groups)


def test_merging_a_run_that_is_not_there_is_an_error() -> None:
    frame = frame_of(did("a", "x"), did("b", "x"))
    with pytest.raises(SelectionError, match="names b, which is not among the 1 rows"):
        selected(frame, stage("exact-duplicates"), stage("merge", groups=[["a", "b"]]))


@pytest.mark.parametrize("name", ["exact-duplicates", "near-duplicates"])
def test_no_rows_in_no_rows_out(name: str) -> None:
    empty = shuffled(frame_of(did("a", "x")), [])
    assert len(selected(empty, stage(name))) == 0


def test_exact_duplicates_and_merging_need_no_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)
    frame = frame_of(did("a", "x"), did("b", "x"), did("c", "y"))
    made = [stage("exact-duplicates"), stage("merge", groups=[["a", "c"]])]
    assert selected(frame, *made).ids() == ["a"]


def test_without_numpy_near_duplicates_say_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'trajstore\[select\]'"):
        selected(frame_of(did("a", "x")), stage("near-duplicates"))
