"""Rules about answers that were found instead of worked out."""

from __future__ import annotations

import pytest

from tests.filters.frames import asked, bash, call, run, said
from trajstore import Step
from trajstore.filters import integrity_findings
from trajstore.filters.findings import Rule


def found(rule: Rule, *steps: Step) -> list[int]:
    return [f.step_index for f in integrity_findings(run("a", *steps), [rule])]


@pytest.mark.parametrize(
    "step",
    [
        bash("cat /app/solution.sh", "#!/bin/sh"),
        bash("ls / && head -3 /oracle/answer.txt", "42"),
        bash("python -c \"print(open('data/ground_truth.json').read())\"", "{}"),
        bash("cp gold_patch.diff /tmp/x", ""),
        call("Read", {"file_path": "/w/hidden_tests/test_a.py"}, "assert"),
        call("str_replace_editor", {"command": "view", "path": "/w/answer_key.md"}, "b"),
    ],
)
def test_reading_a_file_that_holds_the_answer_is_found(step: Step) -> None:
    assert found("answer-read", said("hm"), step) == [1]


@pytest.mark.parametrize(
    "steps",
    [
        (bash("cat solution.py", "cat: solution.py: No such file or directory"),),
        (bash("cat > solution.py <<E\nx\nE"), bash("cat solution.py", "x")),
        (
            call("Write", {"file_path": "/w/answer.txt", "content": "4"}),
            bash("cat answer.txt", "4"),
        ),
        (asked("Finish the function in solution.py"), bash("cat /w/solution.py", "def f(): ...")),
        (bash("ls solutions"), bash("grep -rn answer src/", "src/a.py: answer = 3")),
        (bash("cat tests/golden/out.txt", "x"),),
    ],
)
def test_one_s_own_file_the_task_and_look_alikes_are_no_answer(steps: tuple[Step, ...]) -> None:
    assert found("answer-read", *steps) == []


GOLD = 'The correct answer is "Arthur\'s Magazine 1844".'


def test_an_answer_copied_from_a_result_that_quotes_the_gold_is_found() -> None:
    """The issue's rule: the answer copied from an observation that quotes the gold."""
    steps = (
        call("search", {"q": "magazine"}, 'answer key -- gold answer: "Arthurs Magazine 1844"'),
        call("finish", {"answer": "Arthurs Magazine, 1844"}),
    )
    assert found("gold-copied", *steps) == [1]


@pytest.mark.parametrize(
    ("quoted", "answer"),
    [
        ("Ground truth: Yes", "yes"),
        ('{"gold_answer": "Delhi"}', "Delhi"),
        ("Correct answer = 42", "42"),
        ("The reference solution is `return sorted(xs)`", "I hand in: return sorted(xs)"),
    ],
)
def test_quotes_of_the_gold_come_in_many_forms(quoted: str, answer: str) -> None:
    steps = (call("read", {"page": 1}, f"bla\n{quoted}\nbla"), call("submit", {"text": answer}))
    assert found("gold-copied", *steps) == [1]


def test_an_answer_said_at_last_counts_as_handed_in() -> None:
    steps = (call("read", {}, "Expected answer: forty two apples"), said("It is forty two apples."))
    assert found("gold-copied", *steps) == [1]


def test_what_the_agent_had_said_before_is_its_own() -> None:
    steps = (
        said("I think it is forty two apples."),
        call("check", {"guess": "forty two apples"}, "Correct answer: forty two apples"),
        call("finish", {"answer": "forty two apples"}),
    )
    assert found("gold-copied", *steps) == []


@pytest.mark.parametrize(
    ("quoted", "answer"),
    [
        ("Correct answer: Paris", "London"),
        ("Correct answer: 4", "There are 14 of them, and 4 more"),
        ("The answer may be Paris", "Paris"),
        ("expected output: 12", "12"),
        ("Observation: that is the correct answer!", "Paris"),
    ],
)
def test_another_answer_or_no_gold_is_no_copy(quoted: str, answer: str) -> None:
    steps = (call("read", {}, quoted), call("finish", {"answer": answer}))
    assert found("gold-copied", *steps) == []


def test_a_verdict_after_the_answer_is_no_source_of_it() -> None:
    steps = (call("finish", {"answer": "Paris"}, "Correct answer: Paris"),)
    assert found("gold-copied", *steps) == []


@pytest.mark.parametrize(
    "line",
    [
        "git log --oneline --all | head",
        "git log -p origin/main -- src/x.py",
        "cd /testbed && git fetch origin && git show FETCH_HEAD",
        "git --no-pager diff HEAD..upstream/main",
        "git reflog",
        "git -C /testbed log --remotes",
        "git log --all -S parse_date -- src/",
        "git fsck --lost-found",
        "git cat-file --batch-all-objects --batch-check",
    ],
)
def test_history_beyond_the_present_branch_is_found(line: str) -> None:
    assert set(found("history-read", bash(line))) == {0}


@pytest.mark.parametrize(
    "line",
    [
        "git log --oneline -5",
        "git diff HEAD~1",
        "git status && git show HEAD:src/x.py",
        "git add --all",
        "echo 'git log --all'",
        "git commit -m 'see origin/main'",
    ],
)
def test_the_present_branch_is_open_to_look_at(line: str) -> None:
    assert found("history-read", bash(line)) == []


@pytest.mark.parametrize(
    "step",
    [
        bash("curl -sL https://github.com/django/django/pull/11099.diff", "diff --git"),
        bash("wget https://raw.githubusercontent.com/a/b/main/x.py", "saved"),
        bash("git clone https://github.com/a/b.git /tmp/b", "done"),
        call("WebFetch", {"url": "https://github.com/a/b/commit/abc"}, "page"),
    ],
)
def test_downloaded_source_code_is_found(step: Step) -> None:
    assert found("answer-fetched", step) == [0]


@pytest.mark.parametrize(
    "step",
    [
        bash("curl https://docs.python.org/3/", "page"),
        bash("curl https://github.com/a/b/pull/1.diff", "", is_error=True),
        bash("echo see https://github.com/a/b/pull/1", ""),
        call("WebFetch", {"url": "https://github.com/a/b/issues/3"}, "page"),
        call("Write", {"file_path": "x.md", "content": "https://github.com/a/b/pull/1"}),
    ],
)
def test_other_pages_and_mere_links_are_not(step: Step) -> None:
    assert found("answer-fetched", step) == []
