"""``trajstore judge``, against a real HTTP server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Cli, Ran, Terminals
from tests.pipeline.chat_server import (
    ChatServer,
    Reply,
    Request,
    chat_server,
    in_turn,
    says,
    scores,
)
from trajstore import open as open_store


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with chat_server(in_turn(says(scores(7.0)))) as running:
        yield running


def asked(cli: Cli, store: Path, url: str, *more: object) -> Ran:
    return cli(
        "judge", store, "--rubric", "research", "--endpoint", url, "--model", "judge-1", *more
    )


def labels(store: Path, columns: str = "DISTINCT evaluator") -> list[tuple[object, ...]]:
    return open_store(store).sql(f"SELECT {columns} FROM labels ORDER BY ALL").fetchall()


def test_scores_become_labels_with_evaluator_and_version(
    cli: Cli, small: Path, server: ChatServer
) -> None:
    ran = asked(cli, small, server.url)
    assert ran.code == 0
    assert "judged             3\n" in ran.out
    (told,) = labels(small, "DISTINCT evaluator, evaluator_version")
    assert told[0] == "llm-judge/research/judge-1"
    assert str(told[1]).startswith("research@1+")
    assert len(labels(small, "*")) == 15


def test_judged_runs_are_not_judged_again_and_counted(
    cli: Cli, small: Path, server: ChatServer
) -> None:
    asked(cli, small, server.url, "--limit", 1)
    report = json.loads(asked(cli, small, server.url, "--json").out)
    assert (report["wanted"], report["already"], report["judged"]) == (3, 1, 2)
    assert len(server.requests) == 3


def test_another_name_judges_the_same_runs_again(cli: Cli, small: Path, server: ChatServer) -> None:
    asked(cli, small, server.url)
    asked(cli, small, server.url, "--evaluator", "second-look")
    assert labels(small) == [("llm-judge/research/judge-1",), ("second-look",)]


def test_a_condition_says_which_runs(cli: Cli, small: Path, server: ChatServer) -> None:
    asked(cli, small, server.url, "--where", "success = false")
    assert labels(small, "DISTINCT trajectory_id") == [("a2",)]


def test_a_selection_says_which_runs(
    cli: Cli, small: Path, server: ChatServer, tmp_path: Path
) -> None:
    chosen = tmp_path / "best.parquet"
    cli("select", small, "--stage", "success", "-o", chosen)
    asked(cli, small, server.url, "--selection", chosen)
    assert labels(small, "DISTINCT trajectory_id") == [("a1",)]


def test_a_selection_of_another_store_is_refused(
    cli: Cli, small: Path, airline: Path, server: ChatServer, tmp_path: Path
) -> None:
    chosen = tmp_path / "best.parquet"
    cli("select", airline, "--stage", "success", "-o", chosen)
    ran = asked(cli, small, server.url, "--selection", chosen)
    assert ran.code == 1
    assert "84 of the selected runs are not in the store" in ran.err
    assert server.requests == []


def test_the_key_comes_from_the_variable_that_is_named(
    cli: Cli, small: Path, server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUDGE_KEY", "sk-secret")
    ran = asked(cli, small, server.url, "--api-key-env", "JUDGE_KEY", "--json")
    assert {r.headers["Authorization"] for r in server.requests} == {"Bearer sk-secret"}
    assert "sk-secret" not in ran.out + ran.err


def test_a_variable_that_is_not_there_is_wrong_usage(
    cli: Cli, small: Path, server: ChatServer
) -> None:
    ran = asked(cli, small, server.url, "--api-key-env", "NO_SUCH_KEY")
    assert ran.code == 2
    assert "NO_SUCH_KEY" in ran.err
    assert server.requests == []


def test_a_dry_run_counts_shows_the_prompt_and_asks_nobody(
    cli: Cli, small: Path, server: ChatServer
) -> None:
    ran = asked(cli, small, server.url, "--dry-run", "--limit", 2)
    assert ran.code == 0
    assert "to_judge           2\n" in ran.out
    assert "- accuracy: " in ran.err
    assert '"text":"find x"' in ran.err
    assert (server.requests, labels(small)) == ([], [])


def test_a_run_that_cannot_be_judged_is_named_and_exits_with_1(cli: Cli, small: Path) -> None:
    with chat_server(in_turn(says(scores()), says(scores()), says("I like it."))) as server:
        ran = asked(cli, small, server.url, "--concurrency", 1)
    assert ran.code == 1
    assert "judged             2\n" in ran.out
    assert "not judged: b1: The judge's answer cannot be read" in ran.err


def test_a_refused_key_is_an_error_of_one_line(cli: Cli, small: Path) -> None:
    with chat_server(in_turn(Reply(status=401, body=b"no such key"))) as server:
        ran = asked(cli, small, server.url)
    assert ran.code == 1
    assert "HTTP 401" in ran.err
    assert ran.err.count("\n") == 1


def test_an_unknown_rubric_is_answered_with_the_real_ones(
    cli: Cli, small: Path, server: ChatServer
) -> None:
    ran = cli("judge", small, "--rubric", "nice", "--endpoint", server.url, "--model", "m")
    assert ran.code == 1
    assert "research@1" in ran.err


def test_a_rubric_file_is_read(cli: Cli, small: Path, server: ChatServer, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        'name = "mine"\nversion = "1"\npass_at = 5\n[[criteria]]\nname = "accuracy"\n'
        'weight = 1\nmeaning = "true"\n'
    )
    endpoint = ("--endpoint", server.url, "--model", "m")
    ran = cli("judge", small, "--rubric", path, *endpoint, "--as-outcome")
    assert ran.code == 0
    found = open_store(small).sql("SELECT bool_and(success) FROM trajectories").fetchall()
    assert found == [(True,)]


def test_a_terminal_sees_how_many_are_done(terminal: Terminals, small: Path) -> None:
    seen = threading.Event()

    def answer(request: Request) -> Reply:
        if request.number:
            seen.wait(60)
        return says(scores())

    with chat_server(answer) as server:
        arguments = ("--rubric", "research", "--endpoint", server.url, "--model", "m")
        shown = terminal("judge", small, *arguments, "--concurrency", 1)
        shown.wait_for("1/3")
        seen.set()
        assert shown.ended() == 0
