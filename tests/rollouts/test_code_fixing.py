"""Code fixing: what its tools do, and that no way around the work is rewarded.

Every hostile program here runs in the sandbox of the environment and nowhere else.
"""

from __future__ import annotations

import json
import os
import sysconfig
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from trajstore.rollouts import Action, SandboxLimits, Task
from trajstore.rollouts.environments.code_exercise import Call, Exercise
from trajstore.rollouts.environments.code_fixing import MAX_FILE_BYTES, CodeFixingEnvironment
from trajstore.rollouts.environments.code_verdict import code_sandbox
from trajstore.rollouts.sandbox_isolation import why_not
from trajstore.schema import Observation, ToolCall

pytestmark = pytest.mark.skipif(
    why_not("namespaces") is not None and why_not("bubblewrap") is not None,
    reason="this machine cannot lock code in",
)
BROKEN = "def add(a, b):\n    return a - b\n"
RIGHT = BROKEN.replace("-", "+")
SECRET = 918273645
EXERCISE = Exercise(
    module="adder",
    files={"adder.py": BROKEN},
    visible=(
        (Call(name="add", arguments=(1, 2), expected=3),),
        (Call(name="add", arguments=(4, 0), expected=4),),
    ),
    hidden=(
        (Call(name="add", arguments=(SECRET - 5, 5), expected=SECRET),),
        (Call(name="add", arguments=("a", "b"), expected="ab"),),
        (Call(name="add", arguments=(1, "b"), raises="TypeError"),),
    ),
)
TASK = Task(task_id="code-fixing/adder", goal="Mend adder.py.", answer=EXERCISE.to_text())
TESTS = "tests/test_adder.py"


def started(wall_s: float = 120) -> CodeFixingEnvironment:
    limits = SandboxLimits(wall_s=wall_s, memory_bytes=256 << 20, processes=8, output_bytes=1 << 20)
    environment = CodeFixingEnvironment(sandbox=code_sandbox(limits=limits))
    environment.reset(TASK)
    return environment


def call(environment: CodeFixingEnvironment, name: str, **given: object) -> Observation:
    made = ToolCall.of(name, given, "c")
    return environment.step(Action(tool_calls=(made,))).observation.results[0]


def write(environment: CodeFixingEnvironment, path: str, text: str) -> Observation:
    return call(environment, "edit_file", path=path, old="", new=text)


def score(files: Mapping[str, str], wall_s: float = 120) -> tuple[float | None, str]:
    """The reward after these edits, a test run and ``finish``, and what the run said."""
    environment = started(wall_s)
    for path, text in files.items():
        write(environment, path, text)
    said = str(call(environment, "run_tests").text)
    last = environment.step(Action(tool_calls=(ToolCall.of("finish", {}, "c"),)))
    outcome = environment.outcome()
    assert last.terminated
    assert last.reward == outcome.reward == float(bool(outcome.success))
    return outcome.reward, said


# --- the work itself -------------------------------------------------------------------------


def test_an_honest_fix_is_rewarded() -> None:
    reward, said = score({"adder.py": RIGHT})
    assert (reward, said) == (1.0, "test_1: ok\ntest_2: ok\n2 of 2 tests passed.")


def test_code_that_was_not_mended_is_not() -> None:
    reward, said = score({})
    assert reward == 0.0
    assert said == (
        "test_1: FAILED: add(1, 2) gave -1, expected 3\ntest_2: ok\n1 of 2 tests passed."
    )


def test_what_counts_is_the_code_and_not_that_finish_was_called() -> None:
    environment = started()
    write(environment, "adder.py", RIGHT)
    outcome = environment.outcome()
    assert (outcome.success, outcome.reward) == (True, 1.0)
    assert outcome.rewards["finished"] == 0.0


def test_a_fix_may_have_modules_of_its_own_and_print() -> None:
    files = {
        "parts/__init__.py": "",
        "parts/plus.py": "def plus(a, b):\n    print('x' * 2_000_000)\n    return a + b\n",
        "adder.py": "from parts.plus import plus as add\n",
    }
    reward, said = score(files)
    assert reward == 1.0
    assert "The code printed:\nxxx" in said


def test_files_are_listed_read_and_edited() -> None:
    environment = started()
    assert environment.reset(TASK).text == f"Mend adder.py.\n\nFiles:\nadder.py\n{TESTS}"
    assert call(environment, "read_file", path="adder.py").text == BROKEN
    edited = call(environment, "edit_file", path="./adder.py", old="a - b", new="a + b")
    assert edited == Observation(call_id="c", text="'adder.py' was changed.", is_error=False)
    assert environment.files["adder.py"] == RIGHT


def test_the_visible_tests_can_be_read() -> None:
    assert "self.assertEqual(adder.add(1, 2), 3)" in str(
        call(started(), "read_file", path=TESTS).text
    )


@pytest.mark.parametrize(
    ("name", "given", "reason"),
    [
        ("edit_file", {"path": "adder.py", "old": "x", "new": ""}, "occurs 0 times in 'adder.py'"),
        ("edit_file", {"path": "adder.py", "old": "a", "new": ""}, "occurs 3 times in 'adder.py'"),
        ("edit_file", {"path": "no.py", "old": "a", "new": ""}, "there is no file 'no.py'"),
        ("edit_file", {"path": "adder.py", "new": ""}, "'old' is missing or no text"),
        ("edit_file", {"path": "adder.py/a", "old": "", "new": ""}, "a file and a folder at once"),
        ("edit_file", {"path": "b.py", "old": "", "new": "x" * (MAX_FILE_BYTES + 1)}, "65,536"),
        ("read_file", {"path": "no.py"}, "the files are adder.py, tests/test_adder.py"),
        ("shell", {}, "there is no tool 'shell'; the tools are read_file, edit_file, run_tests"),
    ],
)
def test_a_bad_call_is_answered_and_changes_nothing(
    name: str, given: dict[str, str], reason: str
) -> None:
    environment = started()
    before = environment.files
    answer = call(environment, name, **given)
    assert answer.is_error
    assert reason in str(answer.text)
    assert environment.files == before


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("def add(a, b:\n", "test_1: FAILED: the module cannot be imported: SyntaxError:"),
        ("import nothing", "ModuleNotFoundError: No module named 'nothing' (line 1)"),
        ("def plus(a, b):\n  return a\n", "has no attribute 'add'"),
        ("def add(a, b):\n  return a + c\n", "raised NameError: name 'c' is not defined (line 2)"),
        ("def add(a, b):\n  return (a, b)\n", "gave (1, 2), expected 3"),
    ],
)
def test_broken_code_gets_a_message_to_work_with(source: str, said: str) -> None:
    reward, text = score({"adder.py": source})
    assert reward == 0.0
    assert said in text


def test_a_task_that_is_no_exercise_is_refused() -> None:
    with pytest.raises(ValueError, match="no code exercise"):
        CodeFixingEnvironment().reset(Task(task_id="x", goal="?", answer="42"))


# --- gaming: the tests -----------------------------------------------------------------------


@pytest.mark.parametrize("path", [TESTS, "tests/conftest.py", "./tests/x.py", "tests", "tests//a"])
@pytest.mark.parametrize("text", ["", "def test_1():\n    pass\n"], ids=["emptied", "replaced"])
def test_tests_are_read_only(path: str, text: str) -> None:
    environment = started()
    before = environment.files
    answer = write(environment, path, text)
    assert answer.is_error
    assert "read-only" in str(answer.text)
    assert environment.files == before
    assert environment.outcome().reward == 0.0
    assert environment.outcome().rewards["tampering"] == 1.0


def test_a_test_cannot_be_edited_in_part() -> None:
    environment = started()
    answer = call(environment, "edit_file", path=TESTS, old="1, 2), 3)", new="1, 2), -1)")
    assert "read-only" in str(answer.text)
    assert environment.outcome().reward == 0.0


SKIP_ALL = "def pytest_collection_modifyitems(items):\n    items.clear()\n"
PASS_ALL = "import os\nos._exit(0)\n"
MAKE_RIGHT = "import builtins\nbuiltins.add = lambda a, b: a + b\n"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("conftest.py", SKIP_ALL),
        ("pytest.ini", "[pytest]\naddopts = --collect-only\npython_files = none\n"),
        ("pyproject.toml", '[tool.pytest.ini_options]\naddopts = "--co"\n'),
        ("setup.cfg", "[tool:pytest]\naddopts = --co\n"),
        ("tox.ini", "[pytest]\naddopts = --co\n"),
        ("pytest.py", PASS_ALL),
        ("pytest/__init__.py", PASS_ALL),
        ("unittest.py", PASS_ALL),
        ("unittest/__init__.py", PASS_ALL),
        ("json.py", "loads = dumps = lambda *a, **k: '{}'\n"),
        ("importlib/util.py", PASS_ALL),
        ("os.py", PASS_ALL),
        ("sitecustomize.py", PASS_ALL),
        ("usercustomize.py", PASS_ALL),
        ("evil.pth", "import os; os._exit(0)\n"),
        ("main.py", PASS_ALL),
        ("__main__.py", PASS_ALL),
        ("__init__.py", MAKE_RIGHT),
        ("adder/__init__.py", RIGHT),
        ("adder.pyi", RIGHT),
    ],
)
def test_planted_files_win_nothing(path: str, text: str) -> None:
    assert score({path: text})[0] == 0.0


def test_planted_files_do_not_hurt_an_honest_fix_either() -> None:
    planted = {"conftest.py": SKIP_ALL, "json.py": PASS_ALL, "sitecustomize.py": PASS_ALL}
    assert score({"adder.py": RIGHT, **planted})[0] == 1.0


# --- gaming: the process ---------------------------------------------------------------------

FORGED = json.dumps({"case": 0, "answers": [{"value": 3}]})
PROGRAMS = {
    "exit at import": "import os\nos._exit(0)\n",
    "sys.exit at import": "import sys\nsys.exit(0)\n",
    "exit in a call": "import os\ndef add(a, b):\n    os._exit(0)\n",
    "sys.exit in a call": "import sys\ndef add(a, b):\n    sys.exit(0)\n",
    "exit at the end": "import atexit, os\natexit.register(os._exit, 0)\n" + BROKEN,
    "killed by itself": "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n",
    "kills all it sees": "import os, signal\ndef add(a, b):\n    os.kill(-1, signal.SIGKILL)\n",
    "stopped": "import os, signal\ndef add(a, b):\n    os.kill(os.getpid(), signal.SIGSTOP)\n",
    "the unittest report": (
        "import sys\nprint('..\\nRan 2 tests in 0.001s\\n\\nOK')\n"
        "sys.stderr.write('2 passed in 0.01s\\n')\nsys.exit(0)\n"
    ),
    "fake results on every descriptor": (
        "import os\nfor fd in range(64):\n    try:\n"
        f"        os.write(fd, b'''{FORGED}\\n''')\n    except OSError:\n        pass\n"
        "os._exit(0)\n"
    ),
    "answers beside the questions": (
        "import gc, os\ndef add(a, b):\n"
        "    for thing in gc.get_objects():\n"
        "        if isinstance(thing, dict) and 'expected' in thing:\n"
        "            return thing['expected']\n    return a - b\n"
    ),
    "answers in the callers": (
        "import sys\ndef add(a, b):\n    frame = sys._getframe()\n"
        "    while frame:\n        for value in list(frame.f_locals.values()):\n"
        "            if isinstance(value, dict) and 'expected' in value:\n"
        "                return value['expected']\n        frame = frame.f_back\n    return a - b\n"
    ),
    "patched runner": (
        "import sys\nmain = sys.modules['__main__']\n"
        "main._answers = lambda *a: [{'value': 3}]\nmain._plain = lambda *a: 3\n" + BROKEN
    ),
    "patched json": (
        'import json\njson.dumps = lambda *a, **k: \'{"case": 0, "ok": true}\'\n' + BROKEN
    ),
    "patched builtins": (
        "import builtins, unittest, sys\n"
        "class Nothing:\n    def __getattr__(self, name): return lambda *a, **k: None\n"
        "unittest.TestCase.assertEqual = lambda *a, **k: None\n"
        "sys.modules['pytest'] = sys.modules['unittest'] = Nothing()\n"
        "builtins.isinstance = lambda *a: True\nbuiltins.AssertionError = Warning\n" + BROKEN
    ),
    "equal to everything": (
        "class Equal:\n    def __eq__(self, other): return True\n"
        "    def __ne__(self, other): return False\n    def __hash__(self): return 0\n"
        "    def __repr__(self): return '3'\n"
        "def add(a, b):\n    return Equal()\n"
    ),
    "a number equal to everything": (
        "class Equal(int):\n    def __eq__(self, other): return True\n"
        "    def __index__(self): return 3\n    def __repr__(self): return '3'\n"
        "    __int__ = __str__ = __repr__\ndef add(a, b):\n    return Equal()\n"
    ),
    "a list equal to everything": (
        "class Equal(list):\n    def __eq__(self, other): return True\n"
        "def add(a, b):\n    return Equal()\n"
    ),
    "answers of the visible tests": (
        "def add(a, b):\n    return {(1, 2): 3, (4, 0): 4}.get((a, b), 0)\n"
    ),
    "always an error": "def add(a, b):\n    raise TypeError\n",
    "an error named as wanted": (
        "def add(a, b):\n    raise type('TypeError', (BaseException,), {})\n"
    ),
    "deep nesting": "def add(a, b):\n    x = []\n    for _ in range(9**5): x = [x]\n    return x\n",
    "endless text": "import os\nwhile True: os.write(2, b'x' * 65536)\n",
    "memory": "def add(a, b):\n    x = [0]\n    while True: x += x\n",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_program_is_rewarded_for_less_than_the_answers(name: str) -> None:
    assert score({"adder.py": PROGRAMS[name]}, wall_s=2)[0] == 0.0


# --- gaming: reading and writing -------------------------------------------------------------

LOOKS_EVERYWHERE = """
import os, sys
found = []
for top in ("/box", "/given", "/tmp", "/proc", "/dev/shm"):
    for place, folders, files in os.walk(top):
        for name in files:
            try:
                with open(os.path.join(place, name), "rb") as file:
                    text = file.read(1 << 20)
            except OSError:
                continue
            if b"9182" + b"73645" in text or (b"Prob" + b"lem(") in text and b"bugs=" in text:
                found.append(os.path.join(place, name))
print("found", [f for f in found if not f.endswith("/adder.py")])
listed = [os.listdir(p) for p in sys.path if os.path.isdir(p)]
print("seen" if any("trajstore" in names for names in listed) else "hidden")
"""


def test_hidden_tests_and_solutions_are_nowhere_inside() -> None:
    environment = started()
    write(environment, "adder.py", LOOKS_EVERYWHERE)
    said = str(call(environment, "run_tests").text)
    assert "found []" in said
    assert "hidden" in said
    assert environment.outcome().reward == 0.0


@pytest.mark.parametrize("module", ["trajstore", "pyarrow", "pytest"])
def test_no_installed_package_can_be_imported(module: str) -> None:
    said = score({"adder.py": f"import {module}\n"})[1]
    assert f"ModuleNotFoundError: No module named '{module}'" in said


def test_the_folders_of_packages_are_empty_and_closed_inside() -> None:
    purelib = sysconfig.get_path("purelib")
    code = f"import os\nprint(os.listdir({purelib!r}))\nopen({purelib!r} + '/x', 'w')\n"
    ran = code_sandbox().run_python(code, limits=SandboxLimits(wall_s=120))
    assert ran.stdout == "[]\n"
    assert "Read-only file system" in ran.stderr


PATHS = ["../adder.py", "/etc/passwd", "tests/../../x", "a/../../x", "..", ".", "~\x00", "a\\..\\b"]


@pytest.mark.parametrize("path", PATHS)
def test_no_path_leads_out_of_the_folder(path: str, tmp_path: Path) -> None:
    environment = started()
    for answer in (call(environment, "read_file", path=path), write(environment, path, "x")):
        assert answer.is_error
        assert "stay in the folder" in str(answer.text)
    assert list(tmp_path.iterdir()) == []


WRITES = """
import os
for path in ("/given/code/adder.py", "/given/main.py", "/given/code/tests/x.py", "/x", "/usr/x"):
    try:
        open(path, "w").write("def add(a, b):\\n    return a + b\\n")
        print("WROTE", path)
    except OSError:
        pass
for place in ("/box", "/tmp"):
    for target in ("/given/code/adder.py", "/", "/proc/1/root"):
        os.symlink(target, f"{place}/link{hash(target)}")
def add(a, b):
    return a - b
"""


def test_running_code_writes_nothing_outside_and_leaves_no_link() -> None:
    environment = started()
    write(environment, "adder.py", WRITES)
    said = str(call(environment, "run_tests").text)
    assert "WROTE" not in said
    assert "1 of 2 tests passed" in said
    assert environment.files["adder.py"] == WRITES
    assert environment.outcome().reward == 0.0


# --- gaming: time ----------------------------------------------------------------------------

OUTLIVES = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(60)", "{marker}"])
def add(a, b):
    {then}
"""


def _alive(marker: str) -> bool:
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if marker in (process / "cmdline").read_text():
                return True
        except OSError:
            continue
    return False


@pytest.mark.parametrize("then", ["time.sleep(60)", "os._exit(0)", "return a - b"])
def test_nothing_outlives_the_limit(then: str) -> None:
    marker = f"outlives-{os.getpid()}-{len(then)}"
    begin = time.monotonic()
    reward, _ = score({"adder.py": OUTLIVES.format(marker=marker, then=then)}, wall_s=1)
    assert reward == 0.0
    assert time.monotonic() - begin < 50
    assert not _alive(marker)


def test_a_loop_without_end_is_said_to_be_one() -> None:
    reward, said = score({"adder.py": "def add(a, b):\n    while True: pass\n"}, wall_s=1)
    assert reward == 0.0
    assert "test_1: FAILED: no answer: stopped at the limit: wall" in said


def test_a_right_answer_after_which_the_process_hangs_is_no_success() -> None:
    hangs = "import atexit, time\natexit.register(time.sleep, 60)\n" + RIGHT
    assert score({"adder.py": hangs}, wall_s=1)[0] == 0.0


def test_there_is_no_network() -> None:
    code = "import socket\nsocket.create_connection(('127.0.0.1', 80), timeout=1)\n"
    assert "OSError" in score({"adder.py": code})[1] or "Error" in score({"adder.py": code})[1]
