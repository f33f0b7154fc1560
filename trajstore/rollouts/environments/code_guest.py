"""The program that answers cases inside the sandbox; it knows no expected value.

It reads one JSON object from stdin (which module, which calls), imports the module from the folder
in its first argument, and writes one JSON line a case with what each call brought. Nothing that the
module does to this process can make a wrong answer right: what is right is decided elsewhere.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

_LONGEST_MESSAGE = 300
_DEEPEST = 50


def main() -> None:
    """Answer every case in order."""
    channel = os.dup(1)
    os.dup2(2, 1)  # what the module prints is not an answer
    task = json.loads(sys.stdin.read())
    folder = Path(sys.argv[1])
    sys.path.append(str(folder))  # last, so that no file of it stands for one of Python's own
    try:
        module = _load(task["module"], folder)
    except BaseException as error:  # noqa: BLE001 - a module may raise anything
        _say(channel, {"failed": _described(error)})
        return
    for number, calls in enumerate(task["cases"]):
        _say(channel, {"case": number, "answers": _answers(module, calls)})


def _load(name: str, folder: Path) -> Any:
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    if spec is None or spec.loader is None:
        raise ImportError(name)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _answers(module: Any, calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    answers: list[dict[str, Any]] = []
    made: Any = None
    for call in calls:
        name, arguments = call["call"], call["arguments"]
        try:
            if name.startswith("."):
                value = getattr(made, name[1:])(*arguments)
            else:
                target = getattr(module, name)
                value = target(*arguments)
                if isinstance(target, type):
                    made, value = value, None
            answers.append({"value": _plain(value)})
        except BaseException as error:  # noqa: BLE001 - a module may raise anything
            answers.append({"raised": type(error).__name__, "message": _described(error)})
    return answers


def _plain(value: Any, depth: int = 0) -> Any:
    """The value as JSON of its own; what JSON has no form for is named and equal to nothing."""
    if value is None or isinstance(value, bool):
        return value
    if depth < _DEEPEST:
        if isinstance(value, int):
            return int.__index__(value)
        if isinstance(value, float):
            return float.__pos__(value)
        if isinstance(value, str):
            return str.__str__(value)
        if isinstance(value, list):
            return [_plain(v, depth + 1) for v in list.__iter__(value)]
        if isinstance(value, dict) and all(type(k) is str for k in dict.keys(value)):
            return {k: _plain(v, depth + 1) for k, v in dict.items(value)}
    return {"is": type(value).__name__, "": repr(value)[:_LONGEST_MESSAGE]}


def _described(error: BaseException) -> str:
    text = f"{type(error).__name__}: {error}"
    trace, line = error.__traceback__, None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename.startswith(sys.argv[1]):
            line = trace.tb_lineno
        trace = trace.tb_next
    where = "" if line is None or isinstance(error, SyntaxError) else f" (line {line})"
    return text[:_LONGEST_MESSAGE] + where


def _say(channel: int, what: dict[str, Any]) -> None:
    data = json.dumps(what).encode("utf-8", "backslashreplace") + b"\n"
    while data:
        data = data[os.write(channel, data) :]


if __name__ == "__main__":
    main()
