"""Where a record of a chat data set holds its conversations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trajstore.importers.chat_record import (
    ChatRecord,
    WholeList,
    chat_record,
    is_conversation,
    is_turn,
)
from trajstore.importers.items import Problem
from trajstore.importers.source import Record, Source

ASK = {"role": "user", "content": "2+2?"}
GOOD = {"role": "assistant", "content": "4"}
BAD = {"role": "assistant", "content": "5"}


def found(row: dict[str, Any]) -> ChatRecord:
    record = chat_record(row)
    assert record is not None
    return record


@pytest.mark.parametrize("name", ["messages", "conversations", "conversation"])
def test_a_list_of_messages_is_one_conversation(name: str) -> None:
    record = found({name: [ASK, GOOD], "other": 1})
    assert record.conversations == ([ASK, GOOD],)
    assert (record.sides, record.used) == ((), frozenset({name}))


def test_prompt_and_completion_make_one_conversation() -> None:
    assert found({"prompt": [ASK], "completion": [GOOD]}).conversations == ([ASK, GOOD],)
    assert found({"prompt": "2+2?", "completion": "4"}).conversations == ([ASK, GOOD],)


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": [ASK], "chosen": [GOOD], "rejected": [BAD]},
        {"prompt": "2+2?", "chosen": "4", "rejected": "5"},
        {"messages": [ASK], "chosen": GOOD, "rejected": BAD},
        {"chosen": [ASK, GOOD], "rejected": [ASK, BAD]},
        {"chosen_messages": [ASK, GOOD], "rejected_messages": [ASK, BAD]},
        {"prompt": "2+2?", "chosen": [ASK, GOOD], "rejected": [ASK, BAD]},
        {"prompt": [ASK], "chosen": [ASK, GOOD], "rejected": [ASK, BAD]},
        {"messages": [ASK, GOOD], "chosen": [ASK, GOOD], "rejected": [ASK, BAD]},
        {
            "input": {"messages": [ASK]},
            "preferred_output": [GOOD],
            "non_preferred_output": [BAD],
        },
    ],
)
def test_every_form_of_a_pair_gives_the_same_two_conversations(row: dict[str, Any]) -> None:
    record = found(row)
    assert record.conversations == ([ASK, GOOD], [ASK, BAD])
    assert (record.sides, record.prompt_turns) == (("chosen", "rejected"), 1)
    assert record.used == set(row)


def test_tools_inside_the_input_of_a_pair_are_found() -> None:
    row = {
        "input": {"messages": [ASK], "tools": [{"type": "function"}]},
        "preferred_output": [GOOD],
        "non_preferred_output": [BAD],
    }
    assert found(row).tools == [{"type": "function"}]


def test_equal_sides_share_all_but_their_last_turn() -> None:
    assert found({"chosen": [ASK, GOOD], "rejected": [ASK, GOOD]}).prompt_turns == 1


def test_sides_that_differ_only_in_their_calls_part_there() -> None:
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}
    other = {"role": "assistant", "content": None, "tool_calls": [{"id": "2"}]}
    done = {"role": "assistant", "content": "done"}
    row = {"chosen": [ASK, call, done], "rejected": [ASK, other, done]}
    assert found(row).prompt_turns == 1


def test_a_prompt_that_says_more_than_the_sides_is_left_over() -> None:
    row = {"prompt": "another text", "chosen": [ASK, GOOD], "rejected": [ASK, BAD]}
    assert "prompt" not in found(row).used


def test_system_beside_is_put_in_front() -> None:
    record = found({"system": "Be brief.", "messages": [ASK, GOOD]})
    assert record.conversations[0][0] == {"role": "system", "content": "Be brief."}
    assert record.used == {"system", "messages"}


def test_system_beside_counts_as_part_of_a_pairs_prompt() -> None:
    row = {"system": "Be brief.", "prompt": [ASK], "chosen": [GOOD], "rejected": [BAD]}
    assert found(row).prompt_turns == 2


def test_system_beside_does_not_replace_one_inside() -> None:
    own = {"role": "system", "content": "own"}
    record = found({"system": "beside", "messages": [own, ASK, GOOD]})
    assert record.conversations == ([own, ASK, GOOD],)
    assert "system" not in record.used


@pytest.mark.parametrize(
    "row",
    [
        {},
        {"messages": []},
        {"messages": "hello"},
        {"messages": [1, 2]},
        {"messages": [{"content": "no role"}]},
        {"prompt": "no answer"},
        {"chosen": "a"},
        {"chosen": 1.0, "rejected": 2.0},
        {"input": "x", "preferred_output": [], "non_preferred_output": []},
    ],
)
def test_a_record_without_conversation_gives_none(row: dict[str, Any]) -> None:
    assert chat_record(row) is None


def test_turns_are_seen_in_both_dialects() -> None:
    assert is_turn({"from": "human", "value": "x"})
    assert is_turn({"role": "assistant", "tool_calls": []})
    assert not is_turn({"role": "user"})
    assert not is_turn({"from": {"a": 1}, "value": "x"})


def test_one_message_without_content_does_not_hide_a_conversation() -> None:
    assert is_conversation([{"role": "system", "note": 1}, ASK])


def test_whole_list_gives_all_messages_as_one_record(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"role": "user", "content": "a"}\nbroken\n{"role": "user", "content": "b"}\n')
    records = list(WholeList(Source(path)).records())
    assert [r.line for r in records if isinstance(r, Problem)] == [2]
    (whole,) = [r for r in records if isinstance(r, Record)]
    assert [m["content"] for m in whole.value] == ["a", "b"]
