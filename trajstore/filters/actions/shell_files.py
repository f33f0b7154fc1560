"""What shell commands do to files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from trajstore.filters.actions.code_files import code_actions, code_commands
from trajstore.filters.actions.file_action import FileAction
from trajstore.filters.actions.patches import patch_actions
from trajstore.filters.actions.shell import Command, commands

_READERS = frozenset(
    {
        "cat",
        "head",
        "tail",
        "less",
        "more",
        "nl",
        "bat",
        "batcat",
        "strings",
        "xxd",
        "od",
        "hexdump",
        "base64",
        "jq",
        "cut",
        "sort",
        "uniq",
        "tac",
        "diff",
        "cmp",
        "view",
        "vi",
        "vim",
        "nano",
        "code",
        "type",
        "source",
    }
)
_SEARCHERS = frozenset({"grep", "egrep", "fgrep", "rg", "ag", "ack", "awk", "gawk"})
_WITH_VALUE = {
    "head": "nc",
    "tail": "nc",
    "grep": "eABCmf",
    "egrep": "eABCmf",
    "rg": "eABCmgtf",
    "cut": "dfcb",
    "sort": "kto",
    "awk": "vF",
    "jq": "",
}
"""Short options that take the next word as their value."""

_WRAPPERS = frozenset({"timeout", "nice", "xargs", "stdbuf", "watch", "parallel"})
_NUMBER = re.compile(r"\d+(?:\.\d+)?[smhd]?")
"""A word that belongs to a program that runs another one, such as a time limit."""

_SUBSTITUTE = re.compile(
    r"(?:^|[;\n{}\d,$/ ])s(?P<sign>[/|#,@!])(?P<old>.*?)(?P=sign)(?P<new>.*?)(?P=sign)", re.DOTALL
)
_LINE_TEXT = re.compile(r"(?:^|[;\n\d$/}])[ \t]{0,9}(?P<verb>[aic])\\?\s?(?P<text>[^;]*)")
_DELETE_LINES = re.compile(r"(?:^|[;\n{])[ \t]{0,9}(?:[\d,$~+]+|/[^/]*/(?:,/[^/]*/)?)[ \t]{0,9}d\b")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "'": "'"}
_ESCAPE = re.compile(r"""\\([ntr\\"'])""")
"""What ``printf`` and ``echo -e`` write for a backslash and a letter."""

_NO_SIZE = re.compile(r"(?:-c?s|--size=)?0+")
_EARLIER = re.compile(r"[\w./@{}-]+[~^]\d*")
"""A commit before another one, such as ``HEAD~3``."""

_PATCHED = re.compile(r"(?m)^patching file ['\"]?(?P<path>[^\n'\"]+?)['\"]?[ \t]*$")
_LONGEST_SCRIPT = 4_000
"""Characters of a sed script that are looked at."""


def command_actions(line: str) -> Iterator[FileAction]:
    """What a command line or script does to files, in order.

    >>> [(a.kind, a.path) for a in command_actions("cat a > b && rm -rf tests")]
    [('write', 'b'), ('read', 'a'), ('delete', 'tests')]
    """
    for command in commands(line):
        yield from _redirects(command)
        yield from _by_program(command)


def _redirects(command: Command) -> Iterator[FileAction]:
    text = _said(command)
    for path in command.writes:
        if not path.startswith("/dev/"):
            yield FileAction(kind="write", path=path, added=text)
    for path in command.appends:
        yield FileAction(kind="edit", path=path, added=text)
    for path in command.reads:
        yield FileAction(kind="read", path=path)


def _said(command: Command) -> str:
    """The text that a command is known to write: a here-document, or what ``echo`` is given."""
    if command.stdin is not None:
        return command.stdin
    if command.program not in {"echo", "printf"}:
        return ""
    text = " ".join(command.operands())
    escapes = command.program == "printf" or command.has_option("-e")
    return _ESCAPE.sub(lambda m: _ESCAPED[m[1]], text) if escapes else text


def _by_program(command: Command) -> Iterator[FileAction]:
    command = _unwrapped(command)
    program = command.program
    if program in _READERS or program in _SEARCHERS:
        yield from _reads(command)
    elif program.startswith("python") or program in {"ipython", "ipython3"}:
        yield from _python(command)
    elif program in _PROGRAMS:
        yield from _PROGRAMS[program](command)


def _unwrapped(command: Command) -> Command:
    """The command behind ``timeout 60`` or ``xargs``."""
    if command.program not in _WRAPPERS:
        return command
    rest = command.arguments
    while rest and (rest[0].startswith("-") or _NUMBER.fullmatch(rest[0])):
        rest = rest[1:]
    return replace(command, words=rest)


def _reads(command: Command) -> Iterator[FileAction]:
    files = _files(command)
    if command.program in _SEARCHERS and not command.has_option("-e", "-f"):
        files = files[1:]
    for path in files:
        yield FileAction(kind="read", path=path)


def _files(command: Command) -> list[str]:
    """Operands, without the values of short options."""
    valued = _WITH_VALUE.get(command.program, "")
    found: list[str] = []
    skip = False
    for word in command.arguments:
        if skip:
            skip = False
        elif word.startswith("-") and word != "-":
            skip = len(word) == 2 and word[1] in valued
        else:
            found.append(word)
    return found


def _python(command: Command) -> Iterator[FileAction]:
    words = command.arguments
    code = command.stdin or ""
    if "-c" in words[:-1]:
        code = words[words.index("-c") + 1]
    yield from code_actions(code)
    for line in code_commands(code):
        yield from command_actions(line)


def _sed(command: Command) -> Iterator[FileAction]:
    files = _sed_files(command)
    if not command.has_option("-i", "--in-place"):
        for path in files:
            yield FileAction(kind="read", path=path)
        return
    script = _sed_script(command)[:_LONGEST_SCRIPT]
    old = "\n".join(m["old"] for m in _SUBSTITUTE.finditer(script))
    new = [m["new"] for m in _SUBSTITUTE.finditer(script)]
    texts = [(m["verb"], m["text"]) for m in _LINE_TEXT.finditer(script)] if not new else []
    removes = bool(new) or any(verb == "c" for verb, _ in texts)
    removes = removes or _DELETE_LINES.search(script) is not None
    for path in files:
        yield FileAction(
            kind="edit",
            path=path,
            added="\n".join([*new, *(text for _, text in texts)]),
            removed=old,
            removes=removes,
        )


def _sed_script(command: Command) -> str:
    words = command.arguments
    scripts = [words[i + 1] for i, w in enumerate(words[:-1]) if w in {"-e", "--expression"}]
    return "\n".join(scripts) if scripts else next(iter(command.operands()), "")


def _sed_files(command: Command) -> list[str]:
    words = command.arguments
    given = {i + 1 for i, w in enumerate(words[:-1]) if w in {"-e", "--expression", "-f"}}
    rest = [w for i, w in enumerate(words) if i not in given and not w.startswith("-")]
    return rest if given else rest[1:]


def _perl(command: Command) -> Iterator[FileAction]:
    if command.has_option("-i") and command.has_option("-e"):
        for path in command.operands()[1:]:
            yield FileAction(kind="edit", path=path, added=command.operands()[0], removes=True)


def _rm(command: Command) -> Iterator[FileAction]:
    for path in command.operands():
        yield FileAction(kind="delete", path=path, removes=True)


def _mv(command: Command) -> Iterator[FileAction]:
    *sources, target = command.operands() or [""]
    for path in sources:
        yield FileAction(kind="move", path=path, target=_inside(target, path), removes=True)


def _cp(command: Command) -> Iterator[FileAction]:
    *sources, target = command.operands() or [""]
    for path in sources:
        yield FileAction(kind="read", path=path)
        yield FileAction(kind="write", path=_inside(target, path))


def _inside(target: str, path: str) -> str:
    """Where ``path`` lands: in ``target`` if that is written as a folder, else at ``target``."""
    return target + path.rpartition("/")[2] if target.endswith("/") else target


def _tee(command: Command) -> Iterator[FileAction]:
    kind = command.has_option("-a", "--append")
    for path in command.operands():
        yield FileAction(kind="edit" if kind else "write", path=path, added=command.stdin or "")


def _truncate(command: Command) -> Iterator[FileAction]:
    empties = any(map(_NO_SIZE.fullmatch, command.arguments))
    for path in command.operands():
        if not re.fullmatch(r"[+-]?\d+[KMG]?", path):
            yield FileAction(kind="write", path=path, removes=empties)


def _touch(command: Command) -> Iterator[FileAction]:
    for path in command.operands():
        yield FileAction(kind="edit", path=path)


def _mkdir(command: Command) -> Iterator[FileAction]:
    for path in command.operands():
        yield FileAction(kind="make-folder", path=path)


def _find(command: Command) -> Iterator[FileAction]:
    words = command.arguments
    deletes = "-delete" in words or ("-exec" in words and "rm" in words)
    for option in ("-name", "-path", "-iname"):
        if deletes and option in words[:-1]:
            name = words[words.index(option) + 1]
            yield FileAction(kind="delete", path=name, removes=True)


def _patch(command: Command) -> Iterator[FileAction]:
    yield from patch_actions(command.stdin or "\n".join(command.arguments))


def _git(command: Command) -> Iterator[FileAction]:
    words = [w for w in command.arguments if not w.startswith("--no-pager")]
    while len(words) > 1 and words[0] in {"-C", "-c"}:
        words = words[2:]
    inner = Command(words=words, stdin=command.stdin)
    verb, operands = inner.program, inner.operands()
    if verb == "rm":
        yield from _rm(inner)
    elif verb == "mv":
        yield from _mv(inner)
    elif verb == "apply" and command.stdin:
        yield from patch_actions(command.stdin)
    elif verb in {"checkout", "restore"}:
        yield from _checked_out(words[1:], operands)
    elif verb in {"show", "diff", "blame"}:
        for word in operands:
            _, colon, path = word.partition(":")
            yield FileAction(kind="read", path=path if colon else word)


def _checked_out(words: list[str], operands: list[str]) -> Iterator[FileAction]:
    """Files under version control: as they were, or, with a commit before, as they long were."""
    split = words.index("--") if "--" in words else len(words)
    revisions = [w.removeprefix("--source=").removeprefix("-s") for w in words[:split]]
    earlier = any(map(_EARLIER.fullmatch, revisions))
    for path in words[split + 1 :] if split < len(words) else operands:
        if earlier and not _EARLIER.fullmatch(path):
            yield FileAction(kind="edit", path=path, removes=True)
        elif not earlier:
            yield FileAction(kind="restore", path=path)


def patched_files(line: str, result: str) -> Iterator[FileAction]:
    """Files that ``patch`` says it changed, where the patch itself stands in another file.

    It says the same of a file that it makes, so this is a ``write``.

    >>> [a.path for a in patched_files("patch -p1 < x.diff", "patching file tests/test_a.py")]
    ['tests/test_a.py']
    """
    ran = [command for command in commands(line) if command.program == "patch"]
    if ran and not any(command.stdin or command.has_option("--dry-run") for command in ran):
        for match in _PATCHED.finditer(result):
            yield FileAction(kind="write", path=match["path"])


_PROGRAMS: dict[str, Callable[[Command], Iterator[FileAction]]] = {
    "sed": _sed,
    "perl": _perl,
    "rm": _rm,
    "unlink": _rm,
    "shred": _rm,
    "mv": _mv,
    "cp": _cp,
    "tee": _tee,
    "truncate": _truncate,
    "touch": _touch,
    "mkdir": _mkdir,
    "find": _find,
    "patch": _patch,
    "apply_patch": _patch,
    "git": _git,
}
