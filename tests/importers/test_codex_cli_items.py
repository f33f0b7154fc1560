from __future__ import annotations

from typing import Any

import pytest

from trajstore.importers import codex_cli_items as items


@pytest.mark.parametrize(
    ("item", "name", "arguments", "raw", "call_id"),
    [
        (
            {"type": "function_call", "name": "shell", "arguments": '{"a": 1}', "call_id": "c"},
            "shell",
            '{"a":1}',
            '{"a": 1}',
            "c",
        ),
        (
            {"type": "function_call", "name": "shell", "arguments": '{"a": ', "call_id": "c"},
            "shell",
            None,
            '{"a": ',
            "c",
        ),
        (
            {"type": "function_call", "name": "shell", "arguments": None, "call_id": "c"},
            "shell",
            None,
            None,
            "c",
        ),
        (
            {"type": "custom_tool_call", "name": "apply_patch", "input": "***", "call_id": "c"},
            "apply_patch",
            None,
            "***",
            "c",
        ),
        (
            {"type": "tool_call", "function": {"name": "run"}, "arguments": {"b": 2}},
            "run",
            '{"b":2}',
            '{"b":2}',
            None,
        ),
        (
            {"type": "local_shell_call", "id": "l", "action": {"command": ["ls"]}},
            "local_shell",
            '{"command":["ls"]}',
            '{"command":["ls"]}',
            "l",
        ),
        (
            {"type": "tool_search_call", "call_id": "c", "arguments": {"query": "q"}},
            "tool_search",
            '{"query":"q"}',
            '{"query":"q"}',
            "c",
        ),
    ],
)
def test_calls_of_all_shapes(
    item: dict[str, Any], name: str, arguments: str | None, raw: str | None, call_id: str | None
) -> None:
    call = items.call_of(item)
    assert call is not None
    assert (call.name, call.arguments, call.arguments_raw) == (name, arguments, raw)
    assert call.call_id == call_id


@pytest.mark.parametrize("kind", ["message", "reasoning", "function_call_output", "ghost_snapshot"])
def test_other_items_are_no_calls(kind: str) -> None:
    assert items.call_of({"type": kind, "name": "x", "arguments": "{}"}) is None


@pytest.mark.parametrize(
    ("output", "text"),
    [
        (None, None),
        ("", ""),
        ("plain", "plain"),
        ({"content": "inside", "success": True}, "inside"),
        ({"type": "input_text", "text": "part"}, "part"),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "a\nb"),
        ({"stdout": "x", "exitCode": 0}, '{"stdout":"x","exitCode":0}'),
        ([{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}], "a\nb"),
        ([{"type": "input_image", "image_url": "u"}], None),
        ([{"type": "function", "name": "f"}], None),
    ],
)
def test_outputs_of_all_shapes_give_their_text(output: Any, text: str | None) -> None:
    assert items.output_text(output) == text


def test_what_an_output_holds_beside_text_stays_as_parts() -> None:
    found = items.result_of(
        {"type": "tool_search_output", "call_id": "c", "tools": [{"name": "f"}]}
    )
    assert found is not None
    assert (found.call_id, found.text, found.content) == ("c", None, '[{"name":"f"}]')


@pytest.mark.parametrize("kind", ["message", "function_call", "reasoning"])
def test_other_items_bring_no_result(kind: str) -> None:
    assert items.result_of({"type": kind, "output": "x"}) is None


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ({"summary": [{"type": "summary_text", "text": "a"}], "content": None}, "a"),
        ({"summary": [], "content": [{"type": "reasoning_text", "text": "b"}]}, "b"),
        ({"summary": [{"text": "a"}], "content": [{"text": "b"}]}, "a\nb"),
        ({"summary": [], "encrypted_content": "gAAAA"}, None),
        ({"summary": [{"text": ""}]}, None),
    ],
)
def test_reasoning_is_what_can_be_read(item: dict[str, Any], expected: str | None) -> None:
    assert items.reasoning_of(item) == expected


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"input_tokens": 9, "cached_input_tokens": 4, "output_tokens": 2}, (9, 2, 4)),
        ({"prompt": 9, "completion": 2}, (9, 2, None)),
        ({}, (None, None, None)),
        (None, (None, None, None)),
    ],
)
def test_tokens_read_have_the_cached_ones_inside(usage: Any, expected: tuple[Any, ...]) -> None:
    found = items.tokens_of(usage)
    names = ("prompt_tokens", "completion_tokens", "cached_tokens")
    assert tuple(found.get(n) for n in names) == expected


@pytest.mark.parametrize(
    ("duration", "seconds"),
    [({"secs": 2, "nanos": 250_000_000}, 2.25), (1.5, 1.5), (None, None), ({}, 0.0)],
)
def test_durations_are_seconds(duration: Any, seconds: float | None) -> None:
    assert items.seconds_of(duration) == seconds
