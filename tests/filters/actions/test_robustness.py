"""Whatever a model writes is read to its end, in time, and never raises."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.filters.frames import asked, call, run, said
from trajstore.filters import INTEGRITY_RULES, integrity_findings
from trajstore.filters.actions import FileAction, tool_actions

NAMES = [
    "bash",
    "Edit",
    "edit",
    "str_replace_editor",
    "apply_patch",
    "execute_python",
    "finish",
    "",
]
KEYS = [
    "command",
    "path",
    "file_path",
    "code",
    "edits",
    "old_string",
    "new_string",
    "input",
    "content",
    "patch",
    "text",
    "start_line",
    "end_line",
    "replacement_text",
    "cmd",
]
TEXTS = st.text("ab/.'\"\\ \n$()<>|&;#-=*@+{}[]tesrmcdi0", max_size=30)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | TEXTS
    | st.sampled_from(["view", "create", "insert"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3)
    ),
    max_leaves=5,
)


@settings(deadline=None, max_examples=400)
@given(
    st.sampled_from(NAMES),
    st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=4).map(json.dumps)
    | TEXTS
    | VALUES.map(json.dumps),
    TEXTS,
)
def test_any_call_gives_actions(name: str, arguments: str, observation: str) -> None:
    found = tool_actions(name, arguments, observation)
    assert all(isinstance(a, FileAction) and isinstance(a.path, str) for a in found)


@settings(deadline=None, max_examples=100)
@given(st.lists(st.tuples(st.sampled_from(NAMES), VALUES, TEXTS), max_size=4), TEXTS)
def test_any_run_can_be_judged(calls: list[tuple[str, Any, str]], text: str) -> None:
    steps = [call(name, arguments, result) for name, arguments, result in calls]
    found = integrity_findings(run("a", asked(text), *steps, said(text)), INTEGRITY_RULES)
    assert all(0 <= f.step_index < len(steps) + 2 for f in found)


UNITS = [
    "'",
    '"',
    "\\",
    " ",
    "\n",
    "a/",
    "a.",
    "$(",
    "<<E\n",
    "s/",
    "1,",
    "--- a\n",
    "open(",
    "x=1\n",
    "Path('a').",
    "def __eq__(",
    "correct answer: a\n",
    "the bug is fixed ",
    "rm tests/test_a.py\n",
    "exit(0)\n",
    "subprocess.run('",
    "*** Update File: x\n",
]


@pytest.mark.parametrize("unit", UNITS)
def test_no_text_takes_longer_than_its_length_allows(unit: str) -> None:
    """A pattern that looks again from every place needs minutes for such texts."""
    text = (unit * 40_000)[:40_000]
    steps = (
        asked(text),
        call("bash", {"command": text}, text),
        call("bash", {"command": f"sed -i {json.dumps(text)} tests/test_a.py"}),
        call("execute_python", {"code": text}, text),
        call("Edit", {"file_path": "tests/test_a.py", "old_string": text[::2], "new_string": text}),
        call("finish", {"answer": text}),
        said(text),
    )
    begun = time.process_time()
    integrity_findings(run("a", *steps), INTEGRITY_RULES)
    assert time.process_time() - begun < 8
