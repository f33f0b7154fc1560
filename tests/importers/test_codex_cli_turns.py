from __future__ import annotations

import json

from trajstore.importers.codex_cli_turns import Turns, note
from trajstore.schema import Observation, ToolCall


def call(call_id: str) -> ToolCall:
    return ToolCall.of("shell", {}, call_id)


def result(call_id: str, text: str = "out", *, failed: bool | None = None) -> Observation:
    return Observation(call_id=call_id, text=text, is_error=failed)


def test_items_of_one_model_call_gather_in_one_step() -> None:
    turns = Turns()
    turns.agent(model="m").add_reasoning("hm")
    turns.agent(model="ignored").add_text("said")
    turns.call(call("a"))
    (step,) = turns.steps()
    assert (step.model, step.reasoning, step.text, len(step.tool_calls)) == ("m", "hm", "said", 1)


def test_words_after_a_result_are_the_next_call() -> None:
    turns = Turns()
    turns.call(call("a"))
    turns.result(result("a"))
    turns.agent().add_text("next")
    assert [s.text for s in turns.steps()] == [None, "next"]


def test_words_while_a_call_still_runs_are_the_same_call() -> None:
    turns = Turns()
    turns.call(call("a"))
    turns.running = 1
    turns.result(result("x"))
    turns.agent().add_text("meanwhile")
    assert len(turns.steps()) == 1


def test_somebody_elses_words_end_a_call() -> None:
    turns = Turns()
    turns.agent().add_text("one")
    turns.step("user", "hm?")
    turns.agent().add_text("two")
    assert [(s.actor, s.text) for s in turns.steps()] == [
        ("agent", "one"),
        ("user", "hm?"),
        ("agent", "two"),
    ]


def test_a_repeated_call_id_is_answered_in_order() -> None:
    turns = Turns()
    for text in ("1", "2"):
        turns.call(call("same"))
        turns.close()
        del text
    turns.result(result("same", "first"))
    turns.result(result("same", "second"))
    assert [s.observations[0].text for s in turns.steps()] == ["first", "second"]


def test_an_event_only_fills_what_the_result_leaves_open() -> None:
    turns = Turns()
    turns.call(call("a"))
    turns.call(call("b"))
    turns.call(call("c"))
    turns.result(result("a", "seen"))
    turns.result(result("b", "seen", failed=False))
    for call_id in ("a", "b", "c"):
        turns.settle(result(call_id, "event", failed=True), {"exit_code": 1})
    (step,) = turns.steps()
    assert [(o.text, o.is_error) for o in step.observations] == [
        ("seen", True),
        ("seen", False),
        ("event", True),
    ]
    assert json.loads(step.metadata or "")["tool_results"]["c"] == {"exit_code": 1}


def test_known_calls_are_known_by_id() -> None:
    turns = Turns()
    turns.call(call("a"))
    turns.call(ToolCall.of("shell", {}))
    assert turns.knows("a")
    assert not turns.knows("b")
    assert not turns.knows(None)


def test_notes_become_metadata_and_empty_ones_are_left_out() -> None:
    turns = Turns()
    note(turns.step("user", "x"), kept=0, none=None, empty=[], nothing={})
    turns.step("user", "y")
    assert [s.metadata for s in turns.steps()] == ['{"kept":0}', None]
