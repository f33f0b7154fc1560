from __future__ import annotations

from typing import Any

import pytest

from trajstore.importers import claude_code_records as records


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"type": "user", "sessionId": "s", "message": {"content": "x"}}, True),
        ({"type": "assistant", "session_id": "s", "message": {"content": []}}, True),
        ({"type": "user", "parentUuid": None, "message": {"content": "x"}}, True),
        ({"type": "system", "subtype": "init", "session_id": "s"}, True),
        ({"type": "result", "subtype": "success", "num_turns": 1, "session_id": "s"}, True),
        ({"type": "file-history-snapshot", "snapshot": {}}, True),
        ({"type": "summary", "summary": "x", "leafUuid": "u"}, True),
        ({"type": "attachment", "isSidechain": False, "sessionId": "s"}, True),
        ({"type": "user", "sessionId": "s", "message": {"parts": []}}, False),
        (
            {"type": "system", "subtype": "ui_telemetry", "sessionId": "s", "systemPayload": 1},
            False,
        ),
        ({"type": "user", "message": {"content": "x"}}, False),
        ({"type": "message", "role": "user", "content": "x"}, False),
        ({"role": "user", "content": "x"}, False),
        ({"type": 3}, False),
        ("user", False),
        (None, False),
    ],
)
def test_only_records_of_a_session_are_taken_for_one(value: Any, *, expected: bool) -> None:
    assert records.is_record(value) is expected


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (
            {
                "input_tokens": 4,
                "cache_creation_input_tokens": 10,
                "cache_read_input_tokens": 100,
                "output_tokens": 7,
            },
            (114, 7, 100),
        ),
        ({"input_tokens": 4, "output_tokens": 7}, (4, 7, None)),
        ({"output_tokens": 7}, (None, 7, None)),
    ],
)
def test_tokens_read_include_what_the_cache_gave_and_took(usage: Any, expected: Any) -> None:
    found = records.usage_of(usage)
    assert (
        tuple(found[k] for k in ("prompt_tokens", "completion_tokens", "cached_tokens")) == expected
    )


def test_no_usage_is_no_tokens() -> None:
    assert records.usage_of(None) == {}


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (None, None),
        ("plain", "plain"),
        ({"message": "said"}, "said"),
        ({"formatted": "529 overloaded", "status": 529}, "529 overloaded"),
        ({"status": 529}, '{"status":529}'),
    ],
)
def test_an_error_is_told_in_its_own_words(error: Any, words: str | None) -> None:
    assert records.error_text(error) == words


@pytest.mark.parametrize(
    ("attachment", "words"),
    [
        ({"type": "queued_command", "prompt": "do"}, "do"),
        ({"type": "queued_command", "prompt": [{"type": "image"}, {"text": "see"}]}, "see"),
        ({"type": "file", "content": {"type": "text", "file": {"content": "body"}}}, "body"),
        ({"type": "edited_text_file", "snippet": "3: x"}, "3: x"),
        ({"type": "hook_success", "content": "", "stdout": "{}"}, None),
        ({"type": "auto_mode"}, None),
    ],
)
def test_an_attachment_gives_the_words_it_showed(attachment: Any, words: str | None) -> None:
    assert records.attachment_text(attachment) == words


def test_small_fields_leave_long_texts_and_objects_out() -> None:
    result = {"exit": 1, "ok": False, "id": "a", "long": "x" * 201, "patch": [1], "empty": ""}
    assert records.small_fields(result) == {"exit": 1, "ok": False, "id": "a"}
    assert records.small_fields("Error: no") == {}


def test_left_over_keeps_what_no_column_holds() -> None:
    record = {"type": "user", "cwd": "/", "uuid": "u", "todos": [], "permissionMode": "plan"}
    assert records.left_over(record) == {"uuid": "u", "permissionMode": "plan"}


def test_the_web_form_unfolds_into_its_records() -> None:
    lines = [{"type": "user", "message": {"content": "x"}}]
    assert list(records.unfolded({"loglines": lines})) == lines
    assert list(records.unfolded(3)) == [3]
    assert records.is_web_form({"loglines": lines})
    assert not records.is_web_form({"loglines": [1]})
