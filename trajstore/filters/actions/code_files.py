"""What Python code does to files, as far as paths stand in it as plain strings."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from trajstore.filters.actions.file_action import FileAction, edit

_NAMED = re.compile(
    r"^[ \t]*(\w+)[ \t]*=[ \t]*(?:\w+\.)?(?:Path\()?[rf]?(['\"])([^'\"\n]+)\2\)?[ \t]*$",
    re.MULTILINE,
)
_PLACE = r"(?:[rfb]?(['\"])(?P<path>[^'\"\n]+)\1|(?P<name>\w+))"
_OPEN = re.compile(
    rf"\bopen\(\s*{_PLACE}\s*(?:,\s*(?:mode\s*=\s*)?['\"](?P<mode>[rwaxbt+]+)['\"])?"
)
_PATH_CALL = re.compile(
    rf"(?:Path\(\s*{_PLACE}\s*\)|\b(?P<variable>\w+))\s*\."
    r"(?P<method>write_text|write_bytes|read_text|read_bytes|unlink)\("
)
_REMOVE = re.compile(rf"\b(?:os\.(?:remove|unlink)|shutil\.rmtree)\(\s*{_PLACE}")
_MOVE = re.compile(
    r"\b(?:shutil\.move|os\.(?:rename|replace))\(\s*['\"]([^'\"\n]+)['\"]\s*,\s*['\"]([^'\"\n]+)['\"]"
)
_SUBPROCESS = re.compile(
    r"\b(?:os\.(?:system|popen)|subprocess\.\w+)\(\s*[rf]?(['\"]{3}|['\"])(?P<line>.+?)\1",
    re.DOTALL,
)


def code_actions(code: str) -> Iterator[FileAction]:
    """Reads, writes, deletes and moves of files in Python code, and OpenHands' file functions.

    A file that is both read and written counts as edited; the code itself stands for the text that
    came in.

    >>> [(a.kind, a.path) for a in code_actions("open('a.txt', 'w').write('x')")]
    [('write', 'a.txt')]
    """
    names = {m[1]: m[3] for m in _NAMED.finditer(code)}
    read, written = _opened(code, names)
    for path in read:
        yield FileAction(kind="read", path=path)
    for path in written:
        if path in read:
            yield FileAction(kind="edit", path=path, added=code, removes=True)
        else:
            yield FileAction(kind="write", path=path, added=code)
    for match in _REMOVE.finditer(code):
        if path := _path(match["path"], match["name"], names):
            yield FileAction(kind="delete", path=path, removes=True)
    for match in _MOVE.finditer(code):
        yield FileAction(kind="move", path=match[1], target=match[2])
    if "_file" in code or "insert_content" in code:
        yield from _editor_functions(code)


def code_commands(code: str) -> list[str]:
    """Command lines that Python code hands to a shell.

    >>> code_commands("os.system('rm x')")
    ['rm x']
    """
    return [m["line"] for m in _SUBPROCESS.finditer(code)]


def _opened(code: str, names: dict[str, str]) -> tuple[list[str], list[str]]:
    """Paths read and paths written, each once, in order."""
    read: dict[str, None] = {}
    written: dict[str, None] = {}
    for match in _OPEN.finditer(code):
        if path := _path(match["path"], match["name"], names):
            mode = match["mode"] or "r"
            if "r" in mode or "+" in mode:
                read[path] = None
            if set(mode) & set("wax+"):
                written[path] = None
    for match in _PATH_CALL.finditer(code):
        path = _path(match["path"], match["name"] or match["variable"], names)
        if path and match["method"].startswith("read"):
            read[path] = None
        elif path and match["method"].startswith("write"):
            written[path] = None
    return list(read), list(written)


def _path(written: str | None, name: str | None, names: dict[str, str]) -> str:
    """The path that stands there, or that the variable holds, or ''."""
    return written or names.get(name or "", "")


def _editor_functions(code: str) -> Iterator[FileAction]:
    """Calls of ``open_file``, ``edit_file_by_replace`` and their kin."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield from _function(node.func.id, _texts(node))


def _texts(call: ast.Call) -> dict[str, str]:
    """Arguments that are plain strings, by name or by place ('0', '1', ...)."""
    placed = {str(place): value for place, value in enumerate(call.args)}
    named = {k.arg: k.value for k in call.keywords if k.arg}
    return {
        name: value.value
        for name, value in {**placed, **named}.items()
        if isinstance(value, ast.Constant) and isinstance(value.value, str)
    }


def _function(name: str, texts: dict[str, str]) -> Iterator[FileAction]:
    path = texts.get("file_name") or texts.get("path") or texts.get("filename") or texts.get("0")
    if not path:
        return
    if name == "open_file":
        yield FileAction(kind="read", path=path)
    elif name == "create_file":
        yield FileAction(kind="write", path=path, by_editor=True)
    elif name == "edit_file_by_replace":
        old, new = texts.get("to_replace", texts.get("1", "")), texts.get("new_content")
        yield edit(path, old, texts.get("2", "") if new is None else new, by_editor=True)
    elif name in {"insert_content_at_line", "append_file"}:
        added = texts.get("content") or texts.get("2") or texts.get("1", "")
        yield FileAction(kind="edit", path=path, added=added, by_editor=True)
    elif name in {"edit_file_by_line", "edit_file"}:
        added = texts.get("content") or texts.get("new_content") or texts.get("3", "")
        yield FileAction(kind="edit", path=path, added=added, removes=True, by_editor=True)
