from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajstore.filters.actions import Command, commands


def words(line: str) -> list[list[str]]:
    return [c.words for c in commands(line)]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ls -la", [["ls", "-la"]]),
        (
            "cd x && ls; pwd | wc || true & date",
            [["cd", "x"], ["ls"], ["pwd"], ["wc"], ["true"], ["date"]],
        ),
        ("echo 'a b'\"c $d\"e\\ f", [["echo", "a bc $de f"]]),
        ('echo "it\'s" \'say "x"\'', [["echo", "it's", 'say "x"']]),
        ("FOO=1 BAR=2 python x.py", [["python", "x.py"]]),
        ("sudo env A=1 rm x", [["rm", "x"]]),
        ("ls # not this; rm x\npwd", [["ls"], ["pwd"]]),
        ("echo a#b", [["echo", "a#b"]]),
        ("ls \\\n -la", [["ls", "-la"]]),
        ("(cd a; rm b)", [["cd", "a"], ["rm", "b"]]),
        ("if test -f x; then rm x; fi", [["test", "-f", "x"], ["rm", "x"], ["fi"]]),
        ("find . -exec rm {} \\;", [["find", ".", "-exec", "rm", "{}", ";"]]),
        ("echo $'a\\nb'", [["echo", "a\nb"]]),
        ("", []),
        ("   \n\n", []),
    ],
)
def test_words_are_those_that_a_shell_sees(line: str, expected: list[list[str]]) -> None:
    assert words(line) == expected


@given(st.lists(st.text("ab'\"\\ $*", min_size=1, max_size=6), min_size=1, max_size=4))
def test_quoted_words_come_back_whole(given_words: list[str]) -> None:
    """Oracle: shlex.join quotes words so that a shell gives them back."""
    line = shlex.join(["run", *given_words])
    assert words(line) == [["run", *given_words]]


@given(st.text("ab'\"\\ $()`<>|&;#\nEOF{}2", max_size=40))
def test_any_text_is_read_to_its_end(text: str) -> None:
    assert all(isinstance(c, Command) for c in commands(text))


def test_redirections_are_told_apart() -> None:
    made = commands("sort < in > out 2>> log 2>&1 &> all >| forced")[0]
    assert made.words == ["sort"]
    assert (made.reads, made.writes, made.appends) == (["in"], ["out", "all", "forced"], ["log"])


def test_a_number_in_front_of_a_redirection_is_no_word() -> None:
    assert words("python x.py 2>&1") == [["python", "x.py"]]


def test_here_documents_belong_to_their_command() -> None:
    made = commands("cat <<'EOF' > a.py\nif x:\n\ty = '$z'\nEOF\npython a.py")
    assert [c.words for c in made] == [["cat"], ["python", "a.py"]]
    assert (made[0].stdin, made[0].writes) == ("if x:\n\ty = '$z'\n", ["a.py"])


def test_two_here_documents_stand_one_behind_the_other() -> None:
    made = commands("cat <<A; cat <<-B\nfirst\nA\n\tsecond\n\tB\n")
    assert [c.stdin for c in made] == ["first\n", "second\n"]


def test_a_here_document_without_an_end_runs_to_the_end() -> None:
    assert commands("cat > x <<EOF\nabc")[0].stdin == "abc\n"


def test_a_here_string_is_input() -> None:
    assert commands("bc <<< '1+1'")[0].stdin == "1+1"


@pytest.mark.parametrize(
    "line",
    [
        "x=$(cat secret)",
        "echo `cat secret`",
        'echo "$(cat secret)"',
        "bash -lc 'cat secret'",
        "timeout 60 sh -c 'cd /; cat secret'",
        "bash <<EOF\ncat secret\nEOF",
        "echo $(echo $(cat secret))",
    ],
)
def test_commands_inside_commands_are_found(line: str) -> None:
    assert ["cat", "secret"] in words(line)


def test_text_in_quotes_is_no_command() -> None:
    assert words("git commit -m 'rm x; cat y'") == [["git", "commit", "-m", "rm x; cat y"]]


def test_nesting_without_end_stops() -> None:
    line = "x"
    for _ in range(30):
        line = f"echo $({line})"
    assert words(line)


def test_options_and_operands_are_told_apart() -> None:
    made = commands("git log -rf --all --since=1 a -- -b")[0]
    assert made.operands() == ["log", "a", "-b"]
    assert made.has_option("-f")
    assert made.has_option("--all")
    assert made.has_option("--since")
    assert not made.has_option("-b")


def test_the_program_is_named_without_its_folder() -> None:
    assert commands("/usr/bin/python3 x")[0].program == "python3"
