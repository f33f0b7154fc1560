"""Insights: ExpeL's votes, ids that stay, merging without loss, what does not help goes."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from trajstore import Pool, Step, Store, Trajectory
from trajstore import open as open_store
from trajstore.errors import EndpointError, MemoryItemError
from trajstore.memory import (
    Insights,
    Operation,
    Rule,
    apply_operations,
    near_duplicates,
    recall_reasoning,
    record_uses,
    retract,
    update_reasoning,
    update_rules,
)
from trajstore.memory.insights_chat import read_operations
from trajstore.memory.reasoning import read_items
from trajstore.schema import Insight, finish


def rule(name: str, votes: int = 2) -> Rule:
    return Rule(insight_id=name, text=f"text of {name}", votes=votes)


def run(name: str, task: str, *, success: bool | None) -> Trajectory:
    steps = (Step(actor="user", text=f"do {task}"), Step(actor="agent", text=f"I did {name}."))
    return finish(
        Trajectory(
            trajectory_id=name,
            task_id=task,
            goal=f"do {task}",
            source="x",
            success=success,
            environment="shop",
            steps=steps,
        )
    )


@pytest.fixture
def memory(store: Pool) -> Insights:
    return Insights(store)


def insight(text: str, **fields: object) -> Insight:
    return Insight(**{"text": text, "kind": "rule", "source": "x", "votes": 2, **fields})  # type: ignore[arg-type]


def used(store: Store, item: str, *outcomes: bool) -> None:
    before = store.memory("uses").num_rows
    for number, success in enumerate(outcomes, start=before):
        store.append(run(f"use{number}", "other", success=success))
        record_uses(store, f"use{number}", [item], "insight")


# --- ExpeL's operations ----------------------------------------------------------------------


def test_add_agree_edit_remove_gives_three_votes() -> None:
    # 2, then + 1, + 1, - 1 (algorithms.md B4).
    added = apply_operations([], [Operation(name="ADD", text="look first")]).rules[0]
    named = Rule(insight_id="a", text=added.text, votes=added.votes)
    operations = [
        Operation(name="AGREE", insight_id="a"),
        Operation(name="EDIT", insight_id="a", text="always look first"),
        Operation(name="REMOVE", insight_id="a"),
    ]
    (found,) = apply_operations([named], operations).rules
    assert (found.votes, found.text, found.edited) == (3, "always look first", True)


@pytest.mark.parametrize(("length", "gone"), [(24, ()), (25, ("r0",))], ids=["24", "25 is full"])
def test_a_vote_against_weighs_three_times_on_a_full_list(
    length: int, gone: tuple[str, ...]
) -> None:
    # ADD (2) and AGREE (3), then REMOVE on a list of 20 + 5: 0, and it is gone (B4).
    rules = [rule("r0", 3), *(rule(f"r{n}") for n in range(1, length))]
    done = apply_operations(rules, [Operation(name="REMOVE", insight_id="r0")])
    assert done.removed == gone


def test_rules_are_ordered_by_votes_and_then_as_they_came() -> None:
    done = apply_operations(
        [rule("a"), rule("b"), rule("c")], [Operation(name="AGREE", insight_id="c")]
    )
    assert [r.insight_id for r in done.rules] == ["c", "a", "b"]


@pytest.mark.parametrize(
    ("operation", "why"),
    [
        (Operation(name="ADD", text="text of a"), "the rule is there"),
        (Operation(name="ADD", text=" "), "no text"),
        (Operation(name="EDIT", insight_id="a"), "no text"),
        (Operation(name="AGREE", insight_id="z"), "no such rule"),
        (Operation(name="REMOVE"), "no such rule"),
    ],
    ids=["there", "empty", "empty edit", "unknown", "nothing named"],
)
def test_what_cannot_be_done_is_said(operation: Operation, why: str) -> None:
    done = apply_operations([rule("a")], [operation])
    assert [r.votes for r in done.rules] == [2]
    assert why in done.ignored[0]


def test_an_edit_to_the_text_of_another_rule_agrees_with_that_one() -> None:
    edit = Operation(name="EDIT", insight_id="a", text="text of b")
    done = apply_operations([rule("a"), rule("b")], [edit])
    assert [(r.insight_id, r.votes) for r in done.rules] == [("b", 3), ("a", 2)]


# --- the table -------------------------------------------------------------------------------


def test_an_edit_keeps_the_id_and_makes_a_version(memory: Insights) -> None:
    (first,) = memory.add(insight("look first"))
    second = memory.edit(first.insight_id, "always look first")
    assert (second.insight_id, second.version) == (first.insight_id, 2)
    assert [(n, t) for n, t, _ in memory.versions(first.insight_id)] == [
        (1, "look first"),
        (2, "always look first"),
    ]
    assert memory.store.sql("SELECT text FROM insights").fetchall() == [("always look first",)]
    assert memory.edit(first.insight_id, "always look first").version == 2


def test_operations_write_versions_votes_and_lineage(memory: Insights) -> None:
    memory.apply([Operation(name="ADD", text="look first")], trajectory_ids=["a"])
    (first,) = memory.rules()
    edit = Operation(name="EDIT", insight_id=first.insight_id, text="always look first")
    memory.apply([edit], trajectory_ids=["b"])
    (second,) = memory.rules()
    assert (second.insight_id, second.version, second.votes) == (first.insight_id, 2, 3)
    assert second.trajectory_ids == ("a", "b")


def test_a_rule_without_votes_is_retired_and_may_come_back(memory: Insights) -> None:
    add = Operation(name="ADD", text="look first")
    memory.apply([add])
    (first,) = memory.rules()
    memory.apply([Operation(name="REMOVE", insight_id=first.insight_id)] * 2)
    assert memory.rules() == []
    assert [(r.state, r.because) for r in memory.all(every=True)] == [("retired", "no votes left")]
    memory.apply([add])
    (again,) = memory.rules()
    assert (again.insight_id, again.version, again.votes) == (first.insight_id, 2, 2)


def test_an_old_text_that_is_said_again_does_not_undo_an_edit(memory: Insights) -> None:
    add = Operation(name="ADD", text="look first")
    memory.apply([add])
    first = memory.edit(memory.rules()[0].insight_id, "always look first")
    memory.apply([add])
    found = {r.text: r for r in memory.rules()}
    assert set(found) == {"look first", "always look first"}
    assert found["always look first"].insight_id == first.insight_id
    assert found["look first"].insight_id != first.insight_id


def test_a_rule_removed_and_said_again_in_one_answer_is_there(memory: Insights) -> None:
    add = Operation(name="ADD", text="look first")
    memory.apply([add])
    against = Operation(name="REMOVE", insight_id=memory.rules()[0].insight_id)
    memory.apply([against, against, add])
    assert [(r.text, r.votes) for r in memory.rules()] == [("look first", 2)]


def test_two_writers_at_once_lose_no_vote(memory: Insights, tmp_path: Path) -> None:
    memory.apply([Operation(name="ADD", text="look first")])
    name = memory.rules()[0].insight_id

    def agree() -> None:
        own = Insights(open_store(tmp_path / "pool", durable=False))
        own.apply([Operation(name="AGREE", insight_id=name)])

    threads = [threading.Thread(target=agree) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [r.votes for r in memory.rules()] == [6]


def test_twenty_rules_are_worked_with(memory: Insights) -> None:
    memory.add(*(insight(f"rule {n}", votes=n) for n in range(1, 24)))
    assert [r.votes for r in memory.rules()] == list(range(23, 3, -1))


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"text": " "}, "needs a text"),
        ({"kind": "idea"}, "no kind 'idea'"),
        ({"level": "day"}, "no level 'day'"),
    ],
    ids=["text", "kind", "level"],
)
def test_bad_insights_are_refused(fields: dict[str, str], why: str, memory: Insights) -> None:
    with pytest.raises(MemoryItemError, match=why):
        memory.add(insight(**{"text": "x", **fields}))
    assert memory.all(every=True) == []


def test_uses_of_any_version_count(memory: Insights) -> None:
    (first,) = memory.add(insight("look", helpful=1, harmful=1))
    used(memory.store, first.item_id, True)
    second = memory.edit(first.insight_id, "look first")
    used(memory.store, second.item_id, True, False)
    found = memory.get(first.insight_id)
    assert (found.uses, found.helpful, found.harmful) == (3, 3, 2)
    exact = memory.store.sql("SELECT DISTINCT item_id FROM uses ORDER BY 1").fetchall()
    assert exact == [(first.item_id,), (second.item_id,)]


def test_merging_sums_counters_and_loses_no_source(memory: Insights) -> None:
    a, b = memory.add(
        insight("look first", helpful=3, harmful=1, trajectory_ids=("r1",)),
        insight("first look", helpful=1, harmful=2, trajectory_ids=("r2", "r1")),
    )
    whole = memory.merge([b.insight_id, a.insight_id], text="look before you act")
    assert (whole.insight_id, whole.version, whole.votes) == (a.insight_id, 2, 4)
    assert (whole.helpful, whole.harmful) == (4, 3)
    assert set(whole.trajectory_ids) == {"r1", "r2"}
    assert whole.merged_from == (b.insight_id,)
    assert [i.insight_id for i in memory.all()] == [a.insight_id]
    assert memory.get(b.insight_id).because == f"merged into {a.insight_id}"
    used(memory.store, b.item_id, True)
    assert memory.get(a.insight_id).helpful == 5


def test_near_duplicates_are_compared_with_the_first_of_their_group(memory: Insights) -> None:
    vectors = {"a": (1.0, 0.0), "b": (0.9, 0.43589), "c": (0.62, 0.7846), "d": (0.0, 1.0)}
    memory.add(*(insight(name, votes=9 - n) for n, name in enumerate("abcd")))
    groups = near_duplicates(memory.all(), lambda texts: [vectors[t] for t in texts])
    # b is near a (0.90); c is near b (0.90) and far from a (0.62).
    assert [[i.text for i in g] for g in groups] == [["a", "b"]]


def test_what_does_not_help_is_retired_and_comes_back_with_its_outcomes(memory: Insights) -> None:
    (bad,) = memory.add(insight("look away"))
    used(memory.store, bad.item_id, True, False, False, False)
    assert memory.prune() == ([], [])
    used(memory.store, bad.item_id, False)
    assert memory.prune(dry_run=True) == ([bad.insight_id], [])
    assert memory.prune() == ([bad.insight_id], [])
    assert memory.rules() == []
    used(memory.store, bad.item_id, True, True)
    assert memory.prune() == ([], [bad.insight_id])


def test_insights_of_the_task_that_asks_are_not_found(memory: Insights) -> None:
    memory.store.append(run("a", "t1", success=True))
    memory.add(
        insight("open the microwave", trajectory_ids=("a",)),
        insight("open the fridge", task_id="t1"),
        insight("open the drawer"),
    )
    assert [h.text for h in memory.search("open", task_id="t1")] == ["open the drawer"]
    assert len(memory.search("open", task_id="t2")) == 3


def test_taking_back_every_run_retires_and_one_of_two_makes_stale(memory: Insights) -> None:
    memory.add(insight("one", trajectory_ids=("a",)), insight("two", trajectory_ids=("a", "b")))
    done = retract(memory.store, ["a"], because="mislabelled")
    assert (done.retired["insights"], done.stale["insights"]) == (1, 1)
    assert memory.all() == []
    states = {i.text: i.state for i in memory.all(every=True)}
    assert states == {"one": "retired", "two": "stale"}


# --- by a model ------------------------------------------------------------------------------


def test_numbers_of_an_answer_are_those_that_the_model_was_shown(memory: Insights) -> None:
    memory.add(insight("a", votes=5), insight("b", votes=3))
    answer = """Sure:
```json
[{"op": "agree", "rule": 2}, {"op": "EDIT", "rule": 1, "text": "A"}, {"op": "REMOVE", "rule": 3},
 {"op": "DANCE"}, {"op": "ADD", "text": "c"}]
```"""
    rules = memory.rules()
    operations, problems = read_operations(answer, rules)
    assert [(o.name, o.insight_id) for o in operations] == [
        ("AGREE", rules[1].insight_id),
        ("EDIT", rules[0].insight_id),
        ("ADD", None),
    ]
    assert problems == ["REMOVE of rule 3: there are 2", "no operation: {'op': 'DANCE'}"]


def test_failures_are_shown_beside_successes_and_the_rest_in_groups_of_eight(
    memory: Insights,
) -> None:
    outcomes = {"f": False, "s": True, "u": None}
    memory.store.append(run(n, "mixed", success=s) for n, s in outcomes.items())
    memory.store.append(run(f"w{n}", f"won{n}", success=True) for n in range(9))
    seen: list[str] = []

    def chat(messages: object) -> str:
        seen.append(str(messages))
        return json.dumps([{"op": "ADD", "text": f"rule {len(seen)}"}, {"op": "AGREE", "rule": 1}])

    done = update_rules(memory.store, chat)
    assert (done.contrasts, done.groups, done.added, done.rules) == (1, 2, 3, 3)
    assert "I did f." in seen[0]
    assert "I did s." in seen[0]
    assert "I did u." not in "".join(seen)
    assert [s.count("Outcome: success") for s in seen] == [1, 8, 1]
    assert "1. rule 1" in seen[1]
    assert done.problems == ("AGREE of rule 1: there are 0",)
    assert {r.text: r.trajectory_ids for r in memory.rules()}["rule 3"] == ("w8",)
    assert update_rules(memory.store, chat).contrasts == 0


def test_a_model_that_is_not_there_is_an_error_and_one_that_fails_later_a_problem(
    memory: Insights,
) -> None:
    memory.store.append(run(f"w{n}", f"t{n}", success=True) for n in range(9))
    answers = iter(['[{"op": "ADD", "text": "x"}]'])

    def chat(_: object) -> str:
        answer = next(answers, None)
        if answer is None:
            raise EndpointError("down")
        return answer

    assert update_rules(memory.store, chat).problems == ("w8: down",)
    with pytest.raises(EndpointError):
        update_rules(memory.store, chat)


ITEM = {"title": "Look", "description": "When lost.", "content": "Look around first."}


def test_three_items_come_from_a_run_at_most() -> None:
    items = [{**ITEM, "content": f"{n}"} for n in range(4)]
    found, problems = read_items(json.dumps(items), [run("a", "t", success=True)], 3)
    assert [i.text for i in found] == ["0", "1", "2"]
    assert problems == ["1 items beyond the most of 3"]


@pytest.mark.parametrize("answer", ["none", "[1]", json.dumps([{**ITEM, "title": " "}])])
def test_an_answer_without_items_is_a_problem(answer: str) -> None:
    found, problems = read_items(answer, [run("a", "t", success=True)], 3)
    assert found == []
    assert len(problems) == 1


def test_items_come_from_both_outcomes_and_once(memory: Insights) -> None:
    outcomes = {"a": True, "b": False, "c": None}
    memory.store.append(run(n, n, success=s) for n, s in outcomes.items())
    seen: list[str] = []

    def chat(messages: object) -> str:
        seen.append(str(messages))
        return json.dumps([{**ITEM, "content": f"item {len(seen)}"}])

    done = update_reasoning(memory.store, chat)
    assert (done.added, done.runs, done.unknown) == (2, 2, 1)
    assert "Run 1, success" in seen[0]
    assert "Run 1, failure" in seen[1]
    again = update_reasoning(memory.store, chat)
    assert (again.added, again.already) == (0, 2)
    (hit,) = recall_reasoning(memory.store, "look around")
    assert "Look" in hit.text


def test_runs_at_one_task_are_compared(memory: Insights) -> None:
    memory.store.append(
        [run("a", "t", success=True), run("b", "t", success=False), run("c", "u", success=True)]
    )
    items = [{**ITEM, "content": f"{n}"} for n in range(6)]
    done = update_reasoning(memory.store, lambda _: json.dumps(items), parallel=True)
    assert (done.added, done.runs) == (5, 1)
    assert {i.trajectory_ids for i in memory.all(kind="reasoning")} == {("a", "b")}


@pytest.mark.parametrize("k", [0, 11])
def test_one_to_ten_items_are_recalled(k: int, memory: Insights) -> None:
    with pytest.raises(MemoryItemError, match="from 1 to 10"):
        recall_reasoning(memory.store, "x", k=k)
