"""``docs/reference/cli.md``: one section a command, from what its help says."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import typer
from trajstore_cli.main import app

from docs.markdown import page, table

_CLI_INTRO = """
`trajstore VERB STORE ...`, where STORE is a folder or an object-store URI such as
`s3://bucket/pool` (credentials come from the usual `AWS_...` variables; needs the extra `s3`).

- Data goes to stdout, everything else to stderr. `-` stands for stdin or stdout.
- `--json` gives one JSON object for a report and JSON lines for rows.
- Exit codes: 0 done; 1 the answer is no, or the data is bad; 2 wrong usage; 130 interrupted.
- Errors are one line; `--debug` shows the traceback.
"""


def commands() -> Iterator[tuple[str, Any]]:
    """Every command by its full name, groups opened, in the order of ``--help``."""
    yield from _commands("trajstore", typer.main.get_command(app))


def _commands(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    inner = getattr(command, "commands", None)
    if inner is None:
        yield name, command
        return
    for word, each in inner.items():
        yield from _commands(f"{name} {word}", each)


def cli_page() -> str:
    """``docs/reference/cli.md``: one section a command."""
    found = list(commands())
    index = table(
        ("command", "does"),
        [(f"[`{n}`](#{n.replace(' ', '-')})", summary(c)) for n, c in found],
    )
    return page("Command line", _CLI_INTRO, index, *(_command_text(n, c) for n, c in found))


def summary(command: Any) -> str:
    """The first sentence of a command's help."""
    return _paragraphs(command)[0]


def _paragraphs(command: Any) -> list[str]:
    """Paragraphs of the help, line breaks taken out; the example is not among them."""
    said = str(command.help or "").split("\n\n")
    return [" ".join(p.split()) for p in said if not p.startswith(_UNWRAPPED)]


def example(command: Any) -> str:
    """The example that the help of a command ends with, '' where it has none."""
    said = str(command.help or "").partition(f"{_UNWRAPPED}Example:\n")[2]
    return "\n".join(line.strip() for line in said.splitlines())


_UNWRAPPED = "\b\n"
"""Begins a paragraph of a help text whose lines stay as they are."""


def _command_text(name: str, command: Any) -> str:
    shown = [p for p in command.params if "--help" not in p.opts]
    arguments = [_metavar(p) for p in shown if p.param_type_name == "argument"]
    usage = " ".join([name, *arguments, "[OPTIONS]"])
    parameters = table(
        ("parameter", "what it says"), [_parameter(p, _hints(command)) for p in shown]
    )
    code = f"```text\n{usage}\n```"
    return "\n\n".join(
        [f"## {name}", *_paragraphs(command), code, parameters + f"\nExample: `{example(command)}`"]
    )


def _hints(command: Any) -> dict[str, Any]:
    return get_type_hints(inspect.unwrap(command.callback))


def _metavar(parameter: Any) -> str:
    given = str(parameter.metavar or parameter.name.upper()).strip("[]")
    more = "..." if parameter.nargs == -1 else ""
    return f"{given}{more}" if parameter.required else f"[{given}{more}]"


def _parameter(parameter: Any, hints: dict[str, Any]) -> tuple[str, str]:
    said = (parameter.help or "").rstrip(".")
    if parameter.param_type_name == "argument":
        return f"`{_metavar(parameter)}`", "; ".join(n for n in (said, *_notes(parameter)) if n)
    names = ", ".join(f"`{o}`" for o in [*parameter.opts, *parameter.secondary_opts])
    takes = "" if parameter.is_flag else f" {_takes(parameter, hints[parameter.name])}"
    return names + takes, "; ".join(n for n in (said, *_notes(parameter)) if n)


def _notes(parameter: Any) -> Iterator[str]:
    argument = parameter.param_type_name == "argument"
    if parameter.required and not argument:
        yield "must be given"
    if parameter.multiple:
        yield "may be given several times"
    default, flag = parameter.default, not argument and parameter.is_flag
    if flag and parameter.secondary_opts:
        yield f"`{(parameter.opts if default else parameter.secondary_opts)[0]}` if not given"
    elif default not in {None, ""} and not flag:
        yield f"`{default.value if isinstance(default, Enum) else default}` if not given"


_WORDS = {str: "TEXT", int: "NUMBER", float: "NUMBER", Path: "PATH"}


def _takes(parameter: Any, hint: Any) -> str:
    kinds = [k for k in (get_args(hint) or (hint,)) if k is not type(None)]
    chosen = next((h for h in (hint, *kinds) if get_origin(h) is Literal), None)
    if chosen is not None:
        return " or ".join(f"`{choice}`" for choice in get_args(chosen))
    if isinstance(kinds[0], type) and issubclass(kinds[0], Enum):
        return " or ".join(f"`{choice.value}`" for choice in kinds[0])
    return str(parameter.metavar or _WORDS[kinds[0]])
