"""What tool calls do to files; the calls are in the words of the agents that make them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trajstore.filters.actions import (
    FileAction,
    command_actions,
    command_line,
    failed,
    tool_actions,
)


def done(name: str, arguments: Any, observation: str = "") -> list[tuple[str, str]]:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return [(a.kind, a.path) for a in tool_actions(name, text, observation)]


def one(line: str) -> FileAction:
    (action,) = command_actions(line)
    return action


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("cat a b", [("read", "a"), ("read", "b")]),
        ("head -n 5 a", [("read", "a")]),
        ("grep -rn pattern tests/", [("read", "tests/")]),
        ("grep -e pattern a", [("read", "a")]),
        ("sed -n '1,5p' a", [("read", "a")]),
        ("cat < a", [("read", "a")]),
        ("git show HEAD:tests/x.py", [("read", "tests/x.py")]),
        ("echo hi > a", [("write", "a")]),
        ("echo hi >> a", [("edit", "a")]),
        ("echo hi > /dev/null 2>&1", []),
        ("cat > a <<'E'\nx\nE", [("write", "a")]),
        ("printf x | tee a b", [("write", "a"), ("write", "b")]),
        ("printf x | tee -a a", [("edit", "a")]),
        ("sed -i 's/a/b/' x y", [("edit", "x"), ("edit", "y")]),
        ("sed -i -e s/a/b/ -e s/c/d/ x", [("edit", "x")]),
        ("perl -pi -e 's/a/b/' x", [("edit", "x")]),
        ("rm -rf tests a.py", [("delete", "tests"), ("delete", "a.py")]),
        ("git rm -q a.py", [("delete", "a.py")]),
        ("git -C /repo rm a.py", [("delete", "a.py")]),
        ("find tests -name 'test_*.py' -delete", [("delete", "test_*.py")]),
        ("mv a b", [("move", "a")]),
        ("cp a b/", [("read", "a"), ("write", "b/a")]),
        ("git checkout -- a b", [("restore", "a"), ("restore", "b")]),
        ("git restore a", [("restore", "a")]),
        ("mkdir -p new/dir", [("make-folder", "new/dir")]),
        ("truncate -s 0 a", [("write", "a")]),
        ("touch a", [("edit", "a")]),
        ("timeout 60 cat a", [("read", "a")]),
        ("nice -n 5 cat a", [("read", "a")]),
        ("stdbuf -o0 cat a", [("read", "a")]),
        ("ls | xargs cat", []),
        ("python -c \"open('a', 'w')\"", [("write", "a")]),
        ("python - <<E\nimport os\nos.remove('a')\nE", [("delete", "a")]),
        ("python -c \"import os; os.system('rm a')\"", [("delete", "a")]),
        ("pytest tests/test_a.py", []),
        ("ls tests", []),
    ],
)
def test_shell_commands(line: str, expected: list[tuple[str, str]]) -> None:
    assert done("bash", {"command": line}) == expected


def test_texts_of_shell_commands_are_known() -> None:
    assert one("cat > a <<'E'\nx = 1\nE").added == "x = 1\n"
    assert one("echo 'x = 1' >> a").added == "x = 1"
    edit = one("sed -i 's/assert x/pass/; s#a#b#' t.py")
    assert (edit.removed, edit.added, edit.removes) == ("assert x\na", "pass\nb", True)


@pytest.mark.parametrize(
    ("script", "removes"),
    [
        ("5d", True),
        ("/foo/d", True),
        ("3,9d", True),
        ("2a new line", False),
        ("1i import x", False),
    ],
)
def test_sed_scripts_that_take_lines_away(script: str, removes: bool) -> None:  # noqa: FBT001
    assert one(f"sed -i '{script}' t.py").removes is removes


def test_where_a_moved_file_goes_is_known() -> None:
    assert one("mv tests/a.py /tmp/").target == "/tmp/a.py"


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("Read", {"file_path": "a"}, [("read", "a")]),
        ("Write", {"file_path": "a", "content": "x"}, [("write", "a")]),
        ("Edit", {"file_path": "a", "old_string": "x", "new_string": "y"}, [("edit", "a")]),
        (
            "MultiEdit",
            {
                "file_path": "a",
                "edits": [
                    {"old_string": "x", "new_string": "y"},
                    {"old_string": "z", "new_string": ""},
                ],
            },
            [("edit", "a"), ("edit", "a")],
        ),
        ("Bash", {"command": "rm a", "description": "d"}, [("delete", "a")]),
        ("str_replace_editor", {"command": "view", "path": "a"}, [("read", "a")]),
        (
            "str_replace_editor",
            {"command": "create", "path": "a", "file_text": "x"},
            [("write", "a")],
        ),
        (
            "str_replace_editor",
            {"command": "str_replace", "path": "a", "old_str": "x", "new_str": "y"},
            [("edit", "a")],
        ),
        (
            "str_replace_editor",
            {"command": "insert", "path": "a", "insert_line": 1, "new_str": "y"},
            [("edit", "a")],
        ),
        ("str_replace_editor", {"command": "undo_edit", "path": "a"}, [("restore", "a")]),
        ("execute_bash", {"command": "cat a", "is_input": "false"}, [("read", "a")]),
        ("run_ipython", {"code": "open_file('a')"}, [("read", "a")]),
        (
            "run_ipython",
            {"code": "edit_file_by_replace('a', to_replace='x', new_content='y')"},
            [("edit", "a")],
        ),
        ("edit", {"path": "a", "edits": [{"oldText": "x", "newText": "y"}]}, [("edit", "a")]),
        ("edit", {"filePath": "a", "oldString": "x", "newString": "y"}, [("edit", "a")]),
        ("replace", {"file_path": "a", "old_string": "x", "new_string": "y"}, [("edit", "a")]),
        (
            "patch",
            {"mode": "replace", "path": "a", "old_string": "x", "new_string": "y"},
            [("edit", "a")],
        ),
        ("write_file", {"path": "a", "content": "x"}, [("write", "a")]),
        ("read_file", {"path": "a"}, [("read", "a")]),
        ("delete_file", {"path": "a"}, [("delete", "a")]),
        ("str_replace_editor", {"command": "delete", "path": "a"}, [("delete", "a")]),
        ("Edit", {"old_string": "x", "new_string": "y"}, []),
        ("list_files", {"path": "a"}, []),
        ("shell", {"command": ["bash", "-lc", "cat a"]}, [("read", "a")]),
        ("exec_command", {"cmd": "cat a"}, [("read", "a")]),
        ("bash_command", {"keystrokes": "rm a\n", "duration": 0.1}, [("delete", "a")]),
        ("execute_python", {"code": "f = 'a'\nopen(f, 'w').write('x')"}, [("write", "a")]),
        (
            "apply_patch",
            {"input": "*** Begin Patch\n*** Delete File: a\n*** End Patch"},
            [("delete", "a")],
        ),
        ("think", {"thought": "rm -rf tests"}, []),
        ("search", {"query": "cat a"}, []),
        ("book_reservation", {"user_id": "u", "payment": [1]}, []),
    ],
)
def test_tools_of_many_agents(name: str, arguments: Any, expected: list[tuple[str, str]]) -> None:
    assert done(name, arguments) == expected


@pytest.mark.parametrize(
    ("name", "arguments", "kind"),
    [
        ("open", {"command": "open tests/a.py 12"}, "read"),
        ("create", {"command": "create tests/a.py\n"}, "write"),
        ("create", {"filename": "tests/a.py"}, "write"),
        ("edit", {"command": "edit 5:6\nnew\nend_of_edit"}, "edit"),
        ("edit", {"search": "x", "replace": "y"}, "edit"),
        ("edit", {"start_line": 1, "end_line": 2, "replacement_text": "x"}, "edit"),
        ("insert", {"text": "x"}, "edit"),
    ],
)
def test_the_editor_of_swe_agent_names_its_file_in_the_result(
    name: str, arguments: Any, kind: str
) -> None:
    shown = "[File: tests/a.py (10 lines total)]\n1:x"
    assert done(name, arguments, shown) == [(kind, "tests/a.py")]


def test_arguments_that_are_no_json_are_a_command_line_only_of_a_shell() -> None:
    assert done("bash", "cat a") == [("read", "a")]
    assert done("Finish", "cat a") == []


def test_an_edit_knows_which_lines_went_and_came() -> None:
    arguments = {"file_path": "a", "old_string": "one\ntwo\n", "new_string": "one\nthree\n"}
    (action,) = tool_actions("Edit", json.dumps(arguments))
    assert (action.removed, action.added, action.removes) == ("two", "three", True)


def test_an_edit_that_only_adds_removes_nothing() -> None:
    arguments = {"file_path": "a", "old_string": "one\n", "new_string": "one\ntwo\n"}
    (action,) = tool_actions("Edit", json.dumps(arguments))
    assert (action.added, action.removes) == ("two", False)


DIFF = """diff --git a/src/x.py b/src/x.py
--- a/src/x.py
+++ b/src/x.py
@@ -1,2 +1,2 @@
 keep
-old
+new
--- /dev/null
+++ b/made.py
@@ -0,0 +1 @@
+fresh
--- a/gone.py
+++ /dev/null
@@ -1 +0,0 @@
-stale
"""
ENVELOPE = """*** Begin Patch
*** Update File: src/x.py
*** Move to: src/y.py
@@
-old
+new
*** Add File: made.py
+fresh
*** Delete File: gone.py
*** End Patch
"""


def test_unified_diffs_are_read_file_by_file() -> None:
    found = list(command_actions(f"git apply <<'E'\n{DIFF}E"))
    assert [(a.kind, a.path, a.added, a.removed) for a in found] == [
        ("edit", "src/x.py", "new", "old"),
        ("write", "made.py", "fresh", ""),
        ("delete", "gone.py", "", ""),
    ]


def test_patch_envelopes_are_read_file_by_file() -> None:
    found = list(command_actions(f"apply_patch <<'E'\n{ENVELOPE}E"))
    assert [(a.kind, a.path, a.target) for a in found] == [
        ("edit", "src/x.py", None),
        ("move", "src/x.py", "src/y.py"),
        ("write", "made.py", None),
        ("delete", "gone.py", None),
    ]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("open('a').read()", [("read", "a")]),
        ("with open('a', mode='a') as f: pass", [("write", "a")]),
        ("p = 'a'\nt = open(p).read()\nopen(p, 'w').write(t)", [("read", "a"), ("edit", "a")]),
        ("from pathlib import Path\nPath('a').write_text('x')", [("write", "a")]),
        ("p = Path('a')\np.read_text()", [("read", "a")]),
        ("import shutil\nshutil.rmtree('tests')", [("delete", "tests")]),
        ("import os\nos.rename('a', 'b')", [("move", "a")]),
        ("create_file('a')", [("write", "a")]),
        ("p = Path('a')\np.write_text('x')", [("write", "a")]),
        ("insert_content_at_line('a', 3, 'x')", [("edit", "a")]),
        ("edit_file_by_line('a', 1, 2, 'x')", [("edit", "a")]),
        ("open_file()", []),
        ("edit_file_by_replace(", []),
        ("os.unlink('a')", [("delete", "a")]),
        ("append_file('a', content='x')", [("edit", "a")]),
        ("def f(:", []),
        ("x = open(name)", []),
    ],
)
def test_python_code(code: str, expected: list[tuple[str, str]]) -> None:
    assert done("execute_python", {"code": code}) == expected


@pytest.mark.parametrize(
    "result",
    [
        "Your proposed edit has introduced new syntax error(s). Please",
        "No replacement was performed, old_str did not appear",
        "ERROR: Invalid `path` parameter",
        "File not found: x",
        "cat: x: No such file or directory",
    ],
)
def test_results_that_say_nothing_was_done(result: str) -> None:
    assert failed(result, is_error=None)


def test_the_error_flag_counts_and_a_good_result_is_good() -> None:
    assert failed("ok", is_error=True)
    assert not failed("The file a has been edited.", is_error=None)


def test_the_command_line_of_a_shell_call() -> None:
    assert command_line("Bash", '{"command":"ls"}') == "ls"
    assert command_line("Edit", '{"command":"ls"}') == ""
