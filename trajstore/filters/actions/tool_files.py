"""What tool calls do to files, in the tools of common coding agents.

Known are shells (``bash``, ``execute_bash``, ``terminal``, ``exec_command``, ...), the editor with
one ``command`` argument (SWE-agent, OpenHands, Anthropic), edit tools with old and new text (Claude
Code, OpenCode, Gemini CLI, Hermes, Pi), SWE-agent's line editor, ``apply_patch``, and tools that
run Python. Tools are told apart by the arguments they take more than by their names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from trajstore.filters.actions.code_files import code_actions, code_commands
from trajstore.filters.actions.file_action import FileAction, edit
from trajstore.filters.actions.patches import patch_actions
from trajstore.filters.actions.shell_files import command_actions, patched_files

_LINE_KEYS = ("command", "cmd", "keystrokes", "script", "commands")
_PATH_KEYS = (
    "path",
    "file_path",
    "filePath",
    "filepath",
    "filename",
    "file_name",
    "file",
    "absolute_path",
    "target_file",
    "notebook_path",
)
_OLD_KEYS = ("old_string", "old_str", "oldString", "oldText", "old_text", "to_replace", "search")
_NEW_KEYS = ("new_string", "new_str", "newString", "newText", "new_text", "new_content", "replace")
_CONTENT_KEYS = ("content", "file_text", "contents", "new_source", "code_edit", "text")
_PATCH_KEYS = ("patch", "patch_text", "patchText", "input", "diff")
_SHELLS = re.compile(
    r"bash|shell|terminal|exec_?command|^run$|^exec$|run_command|execute_command|^cmd$",
    re.IGNORECASE,
)
_PYTHON = re.compile(r"python|jupyter|run_cell|execute_code|code_interpreter", re.IGNORECASE)
_READING = re.compile(r"read|view|^open|^cat$|get_file|show", re.IGNORECASE)
_WRITING = re.compile(r"write|create|edit|insert|replace|save|update|patch", re.IGNORECASE)
_DELETING = re.compile(r"delete|remove|unlink", re.IGNORECASE)
_SHOWN_FILE = re.compile(r"\[File: (?P<path>.+?) \(\d+ lines total")
_LINE_EDIT = re.compile(
    r"edit\s+(?P<first>\d+):(?P<last>\d+)\s*\n(?P<text>.*?)(?:\nend_of_edit|\Z)", re.DOTALL
)
_FAILED = re.compile(
    r"introduced new syntax error|No replacement was performed"
    r"|[Nn]o match(?:es)? (?:was |were )?found|not found in (?:the )?file"
    r"|No such file or directory|does not exist|File not found"
    r"|^[ \t]*(?:<error>|ERROR|Error)[: >]"
    r"|Parameter `\w+` is required|Invalid `path`|already exists",
    re.MULTILINE,
)


def failed(observation: str | None, *, is_error: bool | None) -> bool:
    """Whether an edit tool's result says that nothing was changed."""
    return is_error is True or bool(observation and _FAILED.search(observation[:2_000]))


def tool_actions(
    name: str, arguments: str | None, observation: str | None = None
) -> list[FileAction]:
    """What one tool call does to files, in order.

    Args:
        name: the tool.
        arguments: its arguments as JSON text, or as the model wrote them.
        observation: what came back; SWE-agent's editor and ``patch`` name their files only there.

    >>> call = '{"command":"create","path":"a.py","file_text":"x"}'
    >>> [(a.kind, a.path) for a in tool_actions("str_replace_editor", call)]
    [('write', 'a.py')]
    """
    given = _parsed(name, arguments)
    path = _first(given, _PATH_KEYS)
    command = given.get("command")
    if path and isinstance(command, str) and command in _EDITOR:
        return _editor(command, path, given)
    if "edits" in given or _first(given, _OLD_KEYS) is not None:
        return _edits(path or _shown(observation), given)
    code = _first(given, ("code",))
    if code is not None or _PYTHON.search(name):
        return _code(code or _line(given) or "")
    if (line := _line(given)) and not path:
        return _by_line(name, line, observation)
    if (text := _first(given, _PATCH_KEYS)) and ("*** Begin Patch" in text or "\n@@" in text):
        return list(patch_actions(text))
    return _by_name(name, path or _shown(observation), given)


def command_line(name: str, arguments: str | None) -> str:
    """The command line that a call gives to a shell, or ''.

    >>> command_line("Bash", '{"command":"ls"}')
    'ls'
    """
    return (_line(_parsed(name, arguments)) or "") if _SHELLS.search(name) else ""


def _parsed(name: str, arguments: str | None) -> Mapping[str, Any]:
    """The arguments as an object; free text is a command line only where the tool is a shell."""
    try:
        value = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        value = arguments
    if isinstance(value, dict):
        return value
    return {"command": value} if _SHELLS.search(name) or name in _LINE_EDITORS else {}


def _first(given: Mapping[str, Any], keys: tuple[str, ...]) -> str | None:
    return next((given[k] for k in keys if isinstance(given.get(k), str)), None)


def _line(given: Mapping[str, Any]) -> str | None:
    for key in _LINE_KEYS:
        value = given.get(key)
        if isinstance(value, str):
            return value
        if isinstance(value, list) and value and all(isinstance(v, str) for v in value):
            return str(value[-1]) if value[:-1] and value[-2].startswith("-") else " ".join(value)
    return None


def _shown(observation: str | None) -> str | None:
    if not observation or "[File: " not in observation:
        return None
    match = _SHOWN_FILE.search(observation)
    return match["path"] if match else None


_LINE_EDITORS = frozenset({"edit", "insert", "create", "open"})
_EDITOR = frozenset({"view", "create", "str_replace", "insert", "undo_edit", "delete"})


def _editor(command: str, path: str, given: Mapping[str, Any]) -> list[FileAction]:
    if command == "view":
        return [FileAction(kind="read", path=path)]
    if command == "create":
        text = _first(given, _CONTENT_KEYS) or ""
        return [FileAction(kind="write", path=path, added=text, by_editor=True)]
    if command == "insert":
        text = _first(given, (*_NEW_KEYS, "insert_text", *_CONTENT_KEYS)) or ""
        return [FileAction(kind="edit", path=path, added=text, by_editor=True)]
    if command == "delete":
        return [FileAction(kind="delete", path=path, removes=True, by_editor=True)]
    if command == "undo_edit":
        return [FileAction(kind="restore", path=path, by_editor=True)]
    return _edits(path, given)


def _edits(path: str | None, given: Mapping[str, Any]) -> list[FileAction]:
    if path is None:
        return []
    listed = given.get("edits")
    parts = listed if isinstance(listed, list) else [given]
    return [
        edit(path, _first(p, _OLD_KEYS) or "", _first(p, _NEW_KEYS) or "", by_editor=True)
        for p in parts
        if isinstance(p, dict)
    ]


def _code(code: str) -> list[FileAction]:
    run = [a for line in code_commands(code) for a in command_actions(line)]
    return [*code_actions(code), *run]


def _by_line(name: str, line: str, observation: str | None) -> list[FileAction]:
    """A shell, SWE-agent's commands, or ``apply_patch``."""
    if "*** Begin Patch" in line and "<<" not in line:
        return list(patch_actions(line))
    first, _, rest = line.strip().partition(" ")
    if name in _LINE_EDITORS or first == "edit":
        return _line_editor(first, rest.strip(), line, _shown(observation))
    return [*command_actions(line), *patched_files(line, observation or "")]


def _line_editor(verb: str, rest: str, line: str, shown: str | None) -> list[FileAction]:
    """SWE-agent: ``open FILE``, ``create FILE``, ``edit FIRST:LAST``."""
    if verb in {"open", "create"} and rest:
        path = shown or rest.split(maxsplit=1)[0].strip("\"'")
        kind = FileAction(kind="read", path=path)
        return [kind if verb == "open" else FileAction(kind="write", path=path, by_editor=True)]
    match = _LINE_EDIT.search(line)
    if shown is None or match is None:
        return []
    return [FileAction(kind="edit", path=shown, added=match["text"], removes=True, by_editor=True)]


def _by_name(name: str, path: str | None, given: Mapping[str, Any]) -> list[FileAction]:
    if path is None:
        return []
    content = _first(given, _CONTENT_KEYS)
    replaced = _first(given, ("replacement_text", *_NEW_KEYS))
    if replaced is not None and "end_line" in given:
        return [FileAction(kind="edit", path=path, added=replaced, removes=True, by_editor=True)]
    if _DELETING.search(name):
        return [FileAction(kind="delete", path=path, removes=True, by_editor=True)]
    if content is not None and name == "insert":
        return [FileAction(kind="edit", path=path, added=content, by_editor=True)]
    if _WRITING.search(name) and not name.lower().startswith("read"):
        return [FileAction(kind="write", path=path, added=content or "", by_editor=True)]
    if _READING.search(name):
        return [FileAction(kind="read", path=path)]
    return []
