from __future__ import annotations

from typing import Any

import pytest

from trajstore.importers.gemini_cli_replay import Replay, is_header, is_message


def said(key: str, text: str = "", kind: str = "user") -> dict[str, Any]:
    return {"id": key, "type": kind, "content": text or key}


def held(*records: Any) -> list[str]:
    replay = Replay()
    for record in records:
        replay.add(record)
    return [m["content"] for m in replay.messages]


SUMMARY = "<state_snapshot>so far</state_snapshot>"


def test_a_message_written_again_keeps_its_place_and_takes_its_last_content() -> None:
    assert held(said("a"), said("b", "draft"), said("c"), said("b", "final")) == ["a", "final", "c"]


def test_a_rewind_drops_its_message_and_what_follows() -> None:
    assert held(said("a"), said("b"), said("c"), {"$rewindTo": "b"}, said("d")) == ["a", "d"]


def test_a_rewind_to_nowhere_drops_nothing_and_is_a_problem() -> None:
    replay = Replay()
    replay.add(said("a"))
    with pytest.raises(ValueError, match="'zzz', which is not there"):
        replay.add({"$rewindTo": "zzz"})
    assert len(replay.messages) == 1


def test_a_set_of_messages_replaces_all() -> None:
    assert held(said("a"), said("b"), {"$set": {"messages": [said("x"), said("y")]}}) == ["x", "y"]
    assert held(said("a"), {"$set": {"messages": []}}) == []


def test_a_set_of_other_fields_patches_the_header() -> None:
    replay = Replay()
    replay.add({"sessionId": "s", "startTime": "t", "summary": "old"})
    replay.add({"$set": {"summary": "new"}})
    assert replay.header == {"sessionId": "s", "startTime": "t", "summary": "new"}


def test_a_whole_session_is_its_header_and_its_messages() -> None:
    replay = Replay()
    replay.add({"sessionId": "s", "messages": [said("a")]})
    assert replay.header == {"sessionId": "s"}
    assert [m["id"] for m in replay.messages] == ["a"]


def test_a_compression_forgets_nothing_that_was_said() -> None:
    """The CLI replaces all messages by a summary and copies under new ids."""
    copies = [said("x1", SUMMARY), said("x2", "Got it.", "gemini"), said("x3", "b")]
    found = held(said("a"), said("b"), {"$set": {"messages": copies}}, said("x3", "b"), said("c"))
    assert found == ["a", "b", SUMMARY, "c"]


def test_a_rewind_to_a_copy_drops_what_came_after_the_compression() -> None:
    copies = [said("x1", SUMMARY), said("x2")]
    found = held(said("a"), {"$set": {"messages": copies}}, said("b"), {"$rewindTo": "x2"})
    assert found == ["a", SUMMARY]


def test_an_edit_that_keeps_a_message_is_no_compression() -> None:
    edited = [said("a", SUMMARY)]
    assert held(said("a"), said("b"), {"$set": {"messages": edited}}) == [SUMMARY]


def test_messages_of_an_unknown_type_are_said_and_the_others_kept() -> None:
    replay = Replay()
    with pytest.raises(ValueError, match="1 of 2 messages"):
        replay.add({"sessionId": "s", "messages": [said("a"), {"type": "mystery"}]})
    assert [m["id"] for m in replay.messages] == ["a"]


@pytest.mark.parametrize("record", [{}, {"x": 1}, {"type": "user"}, {"$set": 3}])
def test_what_is_no_record_is_refused(record: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="neither a session header"):
        Replay().add(record)


def test_a_record_must_be_an_object() -> None:
    with pytest.raises(TypeError, match="not list"):
        Replay().add([])


def test_what_is_a_header_and_what_a_message() -> None:
    assert is_header({"sessionId": "s", "startTime": "t"})
    assert not is_header({"sessionId": "s"})
    assert not is_header({"sessionId": 3, "startTime": "t"})
    assert is_message({"type": "gemini", "tokens": {}})
    assert not is_message({"type": "user", "tokens": {}})
