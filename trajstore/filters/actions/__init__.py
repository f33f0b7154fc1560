"""What agents do to files, read from their tool calls; nothing is ever executed."""

from __future__ import annotations

from trajstore.filters.actions.file_action import ActionKind, FileAction
from trajstore.filters.actions.paths import (
    is_among,
    is_answer_path,
    is_test_path,
    named_paths,
    same_file,
)
from trajstore.filters.actions.shell import Command, commands
from trajstore.filters.actions.shell_files import command_actions
from trajstore.filters.actions.tool_files import command_line, failed, tool_actions

__all__ = [
    "ActionKind",
    "Command",
    "FileAction",
    "command_actions",
    "command_line",
    "commands",
    "failed",
    "is_among",
    "is_answer_path",
    "is_test_path",
    "named_paths",
    "same_file",
    "tool_actions",
]
