"""``trajstore shell``: scripts, and a person at a terminal."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trajstore_cli._shell import split_statements

from tests.cli.conftest import Cli, Terminal, Terminals

PROMPT = "trajstore> "


@pytest.mark.parametrize(
    ("text", "statements", "rest"),
    [
        ("select 1;", ["select 1"], ""),
        ("select 1; select 2;\n", ["select 1", "select 2"], ""),
        ("select 1", [], "select 1"),
        ("select ';'; x", ["select ';'"], " x"),
        ("select 'it''s;' as \"a;\"\"b\";", ["select 'it''s;' as \"a;\"\"b\""], ""),
        ("select 1 -- one; two\n+ 1;", ["select 1 -- one; two\n+ 1"], ""),
        ("select /* ; */ 1;", ["select /* ; */ 1"], ""),
        ("select 'a;", [], "select 'a;"),
        ("select 1 /* a;", [], "select 1 /* a;"),
        ("/* a;", [], "/* a;"),
        ("; ;; -- nothing\n", [], ""),
        ("select 4 / 2 - 1;", ["select 4 / 2 - 1"], ""),
    ],
)
def test_statements_end_at_a_semicolon_outside_of_quotes_and_comments(
    text: str, statements: list[str], rest: str
) -> None:
    assert split_statements(text) == (statements, rest)


@given(st.text(st.sampled_from("a;'\"-/* \n")))
def test_splitting_loses_nothing_but_semicolons_and_blanks(text: str) -> None:
    statements, rest = split_statements(text)
    position = 0
    for piece in [*statements, rest.strip()]:
        position = text.index(piece, position) + len(piece)


def test_a_script_runs_statement_by_statement(cli: Cli, small_pool: Path) -> None:
    script = "select 1 a; select 2 b;\n\nselect\n  3 c\n"
    ran = cli("shell", small_pool, stdin=script)
    assert ran.code == 0
    assert ran.out.split() == ["a", "─", "1", "b", "─", "2", "c", "─", "3"]
    assert ran.err == "1 row\n" * 3


def test_a_script_has_no_prompt_and_no_greeting(cli: Cli, small_pool: Path) -> None:
    ran = cli("shell", small_pool, stdin="-- nothing\n")
    assert (ran.code, ran.out, ran.err) == (0, "", "")


@pytest.mark.parametrize("wrong", ["select foo;", ".frob", "select 'open"])
def test_a_script_stops_at_its_first_error(wrong: str, cli: Cli, small_pool: Path) -> None:
    ran = cli("shell", small_pool, stdin=f"select 1 a;\n{wrong}\nselect 2 b;")
    assert ran.code == 1
    assert "b" not in ran.out.split()
    assert "error: " in ran.err


def test_a_script_may_quit(cli: Cli, small_pool: Path) -> None:
    ran = cli("shell", small_pool, stdin="select 1 a;\n.quit\nselect 2 b;\n")
    assert ran.code == 0
    assert ran.out.split() == ["a", "─", "1"]


def test_tables_lists_the_views(cli: Cli, small_pool: Path) -> None:
    out = cli("shell", small_pool, stdin=".tables\n").out
    names = [line.split()[0] for line in out.splitlines()]
    assert names[:3] == ["trajectories", "steps", "tool_calls"]
    assert len(names) == 11


def test_help_lists_the_commands(cli: Cli, small_pool: Path) -> None:
    out = cli("shell", small_pool, stdin=".help\n").out
    assert all(word in out for word in (".tables", ".quit", "Ctrl-D", "describe"))


def test_the_columns_of_a_view(cli: Cli, small_pool: Path) -> None:
    out = cli("shell", small_pool, stdin="describe labels;").out
    assert "evaluator_version  VARCHAR" in out


def test_an_older_snapshot(cli: Cli, small_pool: Path) -> None:
    script = "select count(*) n from trajectories;"
    assert cli("shell", small_pool, "--at", "0", stdin=script).out.split()[-1] == "0"
    assert cli("shell", small_pool, stdin=script).out.split()[-1] == "3"


def test_stored_text_cannot_steer_the_terminal(cli: Cli, hostile: Path) -> None:
    out = cli("shell", hostile, stdin="select text, reasoning from steps;").out
    assert "please␛[2J␛]0;owned␇\\x9b31m\\u202etxt␍" in out
    assert "\x1b" not in out


@pytest.fixture
def screen(terminal: Terminals, small_pool: Path) -> Terminal:
    """A shell that shows its first prompt."""
    started = terminal("shell", small_pool)
    assert "at snapshot 1" in started.wait_for(PROMPT)
    return started


def test_a_query_may_go_over_several_lines(screen: Terminal) -> None:
    screen.type("select 40\n")
    screen.wait_for("...> ")
    screen.type("+ 2 as answer;\n")
    assert "42" in screen.wait_for("1 row").split()
    screen.wait_for(PROMPT)


def test_an_error_does_not_end_the_session(screen: Terminal) -> None:
    screen.type("select foo;\n")
    assert 'column "foo"' in screen.wait_for(PROMPT)
    screen.type("select 'still ' || 'here' as x;\n")
    assert "still here" in screen.wait_for(PROMPT)


def test_ctrl_c_cancels_the_line(screen: Terminal) -> None:
    screen.type("select nonsense\n")
    screen.wait_for("...> ")
    screen.interrupt()
    screen.wait_for(f"(cancelled)\r\n{PROMPT}")
    screen.type("select 'fr' || 'esh' as x;\n")
    assert "fresh" in screen.wait_for("1 row")


def test_ctrl_c_stops_a_query_and_not_the_shell(screen: Terminal) -> None:
    screen.type("select count(*) from range(100000000) a, range(100000000) b ")
    screen.type("where hash(a.range + b.range) = 1;\n")
    screen.wait_until_busy()
    screen.interrupt()
    screen.wait_for(PROMPT)
    screen.type("select 'al' || 'ive' as x;\n")
    assert "alive" in screen.wait_for("1 row")


@pytest.mark.parametrize("goodbye", ["\x04", ".quit\n", "exit\n"])
def test_ctrl_d_and_quit_end_it(goodbye: str, screen: Terminal) -> None:
    screen.type(goodbye)
    assert screen.ended() == 0


def test_the_history_is_kept_for_the_next_session(
    screen: Terminal, terminal: Terminals, small_pool: Path, tmp_path: Path
) -> None:
    screen.type("select 'remembered' as x;\n")
    screen.wait_for("1 row")
    screen.type(".quit\n")
    assert screen.ended() == 0
    history = tmp_path / "trajstore" / "history"
    assert history.read_text() == "select 'remembered' as x;\n.quit\n"
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    again = terminal("shell", small_pool)
    again.wait_for(PROMPT)
    again.type("\x1b[A\x1b[A\n")
    assert "remembered" in again.wait_for("1 row")


def test_a_home_that_cannot_be_written_only_costs_the_history(
    terminal: Terminals, small_pool: Path
) -> None:
    screen = terminal("shell", small_pool, XDG_STATE_HOME="/dev/null")
    assert "no history is kept" in screen.wait_for(PROMPT)
    screen.type("select 41 + 1 as x;\n")
    assert "42" in screen.wait_for("1 row")


def test_the_newest_rows_are_seen(terminal: Terminals, cli: Cli, small: Path) -> None:
    screen = terminal("shell", small)
    screen.wait_for(PROMPT)
    screen.type("select 'n=' || count(*) as n from labels;\n")
    assert "n=0" in screen.wait_for("1 row")
    cli("label", small, "-", "--evaluator", "late", stdin="trajectory_id,success\na1,false\n")
    screen.type("select 'n=' || count(*) as n from labels;\n")
    assert "n=1" in screen.wait_for("1 row")
