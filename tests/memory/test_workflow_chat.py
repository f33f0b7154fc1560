"""Workflows by a model and by hand: what is shown, what is checked, what is kept."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.memory.test_workflow_rules import run
from trajstore import Pool, ToolCall, Trajectory
from trajstore.errors import EndpointError, MemoryItemError
from trajstore.memory import Workflows, induce_by_chat, record_uses
from trajstore.memory.workflow_chat import abstract_actions, intent_template
from trajstore.schema import Step

STEPS = [
    {"tool": "search", "arguments": {"query": "{item}"}},
    {"text": "open the first", "tool": "open", "arguments": {"id": "{id}"}},
]
ENTRY = {"name": "find it", "description": "To find.", "variables": ["item", "id"], "steps": STEPS}


def shop(name: str, goal: str, *tools: str, success: bool = True) -> Trajectory:
    return replace(run(name, name, [(t, {"q": name}) for t in tools], success=success), goal=goal)


@pytest.mark.parametrize(
    ("goal", "form"),
    [
        ('Find "red shoes" under $50.5', "find <text> under $<n>"),
        ("Cancel EHGLP3 of user 12", "cancel <id> of user <n>"),
        ("don't  stop", "don't stop"),
    ],
    ids=["quoted", "identifier", "apostrophe"],
)
def test_the_form_of_a_goal_has_no_values(goal: str, form: str) -> None:
    assert intent_template(goal) == form


def test_actions_are_read_from_parsed_calls_never_from_text() -> None:
    # agent-workflow-memory splits fill('12', 'a, b (c)') at the first '(' and ','.
    calls = (
        ToolCall.of("fill", {"text": "a, b (c)", "id": "12"}, "1"),
        ToolCall.of("stop", {}, "2"),
        ToolCall.of("say", "[1,2]", "3"),
        ToolCall.of("bad", "{", "4"),
    )
    told = Trajectory(
        trajectory_id="r", task_id="t", source="x", steps=(Step(actor="agent", tool_calls=calls),)
    )
    assert abstract_actions(told) == 'fill:"a, b (c)"_stop:_say:[1,2]_bad:{'


def test_one_run_a_kind_of_goal_and_a_sequence_of_actions_is_shown(store: Pool) -> None:
    store.append(
        [
            shop("a", "find shoes 1", "search", "open"),
            shop("b", "find shoes 2", "open", "search"),
            shop("c", "find hats", "look", "open"),
            shop("d", "find cats", "look", "open", success=False),
        ]
    )
    seen: list[str] = []

    def chat(messages: object) -> str:
        seen.append(str(messages))
        return json.dumps([ENTRY])

    done = induce_by_chat(store, chat)
    assert (done.successes, done.same_goal, done.same_actions, done.added) == (3, 1, 0, 1)
    assert [f"find {w}" in seen[0] for w in ("shoes 1", "shoes 2", "hats", "cats")] == [
        True, False, True, False,
    ]  # fmt: skip
    (kept,) = Workflows(store).all()
    assert kept.variables == ("item", "id")
    assert kept.trajectory_ids == ("a", "c")
    assert kept.text == (
        "find it\nTo find.\n1. search(query={item})\n2. open the first: open(id={id})"
    )


def test_runs_that_did_the_same_are_shown_once(store: Pool) -> None:
    store.append([shop("a", "one goal", "x", "y")])
    twin = shop("a", "quite another", "x", "y")
    store.append([replace(twin, trajectory_id="b", task_id="b")])
    assert induce_by_chat(store, lambda _: "[]").same_actions == 1


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"steps": STEPS[:1]}, "2 or more steps"),
        ({"steps": "search"}, "2 or more steps"),
        ({"steps": [*STEPS, {"why": "x"}]}, "neither a tool nor a text"),
        ({"steps": [*STEPS, {"tool": "fly"}]}, "No example calls the tool 'fly'"),
        ({"variables": ["item", "id", "price"]}, "'price' occurs in no step"),
        ({"variables": ["item"]}, "holds 'id', which is not declared"),
        ({"name": ""}, "no object with a name"),
        ({"steps": [*STEPS, {"tool": "open", "arguments": "all"}]}, "no JSON object"),
    ],
    ids=["short", "no list", "empty step", "tool", "unused", "undeclared", "nameless", "arguments"],
)
def test_a_workflow_that_fails_a_check_is_refused_and_the_others_are_kept(
    change: dict[str, object], why: str, store: Pool
) -> None:
    store.append(shop("a", "find", "search", "open"))
    good = {**ENTRY, "name": "the good one"}
    done = induce_by_chat(store, lambda _: json.dumps([{**ENTRY, **change}, good]))
    assert [w.name for w in Workflows(store).all()] == ["the good one"]
    assert why in done.problems[0]


def test_an_answer_that_is_no_list_is_a_problem(store: Pool) -> None:
    store.append(shop("a", "find", "search", "open"))
    done = induce_by_chat(store, lambda _: "I would rather not.")
    assert done.problems == ("no JSON list in the answer: 'I would rather not.'",)


def test_the_first_failure_of_a_model_is_an_error_later_ones_are_problems(store: Pool) -> None:
    store.append(shop(n, f"goal {n}", "search", n) for n in "abc")
    answers = iter([json.dumps([ENTRY | {"steps": STEPS[:1] * 2, "variables": []}])])

    def chat(_: object) -> str:
        answer = next(answers, None)
        if answer is None:
            raise EndpointError("down")
        return answer

    done = induce_by_chat(store, chat, examples=2)
    assert done.added == 1
    assert done.problems == ("c and 0 more: down",)
    with pytest.raises(EndpointError):
        induce_by_chat(store, chat)


# --- by hand ---------------------------------------------------------------------------------


def test_a_workflow_is_found_by_id_name_or_beginning(store: Pool) -> None:
    memory = Workflows(store)
    kept = memory.add("find it", STEPS)
    assert memory.get(kept.workflow_id) == memory.get("find it") == memory.get(kept.workflow_id[:6])
    with pytest.raises(MemoryItemError, match="no workflow 'lose it'"):
        memory.get("lose it")


def test_a_workflow_of_texts_alone_is_one(store: Pool) -> None:
    kept = Workflows(store).add("tidy", ["pick {thing} up", "put it away"])
    assert kept.text == "tidy\n1. pick {thing} up\n2. put it away"
    assert kept.variables == ("thing",)


@pytest.mark.parametrize(
    ("name", "steps", "why"),
    [
        (" ", ["a", "b"], "needs a name"),
        ("x", ["a"], "2 or more"),
        ("x", ["a", {"text": "b", "variables": ["c"]}], "does not hold its variable 'c'"),
    ],
    ids=["nameless", "short", "variable"],
)
def test_a_bad_workflow_is_refused(
    name: str, steps: list[str | dict[str, object]], why: str, store: Pool
) -> None:
    with pytest.raises(MemoryItemError, match=why):
        Workflows(store).add(name, steps)
    assert Workflows(store).all(every=True) == []


def test_what_was_made_from_the_task_that_asks_is_not_found(store: Pool) -> None:
    store.append(shop("a", "find", "search", "open"))
    memory = Workflows(store)
    memory.add("find shoes", ["x", "y"], trajectory_ids=["a"])
    memory.add("find hats", ["x", "z"], trajectory_ids=["elsewhere"])
    assert [h.text for h in memory.search("find", task_id="a")] == ["find hats"]
    assert len(memory.search("find something else", task_id="b")) == 2
    same_goal = memory.search("find", task_id="b")
    assert [h.text for h in same_goal] == ["find hats"]


def test_a_workflow_that_does_not_help_is_retired(store: Pool) -> None:
    memory = Workflows(store)
    kept = memory.add("find it", STEPS)
    for number in range(3):
        store.append(shop(f"r{number}", "find", "search", success=False))
        record_uses(store, f"r{number}", [kept.workflow_id], "workflow")
    assert len(memory.search("find")) == 0
    assert memory.prune(dry_run=True) == memory.prune() == 1
    assert memory.all() == []
    (row,) = store.sql("SELECT uses, failures, state FROM workflows").fetchall()
    assert row == (3, 3, "retired")
