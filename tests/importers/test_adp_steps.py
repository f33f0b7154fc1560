from __future__ import annotations

import json
from typing import Any

import pytest

from trajstore.importers.adp_steps import (
    chat_steps,
    executed,
    fenced,
    function_xml,
    split_ending,
    standard_steps,
    text_steps,
)


def seen(content: Any, source: str = "environment", **fields: Any) -> dict[str, Any]:
    return {"class_": "text_observation", "content": content, "source": source, **fields}


def api(function: str, description: str | None = None, **fields: Any) -> dict[str, Any]:
    call = {"class_": "api_action", "function": function, "kwargs": {"q": 1}}
    return {**call, "description": description, **fields}


def code(language: str, content: str, **fields: Any) -> dict[str, Any]:
    return {"class_": "code_action", "language": language, "content": content, **fields}


def said(content: str, description: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"class_": "message_action", "content": content, "description": description, **fields}


def test_an_action_and_what_followed_are_one_step() -> None:
    user, agent = standard_steps([seen("Go.", "user"), api("search", "I look."), seen("found")])
    assert (user.actor, user.text) == ("user", "Go.")
    assert (agent.text, agent.tool_calls[0].name) == ("I look.", "search")
    assert agent.tool_calls[0].arguments == '{"q":1}'
    assert [o.text for o in agent.observations] == ["found"]


def test_what_answers_an_action_is_its_result_even_from_the_user() -> None:
    (agent,) = standard_steps([api("search"), seen("found", "user")])
    assert [o.text for o in agent.observations] == ["found"]


def test_what_answers_a_message_is_a_turn_of_its_own() -> None:
    steps = standard_steps([said("Done?"), seen("No.", "user"), seen("Tick.")])
    assert [(s.actor, s.text) for s in steps] == [
        ("agent", "Done?"),
        ("user", "No."),
        ("environment", "Tick."),
    ]


def test_linked_results_find_their_call_in_any_order() -> None:
    content = [
        api("a", tool_call_id="1"),
        api("b", tool_call_id="2"),
        seen("of b", tool_call_id="2"),
        seen("of a", tool_call_id="1"),
    ]
    (agent,) = standard_steps(content)
    assert [c.name for c in agent.tool_calls] == ["a", "b"]
    assert [(o.call_id, o.text) for o in agent.observations] == [("2", "of b"), ("1", "of a")]


def test_the_system_speaks_under_its_name() -> None:
    (step,) = standard_steps([seen("Rules.", name="system")])
    assert step.actor == "system"


def test_the_agents_own_words_may_stand_in_an_observation() -> None:
    (agent,) = standard_steps([seen("I say.", "agent"), api("search")])
    assert (agent.actor, agent.text, len(agent.tool_calls)) == ("agent", "I say.", 1)


@pytest.mark.parametrize(
    ("language", "name", "arguments"),
    [
        ("bash", "bash", {"command": "x"}),
        ("sh", "bash", {"command": "x"}),
        ("python", "python", {"code": "x"}),
        ("python3", "python", {"code": "x"}),
        ("sql", "sql", {"code": "x"}),
    ],
)
def test_code_is_a_call_of_its_executor(
    language: str, name: str, arguments: dict[str, str]
) -> None:
    (step,) = standard_steps([code(language, "x")])
    call = step.tool_calls[0]
    assert (call.name, json.loads(call.arguments or "")) == (name, arguments)


def test_a_message_stands_behind_its_thought_and_without_its_tag() -> None:
    (step,) = standard_steps([said("<finish> 15/2 </finish>", "The answer is")])
    assert step.text == "The answer is\n15/2"


def test_null_and_empty_thoughts_differ() -> None:
    null, empty = standard_steps([api("a", None), seen("x"), api("b", ""), seen("y")])
    assert (null.text, empty.text) == (None, "")


def test_an_empty_message_is_an_empty_text() -> None:
    assert [s.text for s in standard_steps([said("")])] == [""]


def test_a_thought_repeated_in_one_call_is_said_once() -> None:
    (step,) = standard_steps([api("a", "Both."), api("b", "Both.")])
    assert step.text == "Both."


def test_reasoning_and_rewards_are_kept() -> None:
    content = [api("a", reasoning_content="Hm.", reward=0.5), seen("x", reward=-1)]
    (step,) = standard_steps(content)
    assert (step.reasoning, step.reward) == ("Hm.", -0.5)


def test_fields_of_later_versions_are_kept() -> None:
    (step,) = standard_steps([api("a", confidence=0.9)])
    assert json.loads(step.metadata or "") == {"confidence": 0.9}


def test_an_image_is_a_part_by_reference() -> None:
    picture = {"class_": "image_observation", "content": "a.png", "source": "environment"}
    (step,) = standard_steps([api("look"), picture])
    observation = step.observations[0]
    assert observation.text is None
    assert json.loads(observation.content or "") == [{"type": "image", "path": "a.png"}]


def test_annotations_of_an_image_are_kept() -> None:
    notes = [{"text": "button", "bounding_box": None}]
    picture = {"class_": "image_observation", "content": "a.png", "annotations": notes}
    (step,) = standard_steps([api("look"), picture])
    assert json.loads(step.observations[0].content or "")[0]["annotations"] == notes


def test_a_page_is_its_accessibility_tree_with_the_rest_beside() -> None:
    page = {
        "class_": "web_observation",
        "axtree": "[1] button",
        "html": "<p>",
        "url": "https://x",
        "viewport_size": [1280, 720],
        "image_observation": None,
    }
    (step,) = standard_steps([api("goto"), page])
    observation = step.observations[0]
    assert observation.text == "[1] button"
    kept = {"type": "web", "url": "https://x", "html": "<p>", "viewport_size": [1280, 720]}
    assert json.loads(observation.content or "") == [kept]


def test_a_page_without_tree_is_its_html() -> None:
    page = {"class_": "web_observation", "html": "<p>", "url": "https://x"}
    (step,) = standard_steps([api("goto"), page])
    assert step.observations[0].text == "<p>"
    assert json.loads(step.observations[0].content or "") == [{"type": "web", "url": "https://x"}]


def test_a_json_observation_is_its_text() -> None:
    found = {"class_": "json_observation", "content": {"b": 1, "a": 2}, "source": "environment"}
    (step,) = standard_steps([api("get"), found])
    assert step.observations[0].text == '{"b":1,"a":2}'


@pytest.mark.parametrize("item", [{"class_": "dream"}, "x", {"class_": None}])
def test_an_item_of_no_class_is_refused(item: Any) -> None:
    with pytest.raises(ValueError, match="neither action nor observation"):
        standard_steps([item])


PRAISE = seen("Your solution has been verified as correct. ", "user")
FAREWELL = said("<finish> I did it! The task is now complete. </finish>", "")


def test_the_ending_that_adp_adds_is_parted_off() -> None:
    content = [api("submit"), PRAISE, FAREWELL]
    assert split_ending(content) == ([content[0]], [PRAISE, FAREWELL])


@pytest.mark.parametrize(
    "content",
    [
        [],
        [FAREWELL],
        [api("submit"), seen("Tests pass.", "user"), FAREWELL],
        [api("submit"), PRAISE, said("<finish> The answer is 3. </finish>", "")],
        [api("submit"), FAREWELL, PRAISE],
    ],
)
def test_an_ending_of_the_run_itself_stays(content: list[dict[str, Any]]) -> None:
    assert split_ending(content) == (content, ())


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("Go.\n```\nls -F\n```", ["ls -F"]),
        ("Like\n```python\nx\n```\nso\n```bash\nopen a.py\n```\n", ["open a.py"]),
        ("No block.", []),
    ],
)
def test_the_last_fenced_block_is_the_command(text: str, commands: list[str]) -> None:
    found = [json.loads(c.arguments or "")["command"] for c in fenced(text)]
    assert found == commands


def test_execute_tags_hold_python() -> None:
    (call,) = executed("So.\n<execute>\nprint(1)\n</execute>")
    assert (call.name, json.loads(call.arguments or "")) == ("python", {"code": "print(1)"})
    assert executed("The answer is <solution> 3 </solution>.") == []


def test_function_xml_and_fenced_blocks_are_both_read() -> None:
    (call,) = function_xml("<function=bash>\n<parameter=command>ls</parameter>\n</function>")
    assert (call.name, call.arguments) == ("bash", '{"command":"ls"}')
    (call,) = function_xml("```\nsubmit\n```")
    assert call.name == "submit"


def test_the_user_answers_what_was_acted_in_text() -> None:
    messages = [
        {"role": "system", "system_prompt": "S", "text": None},
        {"role": "user", "text": "Fix."},
        {"role": "ai", "text": "```\nls\n```", "mask": True},
        {"role": "user", "text": "files"},
        {"role": "ai", "text": "Hm."},
        {"role": "user", "text": "Your output was not formatted correctly."},
    ]
    steps = text_steps(messages, fenced, must_act=True)
    assert [(s.actor, s.text) for s in steps] == [
        ("system", "S"),
        ("user", "Fix."),
        ("agent", "```\nls\n```"),
        ("agent", "Hm."),
        ("user", "Your output was not formatted correctly."),
    ]
    assert [o.text for o in steps[2].observations] == ["files"]
    assert [s.format_error for s in steps] == [False, False, False, True, False]


def test_where_talking_is_allowed_no_call_is_no_error() -> None:
    steps = text_steps([{"role": "assistant", "content": "Hm."}], executed, must_act=False)
    assert [s.format_error for s in steps] == [False]


def test_native_calls_go_before_what_the_text_says() -> None:
    call = {"id": "c", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
    messages = [
        {"role": "assistant", "content": "```\nrm x\n```", "tool_calls": [call]},
        {"role": "tool", "content": [{"type": "text", "text": "ok"}], "tool_call_ids": ["c"]},
    ]
    (step,) = text_steps(messages, function_xml, must_act=True)
    assert [c.arguments for c in step.tool_calls] == ['{"command":"ls"}']
    assert [(o.call_id, o.text) for o in step.observations] == [("c", "ok")]


def test_answers_with_nothing_between_are_one_model_call() -> None:
    messages = [
        {"role": "user", "content": "Go."},
        {"role": "assistant", "content": "I look."},
        {"role": "assistant", "content": "", "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "assistant", "content": "", "function_call": {"name": "g", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "1"},
        {"role": "function", "name": "g", "content": "2"},
        {"role": "assistant", "content": "Done."},
    ]
    user, call, end = chat_steps(messages)
    assert (user.actor, call.text, end.text) == ("user", "I look.", "Done.")
    assert [c.name for c in call.tool_calls] == ["f", "g"]
    assert [o.text for o in call.observations] == ["1", "2"]
