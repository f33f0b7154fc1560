"""The program that runs skills inside the sandbox, each in a module of its own.

Its first argument is a folder with ``task.json``, a file for each skill under ``skills``, and what
is to run behind them: ``check.py`` or ``code.py``. Behind a check it writes the line that it read
from stdin, which says that the end was reached.

The code of a skill runs in this process, so nothing here is out of its reach for good. What it can
reach by a name or an import decides nothing: all is read and compiled before the first line of a
skill runs, what is needed later is held by local variables alone, and the check has the builtins
as they were before. What can still forge a pass is told at ``verifying.verify_skills``.
"""

from __future__ import annotations

import ast
import builtins
import json
import os
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

Names = dict[str, Any]
Loading = list[tuple[Names, list[tuple[str, Names]], Any]]
"""Of each skill, callees first: its names, those it calls with where they are, and its code."""

_COMPARED = "compared in a check"  # no identifier, so no code has it by that name


def main() -> None:
    """Load the skills, and run what stands behind them."""
    folder = Path(sys.argv[1])
    task = json.loads((folder / "task.json").read_text(encoding="utf-8"))
    modules = {one["name"]: types.ModuleType(f"skills.{one['name']}") for one in task}
    loading: Loading = []
    for one in task:
        path = folder / "skills" / f"{one['name']}.py"
        names = vars(modules[one["name"]])
        names["__file__"] = str(path)
        calls = [(name, vars(modules[name])) for name in one["calls"]]
        loading.append((names, calls, _compiled(path)))
    sys.modules.update({module.__name__: module for module in modules.values()})
    last = vars(modules[task[-1]["name"]]) if task else {}
    own = {name: vars(module) for name, module in modules.items()}
    check, code = folder / "check.py", folder / "code.py"
    if check.exists():
        _verify(loading, own, last, _checking(check))
    else:
        _use(loading, own, _compiled(code))


def _compiled(path: Path) -> Any:
    return compile(path.read_text(encoding="utf-8"), str(path), "exec", dont_inherit=True)


def _checking(path: Path) -> Any:
    """The code of a check, in which a function of ours sees what is compared."""
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    whole = ast.fix_missing_locations(_Comparing().visit(tree))
    return compile(whole, str(path), "exec", dont_inherit=True)


class _Comparing(ast.NodeTransformer):
    def visit_Compare(self, node: ast.Compare) -> ast.Compare:
        self.generic_visit(node)
        node.left, *node.comparators = map(_seen, (node.left, *node.comparators))
        return node


def _seen(value: ast.expr) -> ast.expr:
    function = ast.Name(_COMPARED, ast.Load())
    return ast.copy_location(ast.Call(function, [value], []), value)


def _compared(here: Names) -> Callable[[Any], Any]:
    """Gives a value back, but none that equals everything, save of a class of the check itself."""
    kind, nothing, problem, wrong = type, object(), Exception, AssertionError

    def compared(value: Any) -> Any:
        compares = kind(value).__eq__
        if kind(compares) is not kind(compared) or compares.__globals__ is here:
            return value
        try:
            same = value == nothing
        except problem:
            return value
        if same is True:
            raise wrong("a value that equals everything proves nothing")
        return value

    return compared


def _verify(loading: Loading, own: dict[str, Names], last: Names, check: Any) -> None:
    run, end, write, process, flush = exec, os._exit, os.write, os.getpid, sys.stdout.flush
    anything, problem = BaseException, Exception
    token, first = os.read(0, 64), process()
    here: Names = {"__name__": "skills", "__file__": None}
    pure = {**vars(builtins), _COMPARED: _compared(here)}
    here["__builtins__"] = pure
    globals().clear()
    try:
        for names, calls, code in loading:
            for name, other in calls:
                names[name] = other[name]
            run(code, names)
        for name, other in own.items():
            here[name] = other[name]
        for name, value in last.items():
            if name not in pure and name not in here:
                here[name] = value
        run(check, here)
    except anything:
        token = b""  # nothing that runs from here on may find it
        raise
    try:
        flush()
    except problem:
        end(1)
    if process() == first:  # not a copy that a skill made in order to guess
        write(1, b"\n" + token)
        end(0)
    end(1)


def _use(loading: Loading, own: dict[str, Names], code: Any) -> None:
    run, here, kept = exec, globals(), builtins
    here.clear()
    here |= {"__name__": "__main__", "__builtins__": kept}
    for names, calls, program in loading:
        for name, other in calls:
            names[name] = other[name]
        run(program, names)
    for name, other in own.items():
        here[name] = other[name]
    run(code, here)


if __name__ == "__main__":
    main()
