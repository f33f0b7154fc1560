"""reflections, workflows, insights on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Cli
from tests.pipeline.chat_server import Reply, Request, chat_server, says
from trajstore import open as open_store
from trajstore.memory import Insights, Operation, Reflections, record_uses

RULE = [{"op": "ADD", "text": "Look before you buy."}]


def value(text: str) -> Any:
    return json.loads(text)


def lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def answering(text: str) -> Any:
    def answer(request: Request) -> Reply:
        assert request.body["model"] == "m"
        return says(text)

    return answer


# --- reflections -----------------------------------------------------------------------------


def test_a_reflection_is_added_listed_and_shown(cli: Cli, small: Path) -> None:
    ran = cli("reflections", "add", small, "Search again.", "--run", "a2", "--json")
    kept = value(ran.out)
    assert (kept["task"], kept["confidence"]) == ("t/a", 0.5)
    assert lines(cli("reflections", "list", small, "--json").out) == [kept]
    assert "Search again." in cli("reflections", "list", small).out
    shown = cli("reflections", "show", small, kept["id"][:6])
    assert shown.out.endswith("\nSearch again.\n")
    assert value(cli("reflections", "show", small, kept["id"], "--json").out)["uses"] == 0


def test_a_reflection_on_a_success_is_refused(cli: Cli, small: Path) -> None:
    ran = cli("reflections", "add", small, "x", "--run", "a1")
    assert ran.code == 1
    assert "a1 succeeded" in ran.err


def test_the_window_and_the_best_of_a_task_are_listed(cli: Cli, small: Path) -> None:
    memory = Reflections(open_store(small, durable=False))
    ids = [memory.add(f"n{t}", task_id="t", trial=t).reflection_id for t in range(5)]
    record_uses(memory.store, "a1", [ids[0]], "reflection")
    window = cli("reflections", "list", small, "--task", "t", "--window", 2, "--json")
    best = cli("reflections", "list", small, "--task", "t", "--recall", "--json")
    assert [r["text"] for r in lines(window.out)] == ["n3", "n4"]
    assert [r["text"] for r in lines(best.out)] == ["n0", "n4", "n3"]
    assert cli("reflections", "list", small, "--window", 2).code == 2


def test_reflections_are_found_and_those_of_the_task_left_out(cli: Cli, small: Path) -> None:
    for task in ("t/1", "t/2"):
        cli("reflections", "add", small, f"Open the microwave at {task}.", "--task", task)
    ran = cli("reflections", "search", small, "microwave", "--task", "t/1", "--json")
    assert [h["task"] for h in value(ran.out)["hits"]] == ["t/2"]
    assert "t/2" in cli("reflections", "search", small, "microwave").out
    assert "no reflection fits" in cli("reflections", "search", small, "zebra").err


@pytest.mark.parametrize(
    ("folder", "count"),
    [("webshop", 265), ("alfworld/base_run_logs", 163), ("alfworld/reflexion_run_logs", 200)],
)
def test_recorded_memories_come_in_once(
    folder: str, count: int, cli: Cli, tmp_path: Path, real_data: Path
) -> None:
    # PROVENANCE.md: memory items after the last trial of each run.
    pool = tmp_path / "pool"
    ran = cli("reflections", "import", pool, real_data / "reflexion" / folder, "--json")
    assert value(ran.out)["reflections"] == count
    assert value(ran.out)["trajectories"] >= count
    again = cli("reflections", "import", pool, real_data / "reflexion" / folder, "--json")
    assert value(again.out)["reflections"] == 0
    assert value(again.out)["already"] == value(ran.out)["trajectories"]


def test_a_model_writes_reflections_on_failures(cli: Cli, small: Path) -> None:
    with chat_server(answering("Search in other words.")) as server:
        asked = ("--endpoint", server.url, "--model", "m")
        ran = cli("reflections", "write", small, *asked, "--json")
        again = cli("reflections", "write", small, *asked)
    done = value(ran.out)
    assert (len(done["written"]), done["unknown"], done["problems"]) == (1, 1, [])
    assert "already        1" in again.out
    assert Reflections(open_store(small)).window("t/a")[0].text == "Search in other words."


def test_a_model_that_says_nothing_is_told_by_the_exit_code(cli: Cli, small: Path) -> None:
    with chat_server(answering(" ")) as server:
        ran = cli("reflections", "write", small, "--endpoint", server.url, "--model", "m")
    assert ran.code == 1
    assert "left out: a2: the model's answer is empty" in ran.err


def test_pruning_says_what_it_would_do(cli: Cli, small: Path) -> None:
    memory = Reflections(open_store(small, durable=False))
    item = memory.add("bad advice", task_id="t").reflection_id
    for run in ("a2", "x1", "x2"):
        record_uses(memory.store, run, [item], "reflection")
    assert value(cli("reflections", "prune", small, "--dry-run", "--json").out)["retired"] == []


# --- workflows -------------------------------------------------------------------------------

FIND = {
    "name": "find it",
    "description": "To find a thing.",
    "steps": [{"tool": "search", "arguments": {"q": "{thing}"}}, {"text": "open it"}],
}


def test_a_workflow_is_added_listed_shown_and_found(cli: Cli, small: Path) -> None:
    ran = cli("workflows", "add", small, "-", "--json", stdin=json.dumps(FIND))
    kept = value(ran.out)
    assert kept["steps"] == 2
    assert lines(cli("workflows", "list", small, "--json").out) == [kept]
    assert "find it" in cli("workflows", "list", small).out
    assert cli("workflows", "show", small, "find it").out.endswith(
        "find it\nTo find a thing.\n1. search(q={thing})\n2. open it\n"
    )
    shown = value(cli("workflows", "show", small, kept["id"][:8], "--json").out)
    assert shown["variables"] == ["thing"]
    found = value(cli("workflows", "search", small, "find a thing", "--json").out)
    assert [h["id"] for h in found["hits"]] == [kept["id"]]


@pytest.mark.parametrize(
    ("given", "code", "why"),
    [
        ("{", 2, "is no JSON"),
        ("[]", 2, "no JSON object"),
        ('{"name": "x", "steps": ["a"]}', 1, "2 or more steps"),
    ],
    ids=["broken", "list", "short"],
)
def test_a_bad_workflow_is_refused(given: str, code: int, why: str, cli: Cli, small: Path) -> None:
    ran = cli("workflows", "add", small, "-", stdin=given)
    assert ran.code == code
    assert why in ran.err


def test_workflows_are_induced_by_rule(cli: Cli, airline: Path) -> None:
    done = value(cli("workflows", "induce", airline, "--json").out)
    assert (done["runs"], done["successes"], done["added"]) == (182, 80, 8)
    again = cli("workflows", "induce", airline)
    assert "added      0" in again.out
    assert len(lines(cli("workflows", "list", airline, "--json").out)) == 8


def test_workflows_are_induced_by_a_model(cli: Cli, small: Path) -> None:
    entry = {**FIND, "variables": ["thing"]}
    with chat_server(answering(json.dumps([entry]))) as server:
        asked = ("--endpoint", server.url, "--model", "m", "--json")
        done = value(cli("workflows", "induce", small, *asked).out)
    # Of three runs one succeeded, with a single call: no example has two.
    assert (done["added"], done["successes"]) == (0, 0)


# --- insights --------------------------------------------------------------------------------


def test_a_model_draws_rules(cli: Cli, small: Path) -> None:
    with chat_server(answering(json.dumps(RULE))) as server:
        asked = ("--endpoint", server.url, "--model", "m")
        ran = cli("insights", "update", small, *asked, "--json")
    done = value(ran.out)
    assert (ran.code, done["contrasts"], done["added"], done["rules"]) == (0, 1, 1, 1)
    (row,) = lines(cli("insights", "list", small, "--kind", "rule", "--json").out)
    assert (row["text"], row["votes"], row["version"]) == ("Look before you buy.", 2, 1)
    found = value(cli("insights", "search", small, "buy", "--json").out)
    assert [h["text"] for h in found["hits"]] == ["Look before you buy."]
    # What was drawn from runs at the task that asks is left out.
    asking = cli("insights", "search", small, "buy", "--task", "t/a", "--json")
    assert value(asking.out)["hits"] == []


@pytest.mark.parametrize(("draw", "runs"), [("reasoning", 2), ("contrast", 1)])
def test_a_model_draws_reasoning_items(draw: str, runs: int, cli: Cli, small: Path) -> None:
    items = [{"title": "Look", "description": "When lost.", "content": "Look around."}]
    with chat_server(answering(json.dumps(items))) as server:
        asked = ("--endpoint", server.url, "--model", "m", "--draw", draw, "--json")
        done = value(cli("insights", "update", small, *asked).out)
    assert done["runs"] == runs
    assert len(lines(cli("insights", "list", small, "--kind", "reasoning", "--json").out)) == 1


def test_an_answer_that_cannot_be_used_is_told_by_the_exit_code(cli: Cli, small: Path) -> None:
    with chat_server(answering("No idea.")) as server:
        ran = cli("insights", "update", small, "--endpoint", server.url, "--model", "m")
    assert ran.code == 1
    assert "no JSON list in the answer" in ran.err


def test_every_version_of_an_insight_is_shown(cli: Cli, small: Path) -> None:
    memory = Insights(open_store(small, durable=False))
    memory.apply([Operation(name="ADD", text="look")])
    name = memory.rules()[0].insight_id
    memory.edit(name, "look first")
    assert cli("insights", "show", small, name[:6]).out.endswith("\n1. look\n2. look first\n")
    shown = value(cli("insights", "show", small, name, "--json").out)
    assert [v["text"] for v in shown["versions"]] == ["look", "look first"]


def test_insights_that_do_not_help_are_pruned(cli: Cli, small: Path) -> None:
    memory = Insights(open_store(small, durable=False))
    memory.apply([Operation(name="ADD", text="look away")])
    (rule,) = memory.rules()
    record_uses(memory.store, "a2", [rule], "insight")
    dry = cli("insights", "prune", small, "--least-uses", 1, "--dry-run", "--json")
    assert value(dry.out)["retired"] == [rule.insight_id]
    assert "retired   1" in cli("insights", "prune", small, "--least-uses", 1).out
    assert "there are no insights" in cli("insights", "list", small).err
    assert lines(cli("insights", "list", small, "--all", "--json").out)[0]["state"] == "retired"


def test_text_of_a_model_cannot_steer_the_terminal(cli: Cli, small: Path) -> None:
    memory = Insights(open_store(small, durable=False))
    memory.apply([Operation(name="ADD", text="look\x1b[2J")])
    cli("reflections", "add", small, "bad\x1b[2J", "--task", "t")
    name = memory.rules()[0].insight_id
    reflection = Reflections(open_store(small)).all()[0].reflection_id
    for arguments in (
        ("insights", "list", small),
        ("insights", "show", small, name),
        ("reflections", "list", small),
        ("reflections", "show", small, reflection),
    ):
        assert "\x1b" not in cli(*arguments).out
