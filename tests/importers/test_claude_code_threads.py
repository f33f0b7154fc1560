from __future__ import annotations

import json
from typing import Any

import pytest

from trajstore.importers.claude_code_threads import Thread
from trajstore.schema import Step


def user(content: Any, **fields: Any) -> dict[str, Any]:
    return {
        "type": "user",
        "sessionId": "s",
        "message": {"role": "user", "content": content},
    } | fields


def agent(*blocks: Any, **fields: Any) -> dict[str, Any]:
    message = {"role": "assistant", "model": "m", "content": list(blocks)}
    for name in ("id", "usage", "stop_reason", "model"):
        if name in fields:
            message[name] = fields.pop(name)
    return {"type": "assistant", "sessionId": "s", "message": message} | fields


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def call(call_id: str, name: str = "Bash", **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def result(call_id: str | None, content: Any, **fields: Any) -> dict[str, Any]:
    block = {"type": "tool_result", "content": content} | fields
    return block if call_id is None else block | {"tool_use_id": call_id}


def steps(*records: dict[str, Any]) -> list[Step]:
    thread = Thread("s")
    for record in records:
        thread.add(record)
    for draft in thread.builder.drafts:
        draft.values["metadata"] = json.dumps(draft.values.get("metadata"))
    return list(thread.builder.steps())


def usage(output: int, *, fresh: int = 1, read: int = 0, written: int = 0) -> dict[str, int]:
    return {
        "input_tokens": fresh,
        "output_tokens": output,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": written,
    }


def test_lines_of_one_message_are_one_step_with_all_blocks_and_the_last_usage() -> None:
    """Growing counts 1, 5, 40: the call wrote 40 tokens, not 46 and not 1."""
    (step,) = steps(
        agent({"type": "thinking", "thinking": "hm", "signature": "x"}, id="m1", usage=usage(1)),
        agent(text("I look."), id="m1", usage=usage(5)),
        agent(call("c1", cmd="ls"), id="m1", usage=usage(40, read=7, written=2)),
    )
    assert (step.reasoning, step.text) == ("hm", "I look.")
    assert [c.name for c in step.tool_calls] == ["Bash"]
    assert (step.prompt_tokens, step.cached_tokens, step.completion_tokens) == (10, 7, 40)


def test_a_last_line_without_usage_keeps_the_usage_before_it() -> None:
    (step,) = steps(agent(text("a"), id="m1", usage=usage(3)), agent(text("b"), id="m1"))
    assert step.completion_tokens == 3


def test_results_may_come_between_the_lines_of_one_message() -> None:
    (step,) = steps(
        agent(call("c1"), id="m1"),
        user([result("c1", "one")]),
        agent(call("c2"), id="m1"),
        user([result("c2", "two")]),
    )
    assert [o.text for o in step.observations] == ["one", "two"]


def test_one_message_id_under_two_requests_is_two_calls() -> None:
    """Some gateways number their messages anew for each request."""
    found = steps(
        agent(text("a"), id="m1", requestId="r1"), agent(text("b"), id="m1", requestId="r2")
    )
    assert [s.text for s in found] == ["a", "b"]


def test_a_missing_request_id_falls_back_to_the_message_id() -> None:
    found = steps(agent(text("a"), id="m1"), agent(text("b"), id="m1"))
    assert [s.text for s in found] == ["a\nb"]


def test_messages_without_an_id_are_joined_by_request_while_nothing_comes_between() -> None:
    found = steps(
        agent(text("a"), requestId="r1"),
        agent(text("b"), requestId="r1"),
        user("and?"),
        agent(text("c"), requestId="r1"),
        agent(text("d")),
    )
    assert [s.text for s in found] == ["a\nb", "and?", "c", "d"]


def test_a_record_written_twice_counts_once() -> None:
    record = user("hello", uuid="u1")
    assert len(steps(record, record)) == 1


def test_another_record_under_the_same_id_is_kept() -> None:
    assert len(steps(user("hello", uuid="u1"), user("world", uuid="u1"))) == 2


def test_a_replayed_message_adds_no_blocks_and_a_replayed_result_no_observation() -> None:
    """After compaction old calls and results come again under new record ids."""
    (step, *rest) = steps(
        agent(text("t"), call("c1"), id="m1", uuid="u1"),
        user([result("c1", "out")], uuid="u2"),
        agent(text("t"), call("c1"), id="m1", uuid="u3"),
        user([result("c1", "out")], uuid="u4"),
    )
    assert (step.text, len(step.tool_calls), len(step.observations)) == ("t", 1, 1)
    assert rest == []


def test_an_orphan_result_is_kept() -> None:
    (step,) = steps(user([result("nowhere", "lost")]))
    assert (step.actor, step.observations[0].text) == ("environment", "lost")


def test_a_repeated_call_id_is_answered_in_order() -> None:
    first, second = steps(
        agent(call("c", n=1), id="m1"), agent(call("c", n=2), id="m2"), user([result("c", "1")])
    )
    assert (len(first.observations), len(second.observations)) == (1, 0)


def test_a_result_without_an_id_goes_to_the_latest_open_call() -> None:
    (step,) = steps(
        agent({"type": "tool_use", "name": "x", "input": {}}), user([result(None, "o")])
    )
    assert step.observations[0].text == "o"


@pytest.mark.parametrize("flag", [True, False, None])
def test_an_error_flag_is_what_the_block_says(*, flag: bool | None) -> None:
    block = result("c1", "out") if flag is None else result("c1", "out", is_error=flag)
    (step,) = steps(agent(call("c1"), id="m1"), user([block]))
    assert step.observations[0].is_error is flag


def test_images_in_a_result_stay_as_parts() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}}
    (step,) = steps(agent(call("c1"), id="m1"), user([result("c1", [text("see"), image])]))
    assert step.observations[0].text == "see"
    assert json.loads(step.observations[0].content or "")[1] == image


def test_what_the_structured_result_repeats_is_left_out_and_its_flags_are_kept() -> None:
    (step,) = steps(
        agent(call("c1"), id="m1"),
        user(
            [result("c1", "x" * 500)],
            toolUseResult={"stdout": "x" * 500, "interrupted": False, "durationMs": 12},
            toolDenialKind="user-rejected",
        ),
    )
    assert json.loads(step.metadata or "")["tool_results"]["c1"] == {
        "interrupted": False,
        "durationMs": 12,
        "toolDenialKind": "user-rejected",
    }


def test_text_beside_a_result_is_a_step_of_its_own() -> None:
    found = steps(
        agent(call("c1"), id="m1"),
        user([result("c1", "no"), text("[Request interrupted by user for tool use]")]),
    )
    assert [s.actor for s in found] == ["agent", "environment"]
    assert found[0].observations[0].text == "no"


@pytest.mark.parametrize(
    ("words", "fields", "actor"),
    [
        ("Fix it", {}, "user"),
        ("<command-name>/exit</command-name>", {}, "user"),
        ("<local-command-stdout>Bye</local-command-stdout>", {}, "environment"),
        ("Base directory for this skill: /x", {"isMeta": True}, "environment"),
        ("Summary of it all", {"isCompactSummary": True}, "environment"),
        ("Done over here", {"origin": {"kind": "x", "senderTaskId": "t"}}, "environment"),
    ],
)
def test_the_user_role_is_not_always_the_user(
    words: str, fields: dict[str, Any], actor: str
) -> None:
    (step,) = steps(user(words, **fields))
    assert (step.actor, step.text) == (actor, words)


def test_null_and_empty_text_stay_apart() -> None:
    image = {"type": "image", "source": {}}
    assert [s.text for s in steps(user(""), user([image]))] == ["", None]


def test_hidden_thinking_is_no_empty_thought() -> None:
    (step,) = steps(
        agent({"type": "thinking", "thinking": "", "signature": "sig"}, text("a"), id="m1"),
    )
    assert step.reasoning is None
    assert json.loads(step.metadata or "")["signatures"] == ["sig"]


def test_redacted_thinking_is_kept_and_never_read_as_text() -> None:
    (step,) = steps(agent({"type": "redacted_thinking", "data": "zzz"}, text("a"), id="m1"))
    assert (step.text, step.reasoning) == ("a", None)
    assert json.loads(step.metadata or "")["blocks"][0]["data"] == "zzz"


def test_a_server_tool_and_its_result_are_a_call_and_an_observation() -> None:
    (step,) = steps(
        agent(
            {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "q"}},
            {"type": "web_search_tool_result", "tool_use_id": "s1", "content": "found"},
            id="m1",
        )
    )
    assert (step.tool_calls[0].name, step.observations[0].text) == ("web_search", "found")


def test_an_api_error_is_an_event() -> None:
    (step,) = steps(agent(text("API Error: 500"), id="m1", isApiErrorMessage=True))
    assert (step.actor, step.text) == ("environment", "API Error: 500")


def test_system_records_with_words_are_events_and_the_others_bookkeeping() -> None:
    thread = Thread("s")
    thread.add({"type": "system", "subtype": "api_error", "error": {"message": "overloaded"}})
    thread.add({"type": "system", "subtype": "turn_duration", "durationMs": 5})
    assert [d.text for d in thread.builder.drafts] == ["overloaded"]
    assert thread.records == [{"type": "system", "subtype": "turn_duration", "durationMs": 5}]


def test_a_prompt_queued_while_the_agent_worked_is_the_users() -> None:
    queued = {"type": "queued_command", "prompt": "also this", "commandMode": "prompt"}
    memory = {"type": "nested_memory", "path": "/x", "content": {"content": "Be kind"}}
    found = steps(
        {"type": "attachment", "attachment": queued}, {"type": "attachment", "attachment": memory}
    )
    assert [(s.actor, s.text) for s in found] == [
        ("user", "also this"),
        ("environment", "Be kind"),
    ]


def test_unknown_record_types_are_kept_raw() -> None:
    thread = Thread("s")
    thread.add({"type": "brand-new", "sessionId": "s", "x": 1})
    assert thread.records == [{"type": "brand-new", "sessionId": "s", "x": 1}]


@pytest.mark.parametrize(
    "record",
    [
        {},
        {"type": "user"},
        {"type": "user", "message": "error"},
        {"type": "assistant", "message": {"content": None}},
    ],
)
def test_a_record_without_what_it_needs_is_refused(record: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError)):
        Thread("s").add(record)
