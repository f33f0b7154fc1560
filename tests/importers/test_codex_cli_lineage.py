from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from trajstore.importers.codex_cli_lineage import Clock, Usage, is_fork, lineage
from trajstore.schema import trajectory_id


def tokens(fresh: int, output: int) -> dict[str, int]:
    return {"input_tokens": fresh, "output_tokens": output}


def info(total: tuple[int, int], last: tuple[int, int]) -> dict[str, Any]:
    return {"total_token_usage": tokens(*total), "last_token_usage": tokens(*last)}


def columns(prompt: int, completion: int) -> dict[str, int]:
    return {"prompt_tokens": prompt, "completion_tokens": completion}


def test_only_a_count_that_moved_stands_for_a_call() -> None:
    usage = Usage()
    assert usage.count(None) is None
    assert usage.count(info((5, 1), (5, 1))) == columns(5, 1)
    assert usage.count(info((5, 1), (5, 1))) is None
    assert usage.count(info((9, 3), (4, 2))) == columns(4, 2)
    assert usage.own() == columns(9, 3)


def test_the_highest_total_holds() -> None:
    usage = Usage()
    usage.count(info((9, 3), (9, 3)))
    usage.count(info((0, 0), (0, 0)))
    assert usage.own() == columns(9, 3)


def test_an_ancestors_tokens_are_taken_off() -> None:
    usage = Usage()
    usage.count(info((100, 10), (100, 10)))
    usage.mark_copied()
    assert usage.own() == columns(0, 0)
    usage.count(info((130, 14), (30, 4)))
    assert usage.own() == columns(30, 4)


def test_nothing_counted_is_nothing_known() -> None:
    assert Usage().own() == {}


def test_the_first_pause_ends_the_burst() -> None:
    start = datetime(2026, 8, 1, tzinfo=UTC)
    clock = Clock()
    pauses = [0.0, 0.2, 0.9, 2.5, 2.6, 9.0]
    ends = [clock.tick(start + timedelta(seconds=s)) for s in pauses]
    assert ends == [False, False, False, True, False, False]
    assert not clock.burst
    assert (clock.first, clock.last) == (start, start + timedelta(seconds=9))


def test_lines_without_a_time_do_not_move_the_clock() -> None:
    clock = Clock()
    assert not clock.tick(None)
    assert (clock.first, clock.last, clock.burst) == (None, None, True)


SPAWNED = {"source": {"subagent": {"thread_spawn": {"parent_thread_id": "p"}}}}


@pytest.mark.parametrize(
    ("meta", "ancestors", "parent", "relation"),
    [
        ({"id": "s"}, [], None, None),
        ({"id": "s", "source": "cli"}, [], None, None),
        ({"id": "s", "forked_from_id": "f"}, [{"id": "f"}], "f", "branch"),
        ({"id": "s"}, [{"id": "a"}, {"id": "b"}], "a", "branch"),
        ({"id": "s"} | SPAWNED, [{"id": "a"}], "p", "sub-agent"),
        (
            {"id": "s", "source": {"subagent": "review"}, "parent_thread_id": "q"},
            [],
            "q",
            "sub-agent",
        ),
    ],
)
def test_where_a_session_comes_from(
    meta: dict[str, Any], ancestors: list[Any], parent: str | None, relation: str | None
) -> None:
    found = lineage(meta, ancestors)
    expected = trajectory_id("codex-cli", parent) if parent else None
    assert (found.get("parent_id"), found.get("relation")) == (expected, relation)
    assert is_fork(meta, ancestors) is (parent is not None)
