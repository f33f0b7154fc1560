"""What runs share before they part, against a walk step by step."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.pairs.worlds import START, run, tables, turn
from trajstore.errors import PairError
from trajstore.pairs import RunRules, judged_runs, turn_source
from trajstore.pairs.prefixes import Prefix, follow, follow_together
from trajstore.pairs.relations import Relations
from trajstore.schema import Observation, Step, Trajectory


def followed(
    runs: list[Trajectory], query: str, prefix: Prefix = "observed"
) -> list[dict[str, Any]]:
    rows, steps = tables(runs)
    kept = judged_runs(rows, RunRules(), collapse=False).kept
    with Relations(judged=kept, turns=turn_source(steps).turns()) as made:
        follow(made, prefix)
        return list(made.rows(query).to_pylist())


def followed_together(
    runs: list[Trajectory], query: str, prefix: Prefix = "observed", source: Any = None
) -> list[dict[str, Any]]:
    rows, steps = tables(runs)
    columns = ("turn", "seen", "digest")
    with Relations(judged=judged_runs(rows, RunRules(), collapse=False).kept) as made:
        follow_together(made, source or turn_source(steps), prefix, columns=columns)
        return list(made.rows(query).to_pylist())


class Asked:
    """A source that remembers which steps it was asked for with their results."""

    def __init__(self, runs: list[Trajectory]) -> None:
        self._turns = turn_source(tables(runs)[1])
        self.whole: list[tuple[list[str], int]] = []

    def turns(self, ids: Any = None, columns: Any = (), *, results: bool = True) -> pa.Table:
        assert not results
        return self._turns.turns(ids, columns, results=False)

    def answers(self, ids: Any, n_steps: int, columns: Any) -> pa.Table:
        self.whole.append((sorted(ids.to_pylist()), n_steps))
        return self._turns.answers(ids, n_steps, columns)

    def rewards(self, ids: Any = None) -> pa.Table:
        return self._turns.rewards(ids)

    def digests(self, ids: Any, n_steps: int) -> pa.Table:
        return self._turns.digests(ids, n_steps)


def same_prompt(*runs: Trajectory, prefix: Prefix = "exact") -> bool:
    found = followed(list(runs), "SELECT DISTINCT prompt_key FROM started", prefix)
    return len(found) == 1


PLACES = st.lists(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.sampled_from(["o", "p"]), st.sampled_from(["", "hm"])),
        max_size=4,
    ),
    min_size=2,
    max_size=4,
)


@settings(max_examples=40, deadline=None)
@given(PLACES, st.sampled_from(["exact", "observed", "actions"]))
def test_equal_prefixes_have_equal_sums_and_others_have_not(
    drawn: list[list[tuple[str, str, str]]], prefix: Prefix
) -> None:
    runs = [
        run(f"r{i}", *(turn(f"{a}(.)", o, text=t) for a, o, t in steps), "end(.)")
        for i, steps in enumerate(drawn)
    ]
    shown = {"exact": slice(0, 3), "observed": slice(0, 2), "actions": slice(0, 1)}[prefix]
    found = followed(runs, "SELECT * FROM path WHERE own ORDER BY run, step_index", prefix)
    sums: dict[tuple[Any, ...], set[Any]] = {}
    for place in found:
        before = drawn[place["run"] - 1][: place["own_no"] - 1]
        sums.setdefault(tuple(t[shown] for t in before), set()).add(place["before"])
    assert all(len(values) == 1 for values in sums.values())
    assert len({next(iter(values)) for values in sums.values()}) == len(sums)


@settings(max_examples=60, deadline=None)
@given(PLACES, st.sampled_from(["exact", "observed", "actions"]))
def test_runs_followed_together_share_the_places_that_they_share_when_read_whole(
    drawn: list[list[tuple[str, str, str]]], prefix: Prefix
) -> None:
    greeting = (START[0], Step(actor="environment", observations=(Observation(text="ready"),)))
    runs = [
        run(
            f"r{i}",
            *(turn(f"{a}(.)", o, text=t) for a, o, t in steps),
            "end(.)",
            start=greeting if drawn[0] else START,
        )
        for i, steps in enumerate(drawn)
    ]
    query = "SELECT * FROM path JOIN started USING (run) ORDER BY run, step_index"
    whole, read = followed(runs, query, prefix), followed_together(runs, query, prefix)
    assert _shared(read) == _shared(whole)
    assert [r["prompt_key"] for r in read] == [w["prompt_key"] for w in whole]
    until = {name: max(places, default=-1) for name, places in _by_run(_shared(whole)).items()}
    for mine, other in zip(read, whole, strict=True):
        if mine["step_index"] < until.get(mine["run"], -1):
            assert [mine[n] for n in RESULTS] == [other[n] for n in RESULTS]


RESULTS = ("turn", "seen", "before")


def _shared(path: list[dict[str, Any]]) -> set[frozenset[tuple[int, int]]]:
    """Sets of (run, step) of the agent that are one place, where it is more than one run's."""
    places: dict[Any, set[tuple[int, int]]] = {}
    for step in path:
        if step["own"]:
            places.setdefault(step["before"], set()).add((step["run"], step["step_index"]))
    return {frozenset(found) for found in places.values() if len(found) > 1}


def _by_run(shared: set[frozenset[tuple[int, int]]]) -> dict[int, set[int]]:
    found: dict[int, set[int]] = {}
    for run_no, step in (place for places in shared for place in places):
        found.setdefault(run_no, set()).add(step)
    return found


def test_results_of_runs_that_part_at_once_are_not_read() -> None:
    runs = [run("a", turn("x(1)", "o"), "end(.)"), run("b", turn("y(1)", "o"), "end(.)")]
    source = Asked(runs)
    followed_together(runs, "SELECT 1", source=source)
    assert source.whole == []


def test_results_are_read_up_to_the_last_place_that_runs_share_by_what_was_called() -> None:
    one, other = turn("x(1)", "o"), turn("y(1)", "o")
    runs = [run("a", one, other, one), run("b", one, one, one), run("c", other, one, one)]
    source = Asked(runs)
    followed_together(runs, "SELECT 1", source=source)
    assert source.whole == [(["a", "b"], 3)]


def test_volatile_values_in_results_make_another_turn_at_the_same_place() -> None:
    runs = [run(n, turn("x(1)", f"saved /tmp/{n}"), f"{n}(1)") for n in ("a", "b")]
    for column, kinds in (("turn", 2), ("seen", 1)):
        query = f"SELECT {column} FROM path WHERE step_index = 2 ORDER BY run"
        found = followed_together(runs, query)
        assert found == followed(runs, query)
        assert len({step[column] for step in found}) == kinds


def test_results_before_the_first_turn_are_always_read() -> None:
    def opened(name: str, text: str) -> Trajectory:
        seen = Step(actor="environment", observations=(Observation(text=text),))
        return run(name, "x(1)", start=(Step(actor="user", text=name), seen))

    runs = [opened("a", "o"), opened("b", "o"), opened("c", "p")]
    query = "SELECT seen FROM path WHERE step_index = 1 ORDER BY run"
    assert followed_together(runs, query) == followed(runs, query)


def test_turns_in_another_order_are_another_prefix() -> None:
    runs = [run("a", "x(1)", "y(1)", "end(.)"), run("b", "y(1)", "x(1)", "end(.)")]
    found = followed(runs, "SELECT DISTINCT before FROM path WHERE own_no = 3")
    assert len(found) == 2


def test_agent_turns_are_counted_from_one_and_copies_are_not() -> None:
    shown = turn("demo(1)", is_copied=True)
    made = run("a", shown, "x(1)", Step(actor="user", text="go on"), "y(1)")
    found = followed([made], "SELECT own_no FROM path ORDER BY step_index")
    assert [f["own_no"] for f in found] == [0, 0, 0, 1, 1, 2]


def test_a_copied_turn_belongs_to_the_prompt() -> None:
    one, other = turn("demo(1)", is_copied=True), turn("demo(2)", is_copied=True)
    assert same_prompt(run("a", one, "x(1)"), run("b", one, "y(1)"))
    assert not same_prompt(run("a", one, "x(1)"), run("b", other, "y(1)"))


def test_runs_end_with_their_last_own_turn() -> None:
    made = run("a", "x(1)", Step(actor="user", text="thanks"))
    (found,) = followed([made], "SELECT first_own, ends, turns FROM started")
    assert found == {"first_own": 2, "ends": 3, "turns": 1}


def test_a_run_without_a_turn_of_its_own_has_no_start() -> None:
    assert followed([run("a", n_agent_steps=1)], "SELECT * FROM started") == []


GREETED = (START[0], Step(actor="user", text="Hello."))
LATER = Step(actor="user", text="and?")


def test_one_run_in_which_the_user_goes_on_to_speak_makes_the_user_simulated() -> None:
    talk = run("a", "x(1)", LATER, "y(1)")
    assert same_prompt(talk, run("b", "x(1)", start=GREETED))
    assert not same_prompt(run("a", "x(1)"), run("b", "x(1)", start=GREETED))


def test_one_more_message_before_the_first_turn_is_another_prompt_all_the_same() -> None:
    talk = run("a", "x(1)", LATER, "y(1)")
    assert not same_prompt(talk, run("b", "x(1)", start=(*GREETED, LATER)))


def test_the_goal_is_prompt_only_where_no_user_speaks() -> None:
    assert same_prompt(run("a", "x(1)", goal="one"), run("b", "x(1)", goal="two"))
    bare: dict[str, Any] = {"start": ()}
    assert not same_prompt(run("a", "x(1)", goal="one", **bare), run("b", "x(1)", goal="2", **bare))


def test_branches_belong_to_the_place_where_they_leave_their_parent() -> None:
    def branch(name: str, step: int, relation: str) -> Trajectory:
        origin: dict[str, Any] = {"parent_id": "p", "parent_step": step, "relation": relation}
        return run(name, "x(1)", start=(), **origin)

    assert same_prompt(branch("a", 1, "branch"), branch("b", 1, "branch"))
    assert not same_prompt(branch("a", 1, "branch"), branch("b", 2, "branch"))
    assert same_prompt(branch("a", 1, "retry"), branch("b", 2, "retry"))


def test_an_unknown_prefix_is_answered_with_the_known_ones() -> None:
    with pytest.raises(PairError, match="no prefix 'same'; known are: exact, observed, actions"):
        followed([run("a", "x(1)")], "SELECT 1", "same")  # type: ignore[arg-type]
