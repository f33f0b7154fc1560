from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajstore.exports import EVENT_MARK, ORPHAN_MARK, RULES, ChatRules, chat_messages, render_chat
from trajstore.schema import Observation, Step, ToolCall, Trajectory
from trajstore.testing import sample_trajectory

Run = Callable[..., Trajectory]


def _asking(*ids: str | None, results: Iterable[Observation] = (), **values: Any) -> Step:
    calls = tuple(ToolCall.of("f", f'{{"n":{i}}}', call_id) for i, call_id in enumerate(ids))
    return Step(actor="agent", tool_calls=calls, observations=tuple(results), **values)


def _roles(run: Trajectory) -> list[str]:
    return [m["role"] for m in chat_messages(run)]


def test_a_run_becomes_the_chat_that_openai_and_trl_document(sum_run: Trajectory) -> None:
    call = {"name": "add", "arguments": '{"a": 2, "b": 3, "note": null}'}
    assert chat_messages(sum_run) == [
        {"role": "system", "content": "Use the tool."},
        {"role": "user", "content": "2 + 3?"},
        {
            "role": "assistant",
            "content": "",
            "reasoning_content": "I should add.",
            "tool_calls": [{"id": "c1", "type": "function", "function": call}],
        },
        {"role": "tool", "name": "add", "tool_call_id": "c1", "content": "5"},
        {"role": "assistant", "content": "5"},
    ]


def test_only_agent_turns_are_trained_on(sum_run: Trajectory) -> None:
    assert render_chat(sum_run).trainable == [False, False, True, False, True]


def test_no_key_is_ever_null() -> None:
    for message in chat_messages(sample_trajectory()):
        assert None not in message.values()
        assert isinstance(message["content"], str)


def test_copied_context_is_shown_and_not_trained_on(run: Run) -> None:
    copied = Step(actor="agent", text="before", is_copied=True)
    chat = render_chat(run(Step(actor="user", text="q"), copied, Step(actor="agent", text="now")))
    assert [m["content"] for m in chat.messages] == ["q", "before", "now"]
    assert chat.trainable == [False, False, True]


@pytest.mark.parametrize("train", [True, False])
def test_a_format_error_is_trained_on_only_when_asked(run: Run, *, train: bool) -> None:
    bad = Step(actor="agent", text="<tool_call>{", format_error=True)
    chat = render_chat(run(bad), ChatRules(train_format_errors=train))
    assert chat.trainable == [train]
    assert chat.applied.get("masked-turn", 0) == (not train)


def test_a_copied_format_error_is_never_trained_on(run: Run) -> None:
    bad = Step(actor="agent", text="x", format_error=True, is_copied=True)
    assert render_chat(run(bad), ChatRules(train_format_errors=True)).trainable == [False]


def test_reasoning_can_be_left_out(sum_run: Trajectory) -> None:
    chat = render_chat(sum_run, ChatRules(include_reasoning=False))
    assert not any("reasoning_content" in m for m in chat.messages)
    assert chat.applied["reasoning-left-out"] == 1


def test_a_turn_of_reasoning_alone_stays(run: Run) -> None:
    chat = render_chat(run(Step(actor="agent", reasoning="hm")))
    assert chat.messages == [{"role": "assistant", "content": "", "reasoning_content": "hm"}]


@pytest.mark.parametrize("actor", ["system", "user", "agent", "environment"])
@pytest.mark.parametrize("text", [None, ""])
def test_a_turn_with_nothing_in_it_is_left_out(run: Run, actor: Any, text: str | None) -> None:
    chat = render_chat(run(Step(actor=actor, text=text)))
    assert chat.messages == []
    assert chat.applied == {"empty-turn": 1}


def test_results_follow_their_calls_by_id_in_the_order_in_which_they_came(run: Run) -> None:
    late = [Observation(call_id="b", text="B"), Observation(call_id="a", text="A")]
    tools = chat_messages(run(_asking("a", "b", results=late)))[1:]
    assert [(m["tool_call_id"], m["content"]) for m in tools] == [("b", "B"), ("a", "A")]


def test_results_without_ids_go_to_the_calls_that_still_wait(run: Run) -> None:
    results = [Observation(text="?"), Observation(call_id="a", text="A")]
    tools = chat_messages(run(_asking("a", "b", results=results)))[1:]
    assert [(m["tool_call_id"], m["content"]) for m in tools] == [("b", "?"), ("a", "A")]


def test_a_result_whose_id_no_call_has_goes_to_a_call_without_an_id(run: Run) -> None:
    step = _asking("a", None, results=[Observation(call_id="x", text="X")])
    assert chat_messages(run(step))[1]["tool_call_id"] == "call_2"


def test_ids_that_repeat_are_told_apart_and_results_follow(run: Run) -> None:
    results = [Observation(call_id="c", text="1"), Observation(call_id="c", text="2")]
    chat = render_chat(
        run(
            _asking("c", results=[Observation(call_id="c", text="0")]),
            _asking("c", "c", results=results),
        )
    )
    ids = [c["id"] for m in chat.messages for c in m.get("tool_calls", ())]
    answers = {m["tool_call_id"]: m["content"] for m in chat.messages if m["role"] == "tool"}
    assert ids == ["c", "c_2", "c_3"]
    assert answers == {"c": "0", "c_2": "1", "c_3": "2"}
    assert chat.applied["id-renamed"] == 2


def test_a_new_id_never_meets_one_of_the_run(run: Run) -> None:
    chat = chat_messages(run(_asking("c", "c", "c_2", None, "call_4")))
    assert [c["id"] for c in chat[0]["tool_calls"]] == ["c", "c_3", "c_2", "call_5", "call_4"]


def test_a_missing_or_empty_id_is_made_from_the_place_in_the_run(run: Run) -> None:
    chat = render_chat(run(_asking("a", None), _asking("")))
    ids = [c["id"] for m in chat.messages for c in m["tool_calls"]]
    assert ids == ["a", "call_2", "call_3"]
    assert chat.applied["id-made"] == 2


def test_several_results_of_one_call_are_one_tool_message(run: Run) -> None:
    twice = [Observation(call_id="a", text="1"), Observation(call_id="a", text="2")]
    chat = render_chat(run(_asking("a", results=twice)))
    assert [m["content"] for m in chat.messages[1:]] == ["1\n2"]
    assert chat.applied["results-joined"] == 1


def test_a_result_that_no_call_asked_for_comes_last_and_is_marked(run: Run) -> None:
    results = [Observation(call_id="x", text="X"), Observation(call_id="a", text="A")]
    chat = render_chat(run(_asking("a", results=results)))
    assert chat.messages[1]["role"] == "tool"
    assert chat.messages[2] == {"role": "user", "content": f"{ORPHAN_MARK}\nX"}
    assert chat.applied["orphan-as-user"] == 1


def test_a_result_of_a_turn_without_calls_is_what_the_user_says_next(run: Run) -> None:
    step = Step(actor="agent", text="ls", observations=(Observation(text="a.py"),))
    chat = render_chat(run(step))
    assert chat.messages[1] == {"role": "user", "content": "a.py"}
    assert chat.applied == {"result-as-user": 1}


def test_results_of_an_empty_turn_are_kept(run: Run) -> None:
    chat = render_chat(run(Step(actor="agent", observations=(Observation(text="r"),))))
    assert chat.messages == [{"role": "user", "content": "r"}]


def test_a_result_on_a_step_of_nobody_is_marked(run: Run) -> None:
    step = Step(actor="environment", observations=(Observation(call_id="z", text="late"),))
    assert chat_messages(run(step)) == [{"role": "user", "content": f"{ORPHAN_MARK}\nlate"}]


def test_a_call_without_a_result_stays(run: Run) -> None:
    chat = render_chat(run(_asking("a", "b", results=[Observation(call_id="b", text="B")])))
    assert [m["role"] for m in chat.messages] == ["assistant", "tool"]
    assert chat.applied == {"call-unanswered": 1}


def test_calls_by_the_user_are_not_shown_to_the_agent(run: Run) -> None:
    toggles = Step(
        actor="user",
        text="done",
        tool_calls=(ToolCall.of("toggle", {}, "u1"),),
        observations=(Observation(call_id="u1", text="airplane mode off"),),
    )
    chat = render_chat(run(toggles))
    assert chat.messages == [{"role": "user", "content": "done"}]
    assert chat.applied == {"foreign-call": 1}


def test_an_event_is_said_by_the_user_and_marked(run: Run) -> None:
    chat = render_chat(run(Step(actor="environment", text="Context condensed.")))
    assert chat.messages == [{"role": "user", "content": f"{EVENT_MARK}\nContext condensed."}]


def test_events_can_be_dropped(run: Run) -> None:
    event = Step(actor="environment", text="e", observations=(Observation(text="r"),))
    chat = render_chat(run(event), ChatRules(environment="drop"))
    assert chat.messages == []
    assert chat.applied == {"event-dropped": 1}


def test_the_goal_speaks_where_no_user_does(run: Run) -> None:
    steps = (Step(actor="system", text="s"), Step(actor="agent", text="a"))
    chat = render_chat(run(*steps, goal="Do it."))
    assert [m["content"] for m in chat.messages] == ["s", "Do it.", "a"]
    assert chat.applied == {"goal-as-user": 1}


@pytest.mark.parametrize(
    "first", [Step(actor="user", text="q"), Step(actor="system", text="Your task: Do it.")]
)
def test_the_goal_is_not_said_twice(run: Run, first: Step) -> None:
    assert len(chat_messages(run(first, Step(actor="agent", text="a"), goal="Do it."))) == 2


def test_a_goal_that_only_the_user_knows_is_not_told(run: Run) -> None:
    greeting = Step(actor="agent", text="How can I help?")
    messages = chat_messages(run(greeting, Step(actor="user", text="Hi"), goal="Be rude."))
    assert [m["content"] for m in messages] == ["How can I help?", "Hi"]


def test_turns_in_a_row_stay_apart_unless_merging_is_asked_for(run: Run) -> None:
    steps = [Step(actor="user", text=t) for t in "ab"] + [Step(actor="agent", text=t) for t in "cd"]
    merged = render_chat(run(*steps), ChatRules(consecutive="merge"))
    assert _roles(run(*steps)) == ["user", "user", "assistant", "assistant"]
    assert [m["content"] for m in merged.messages] == ["a\n\nb", "c", "d"]
    assert merged.trainable == [False, True, True]


def test_parts_that_are_no_text_are_marked_in_their_place(run: Run) -> None:
    parts = [
        "a",
        {"type": "input_image", "image_url": "b:1"},
        {"type": "text", "text": "b"},
        {"type": "image_url"},
        {"type": "input_audio"},
        {"type": "document"},
        {},
        3,
        {"type": "refusal", "refusal": "no"},
    ]
    chat = render_chat(run(Step(actor="user", text="a\nb", content=json.dumps(parts))))
    lines = chat.messages[0]["content"].split("\n")
    assert lines == [
        "a",
        "[image]",
        "b",
        "[image]",
        "[audio]",
        "[document]",
        "[part]",
        "[part]",
        "no",
    ]
    assert chat.applied == {"media-marked": 6}


def test_text_that_is_not_among_the_parts_is_kept(run: Run) -> None:
    step = Step(actor="user", text="look", content='[{"type":"image"}]')
    assert chat_messages(run(step))[0]["content"] == "look\n[image]"


@pytest.mark.parametrize("content", ["no json", "[]"])
def test_content_without_parts_leaves_the_text(run: Run, content: str) -> None:
    assert chat_messages(run(Step(actor="user", text="t", content=content)))[0]["content"] == "t"


def test_a_picture_in_a_result_is_marked(run: Run) -> None:
    seen = Observation(call_id="a", text=None, content='[{"type":"image","source":"b:1"}]')
    assert chat_messages(run(_asking("a", results=[seen])))[1]["content"] == "[image]"


def test_arguments_that_are_no_json_survive(run: Run) -> None:
    step = Step(actor="agent", tool_calls=(ToolCall.of("bash", 'ls -la {"', "a"),))
    assert chat_messages(run(step))[0]["tool_calls"][0]["function"]["arguments"] == 'ls -la {"'


def test_arguments_that_are_unknown_are_an_empty_object(run: Run) -> None:
    chat = render_chat(run(Step(actor="agent", tool_calls=(ToolCall(name="f", call_id="a"),))))
    assert chat.messages[0]["tool_calls"][0]["function"]["arguments"] == "{}"
    assert chat.applied["no-arguments"] == 1


def test_canonical_arguments_stand_in_for_a_raw_text_that_is_not_kept(run: Run) -> None:
    call = ToolCall(name="f", arguments='{"a":1}', call_id="a")
    message = chat_messages(run(Step(actor="agent", tool_calls=(call,))))[0]
    assert message["tool_calls"][0]["function"]["arguments"] == '{"a":1}'


def test_every_rule_that_applies_has_a_meaning() -> None:
    assert set(render_chat(sample_trajectory()).applied) <= set(RULES)


def test_a_run_without_steps_has_no_messages(run: Run) -> None:
    assert chat_messages(run()) == []


_text = st.text(max_size=12)
_id = st.sampled_from([None, "", "c", "c_2", "call_1", "d"])
_call = st.builds(ToolCall.of, _text, _text | st.none(), _id)
_result = st.builds(Observation, text=_text | st.none(), call_id=_id)
_step = st.builds(
    Step,
    actor=st.sampled_from(["system", "user", "agent", "agent", "environment"]),
    text=_text | st.none(),
    reasoning=_text | st.none(),
    tool_calls=st.lists(_call, max_size=3).map(tuple),
    observations=st.lists(_result, max_size=4).map(tuple),
    is_copied=st.booleans(),
    format_error=st.booleans(),
)
_runs = st.lists(_step, max_size=6).map(
    lambda steps: Trajectory(trajectory_id="t", task_id="t", source="s", steps=tuple(steps))
)


@given(_runs)
def test_the_arguments_of_every_call_survive_byte_for_byte(run: Trajectory) -> None:
    written = [c["function"] for m in chat_messages(run) for c in m.get("tool_calls", ())]
    calls = [c for s in run.steps if s.actor == "agent" for c in s.tool_calls]
    assert [f["name"] for f in written] == [c.name for c in calls]
    raw = [c.arguments_raw if c.arguments_raw is not None else "{}" for c in calls]
    assert [f["arguments"] for f in written] == raw


@given(_runs)
def test_ids_are_unique_and_every_tool_message_answers_a_call_just_made_once(
    run: Trajectory,
) -> None:
    open_ids: set[str] = set()
    seen: list[str] = []
    for message in chat_messages(run):
        if message["role"] == "tool":
            assert message["tool_call_id"] in open_ids
            open_ids.remove(message["tool_call_id"])
        else:
            open_ids = {c["id"] for c in message.get("tool_calls", ())}
            seen += [c["id"] for c in message.get("tool_calls", ())]
    assert len(seen) == len(set(seen))


@given(_runs)
def test_no_result_text_of_the_agent_is_lost(run: Trajectory) -> None:
    everything = "\n".join(m["content"] for m in chat_messages(run))
    for step in run.steps:
        if step.actor == "agent":
            assert all((o.text or "") in everything for o in step.observations)


@given(_runs)
def test_trained_messages_are_the_own_well_formed_agent_turns(run: Trajectory) -> None:
    chat = render_chat(run)
    own = [
        s
        for s in run.steps
        if s.actor == "agent"
        and not s.is_copied
        and not s.format_error
        and (s.text or s.reasoning or s.tool_calls)
    ]
    trained = [m for m, t in zip(chat.messages, chat.trainable, strict=True) if t]
    assert [m["content"] for m in trained] == [s.text or "" for s in own]
    assert {m["role"] for m in trained} <= {"assistant"}


def test_half_a_surrogate_pair_is_escaped_everywhere(run: Run) -> None:
    half = "\ud83d"
    step = Step(
        actor="agent",
        text=half,
        reasoning=half,
        tool_calls=(ToolCall.of(half, half, half),),
        observations=(Observation(call_id=half, text=half),),
    )
    text = json.dumps(chat_messages(run(step)), ensure_ascii=False)
    assert text.encode().count(rb"\\ud83d") == 8
