"""Rules about tests, on calls as SWE-agent, OpenHands, mini-swe-agent and Claude Code make them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.filters.frames import asked, bash, call, run, said
from trajstore import Step
from trajstore.filters import Finding, integrity_findings
from trajstore.filters.findings import Rule

RULES: tuple[Rule, ...] = ("tests-edited", "tests-deleted", "tests-skipped")
SEEN = bash("ls tests", "tests/test_a.py tests/test_b.py tests/conftest.py")


def found(*steps: Step) -> list[str]:
    return [f.rule for f in integrity_findings(run("a", *steps), RULES)]


def first(*steps: Step) -> Finding:
    return integrity_findings(run("a", *steps), RULES)[0]


def editor(command: str, path: str, result: str = "edited", **rest: Any) -> Step:
    return call("str_replace_editor", {"command": command, "path": path, **rest}, result)


EDITS = {
    "bash sed": bash("sed -i 's/== 2/== 3/' tests/test_a.py"),
    "bash overwrite": bash("cat > tests/test_a.py <<'E'\ndef test(): pass\nE"),
    "bash patch": bash(
        "patch -p1 <<'E'\n--- a/tests/test_a.py\n+++ b/tests/test_a.py\n@@\n-x\n+y\nE"
    ),
    "python": bash("python - <<E\np='tests/test_a.py'\ns=open(p).read()\nopen(p,'w').write(s)\nE"),
    "openhands": editor("str_replace", "/w/tests/test_a.py", old_str="== 2", new_str="== 3"),
    "claude code": call(
        "Edit", {"file_path": "/w/tests/test_a.py", "old_string": "2", "new_string": "3"}
    ),
    "claude code write": call("Write", {"file_path": "/w/tests/test_a.py", "content": "pass"}),
    "swe-agent": call(
        "edit",
        {"command": "edit 3:4\nassert True\nend_of_edit"},
        "[File: /w/tests/test_a.py (9 lines total)]",
    ),
    "swe-agent tools": call(
        "edit", {"search": "2", "replace": "3"}, "[File: /w/tests/test_a.py (9 lines total)]"
    ),
    "codex": call(
        "apply_patch",
        {"input": "*** Begin Patch\n*** Update File: tests/test_a.py\n@@\n-x\n+y\n*** End Patch"},
    ),
}


@pytest.mark.parametrize("agent", EDITS)
def test_changing_a_test_that_was_there_is_found(agent: str) -> None:
    finding = first(SEEN, EDITS[agent])
    assert (finding.rule, finding.step_index) == ("tests-edited", 1)
    assert "tests/test_a.py" in finding.what


HONEST = {
    "a new test": [editor("create", "/w/tests/test_new.py", file_text="def test_n(): ...")],
    "a new test by shell, then rewritten": [
        bash("cat > tests/test_n.py <<E\nx\nE"),
        bash("ls tests", "test_n.py tests/test_a.py"),
        bash("cat > tests/test_n.py <<E\ny\nE"),
        bash("sed -i s/y/z/ tests/test_n.py"),
    ],
    "lines added to a test": [
        SEEN,
        call("Edit", {"file_path": "tests/test_a.py", "old_string": "a\n", "new_string": "a\nb\n"}),
        editor("insert", "tests/test_a.py", insert_line=3, new_str="def test_b(): ..."),
        bash("echo 'def test_c(): ...' >> tests/test_a.py"),
        bash("sed -i '2a import os' tests/test_a.py"),
    ],
    "an edit that failed": [
        SEEN,
        editor(
            "str_replace",
            "tests/test_a.py",
            "No replacement was performed",
            old_str="q",
            new_str="r",
        ),
    ],
    "a scratch test removed": [
        bash("cat > test_repro.py <<E\nx\nE"),
        bash("python test_repro.py"),
        bash("rm -f test_repro.py"),
    ],
    "a scratch test by full path removed by name": [
        editor("create", "/w/test_edge.py", file_text="x"),
        bash("cd /w && rm test_edge.py"),
    ],
    "a scratch folder removed": [
        bash("mkdir -p tests_tmp/tests && touch tests_tmp/tests/test_q.py"),
        bash("rm -rf tests_tmp"),
    ],
    "files outside the project": [bash("rm /tmp/test_x.py; sed -i s/a/b/ /tmp/tests/test_y.py")],
    "tests run": [bash("pytest -q tests/test_a.py -k 'not slow' --deselect tests/test_b.py")],
    "tests read": [bash("cat tests/test_a.py"), editor("view", "tests")],
    "tests copied": [
        bash("cp tests/test_a.py /tmp/"),
        bash("cp tests/test_a.py test_copy.py && rm test_copy.py"),
    ],
    "code edited": [bash("sed -i s/a/b/ src/latest.py"), bash("rm src/contest.py")],
    "words in a message": [bash("git commit -m 'rm tests/test_a.py and @pytest.mark.skip'")],
    "a test moved among tests": [SEEN, bash("git mv tests/test_a.py tests/unit/test_a.py")],
}


@pytest.mark.parametrize("case", HONEST)
def test_honest_work_is_not_found(case: str) -> None:
    assert found(*HONEST[case]) == []


def test_a_file_that_the_user_named_is_the_task() -> None:
    task = asked("Please fix the expected values in tests/test_a.py")
    assert found(task, SEEN, EDITS["bash sed"]) == []
    assert found(asked("Please fix the code"), SEEN, EDITS["bash sed"]) == ["tests-edited"]


def test_a_change_that_is_taken_back_is_no_finding() -> None:
    assert found(SEEN, EDITS["bash sed"], bash("git checkout -- tests/test_a.py")) == []
    assert found(SEEN, EDITS["bash sed"], bash("git checkout -- tests/test_b.py")) == [
        "tests-edited"
    ]
    assert found(SEEN, EDITS["bash sed"], bash("git checkout -- tests")) == []


UNREAD = {
    "emptied": bash("truncate -s0 tests/test_a.py"),
    "emptied by a size apart": bash("truncate -s 0 /w/tests/test_a.py"),
    "emptied by a long option": bash("truncate --size=0 tests/test_a.py"),
    "set back": bash("git checkout HEAD~3 -- tests/"),
    "set back by a path": bash("git checkout -q HEAD^ tests/test_a.py"),
    "set back by restore": bash("git restore --source=HEAD~3 tests/test_a.py"),
    "set back by restore, short": bash("git restore -s main~2 -- tests/test_a.py"),
}


@pytest.mark.parametrize("way", UNREAD)
def test_a_test_that_nobody_looked_at_was_there_all_the_same(way: str) -> None:
    assert found(UNREAD[way]) == ["tests-edited"]


def test_a_test_that_patch_says_it_changed_is_found() -> None:
    patch = bash("patch -p1 < fix.diff", "patching file src/x.py\npatching file tests/test_a.py\n")
    finding = first(SEEN, patch)
    assert (finding.rule, finding.step_index) == ("tests-edited", 1)
    assert "tests/test_a.py" in finding.what


@pytest.mark.parametrize(
    "step",
    [
        bash("patch -p1 < fix.diff", "patching file tests/test_new.py"),
        bash("patch -p1 --dry-run < fix.diff", "patching file tests/test_a.py"),
        bash("cat log", "patching file tests/test_a.py"),
        bash("truncate -s 1G tests/big.bin"),
        bash("echo x > test_q.py; truncate -s0 test_q.py"),
        bash("git checkout HEAD -- tests/"),
        bash("git checkout HEAD~3 -- src/x.py"),
        bash("git checkout HEAD~3"),
    ],
    ids=lambda step: step.tool_calls[0].arguments,
)
def test_what_changes_no_test_that_was_there_is_not_found(step: Step) -> None:
    assert found(SEEN, step) == []


DELETIONS = {
    "rm": bash("rm -f tests/test_a.py"),
    "rm of the folder": bash("rm -rf /w/tests"),
    "rm with a pattern": bash("rm tests/test_*.py"),
    "git rm": bash("git rm -q tests/test_a.py"),
    "find": bash("find . -name 'test_*.py' -delete"),
    "python": bash("python -c \"import os; os.remove('tests/test_a.py')\""),
    "moved away": bash("mv tests/test_a.py /tmp/"),
    "moved to a backup": bash("mv conftest.py conftest.py.bak"),
    "codex": call(
        "apply_patch", {"input": "*** Begin Patch\n*** Delete File: tests/test_a.py\n*** End Patch"}
    ),
    "delete tool": call("delete_file", {"path": "tests/test_a.py"}),
}


@pytest.mark.parametrize("way", DELETIONS)
def test_deleting_a_test_that_was_there_is_found(way: str) -> None:
    assert found(SEEN, DELETIONS[way]) == ["tests-deleted"]


def test_a_test_that_is_moved_back_was_not_deleted() -> None:
    away, back = bash("mv tests/test_a.py /tmp/"), bash("mv /tmp/test_a.py tests/test_a.py")
    assert found(SEEN, away, bash("pytest"), back) == []
    assert found(SEEN, bash("rm tests/test_a.py"), bash("git checkout tests/test_a.py")) == []


SKIPS = {
    "pytest": "@pytest.mark.skip(reason='flaky')",
    "pytest xfail": "@pytest.mark.xfail",
    "unittest": "@unittest.skip('x')",
    "unittest call": "        self.skipTest('x')",
    "jest": "it.skip('adds', () => {})",
    "jasmine": "xit('adds', () => {})",
    "go": 't.Skip("later")',
    "rust": "#[ignore]",
    "junit": "@Disabled",
    "collection": "__test__ = False",
}


@pytest.mark.parametrize("kind", SKIPS)
def test_a_skip_put_into_a_test_is_found(kind: str) -> None:
    edit = {
        "file_path": "tests/test_a.py",
        "old_string": "x\n",
        "new_string": f"{SKIPS[kind]}\nx\n",
    }
    assert found(SEEN, call("Edit", edit)) == ["tests-skipped"]


def test_tests_left_out_by_settings_are_found() -> None:
    settings = {
        "file_path": "/w/setup.cfg",
        "old_string": "q\n",
        "new_string": "q\naddopts = --ignore=tests\n",
    }
    assert found(call("Edit", settings)) == ["tests-skipped"]
    assert found(bash("sed -i 's/addopts = /addopts = --deselect a /' pytest.ini")) == [
        "tests-skipped"
    ]


def test_a_skip_that_was_there_or_goes_away_is_no_finding() -> None:
    keep = {
        "file_path": "t/test_a.py",
        "old_string": "@pytest.mark.skip\nx",
        "new_string": "@pytest.mark.skip\nx\ny",
    }
    drop = {"file_path": "t/test_a.py", "old_string": "@pytest.mark.skip\nx", "new_string": "x"}
    assert found(call("Edit", keep)) == []
    assert "tests-skipped" not in found(call("Edit", drop))


def test_a_new_test_may_skip_itself() -> None:
    text = "@pytest.mark.skipif(sys.platform == 'win32')\ndef test_n(): ..."
    assert found(editor("create", "tests/test_new.py", file_text=text)) == []


def test_reading_a_missing_test_is_no_reading() -> None:
    steps = (
        bash("cat tests/test_q.py", "cat: tests/test_q.py: No such file or directory"),
        said("hm"),
    )
    assert integrity_findings(run("a", *steps), ["tests-read"]) == []
