"""Code that is wrong and would pass its check by what it does to the interpreter is not kept."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.memory.conftest import draft
from trajstore.memory import SkillDraft, SkillLibrary

WRONG = "def f():\n    return 0\n"
CHEATS = {
    "writes what the check would": (
        "import __main__, os, sys\n"
        "sys.stdout.write('\\n' + str(__main__.__dict__.get('token')) + '\\n')\n"
        "sys.stdout.flush()\nos._exit(0)\n"
    ),
    "reads stdin for it": (
        "import os, sys\nos.set_blocking(0, False)\n"
        "told = sys.stdin.read() or ''\nos.write(1, b'\\n' + told.encode())\nos._exit(0)\n"
    ),
    "exec": "import builtins\nbuiltins.exec = lambda *a, **k: None\n",
    "compile": "import builtins\nbuiltins.compile = lambda *a, **k: (lambda: None).__code__\n",
    "open": (
        "import builtins, io, pathlib\nbuiltins.open = lambda *a, **k: io.StringIO('pass')\n"
        "pathlib.Path.read_text = lambda *a, **k: 'pass'\n"
    ),
    "exceptions": "import builtins\nbuiltins.AssertionError = builtins.BaseException = KeyError\n",
    "hooks": "import atexit, sys\nsys.excepthook = print\natexit.register(print, 'ok')\n",
    "main": (
        "import sys, types\nsys.modules['__main__'] = types.ModuleType('__main__')\n"
        "for name in list(sys.modules):\n    if name.startswith('skills.'):\n"
        "        vars(sys.modules[name]).setdefault('check', None)\n"
    ),
}


@pytest.mark.parametrize("cheat", CHEATS.values(), ids=CHEATS.keys())
def test_wrong_code_that_patches_or_exits_is_refused(cheat: str, library: SkillLibrary) -> None:
    done = library.add(replace(draft("f", "0", check="assert f() == 1"), code=cheat + WRONG))
    assert not done.ok
    assert library.versions() == []


@pytest.mark.parametrize(
    "patch",
    [
        "import builtins\nbuiltins.all = lambda xs: True\n",
        "def all(xs):\n    return True\n",
        "def late():\n    global all\n    all = bool\nlate()\n",
    ],
    ids=["patched", "defined", "global"],
)
def test_the_check_has_the_builtins_as_they_were(patch: str, library: SkillLibrary) -> None:
    check = "assert all(x > 0 for x in [f()])"
    assert not library.add(replace(draft("f", "0", check=check), code=patch + WRONG)).ok


def test_a_copy_of_the_process_cannot_guess(library: SkillLibrary) -> None:
    code = (
        "import os\ndef f():\n    for guess in range(5):\n        child = os.fork()\n"
        "        if child == 0:\n            return guess\n        os.waitpid(child, 0)\n"
        "    os._exit(0)\n"
    )
    done = library.add(SkillDraft(name="f", code=code, check="assert f() == 3", description=""))
    assert "ended before its check" in done.attempts[0].verdict.feedback


@pytest.mark.parametrize("check", ["assert f() == 1", "assert f() in [1]", "assert 0 < 1 == f()"])
def test_a_value_that_equals_everything_shows_nothing(check: str, library: SkillLibrary) -> None:
    code = "class T(int):\n    def __eq__(self, other): return True\n    __hash__ = None\n"
    done = library.add(
        replace(draft("f", "0", check=check), code=f"{code}def f():\n    return T(0)\n")
    )
    assert "equals everything" in done.attempts[0].verdict.feedback


def test_neither_does_one_of_a_library(library: SkillLibrary) -> None:
    code = "from unittest.mock import ANY\ndef f():\n    return ANY\n"
    assert not library.add(replace(draft("f", "0", check="assert 1 == f()"), code=code)).ok
    own = "class Any:\n    def __eq__(self, other): return True\nassert f() == Any()"
    assert library.add(draft("f", "1", check=own)).ok


def test_values_with_an_equality_of_their_own_compare_as_ever(library: SkillLibrary) -> None:
    code = (
        "class Point:\n    def __init__(self, x): self.x = x\n"
        "    def __eq__(self, other): return isinstance(other, Point) and self.x == other.x\n"
        "    __hash__ = None\ndef f(): return Point(1)\n"
    )
    check = "assert f() == Point(1) != Point(2)\nassert 1 < 2 <= 2 and f() in [Point(1)]"
    assert library.add(replace(draft("f", "0", check=check), code=code)).ok


def test_what_a_check_prints_does_not_matter(library: SkillLibrary) -> None:
    check = "print('x' * 100_000)\nassert f() == 1"
    assert library.add(draft("f", "1", check=check)).ok
