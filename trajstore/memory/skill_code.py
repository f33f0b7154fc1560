"""What the code of a skill says: its name, signature, docstring, and which skills it calls.

Python is parsed. Of every other language comments and strings are taken out, and an identifier
that stands before a parenthesis, and after no dot, is a call. That finds what C-like languages
(JavaScript, TypeScript, Java, Go, ...) call; code that calls through a variable is not seen.
"""

from __future__ import annotations

import ast
import builtins
import keyword
import re
from collections.abc import Collection

from trajstore.errors import SkillError

PYTHON = "python"
"""The language that is parsed, and run without a command."""

_NAME = re.compile(r"[A-Za-z_$][\w$]*", re.ASCII)
_NO_CODE = re.compile(
    r"""/\*.*?\*/|//[^\n]*|\#[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.DOTALL
)
_CALLED = re.compile(r"(?<![.\w$])([A-Za-z_$][\w$]*)\s*\(", re.ASCII)
_DEFINED = re.compile(
    r"\b(?:function|func|fn|def|fun|class)\s+([A-Za-z_$][\w$]*)"
    r"|\b(?:const|let|var)\s+([A-Za-z_$][\w$]*)\s*=",
    re.ASCII,
)


def check_name(name: str, language: str) -> None:
    """Check that a name can be the name of a skill.

    Raises:
        SkillError: it is no identifier, or Python has something else by that name.
    """
    if not _NAME.fullmatch(name):
        raise SkillError(f"A skill is called like a function; {name!r} is no identifier.")
    taken = keyword.iskeyword(name) or hasattr(builtins, name)
    if language == PYTHON and (taken or name.startswith("__") or not name.isidentifier()):
        raise SkillError(f"A Python skill cannot be called {name!r}: Python has that name.")


def problem_of(name: str, code: str, language: str) -> str | None:
    """What is wrong with code before it is run, in words for its author; None if nothing is."""
    if language != PYTHON:
        if name in _defined(code):
            return None
        return f"The code defines no function called {name!r}."
    try:
        compile(code, f"{name}.py", "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        place = f" (line {error.lineno})" if isinstance(error, SyntaxError) else ""
        return f"The code does not compile: {error}{place}"
    if name not in top_names(code, language):
        return f"The code defines no function called {name!r} at its top level."
    return None


def signature_of(name: str, code: str, language: str) -> str | None:
    """How the skill is called: the head of its function, or None where it is not found."""
    if language == PYTHON:
        function = _function(name, code)
        if function is None:
            return None
        returns = f" -> {ast.unparse(function.returns)}" if function.returns else ""
        kind = "async def" if isinstance(function, ast.AsyncFunctionDef) else "def"
        return f"{kind} {name}({ast.unparse(function.args)}){returns}"
    found = re.search(rf"(?:async\s+)?function\s+{re.escape(name)}\s*\([^)]*\)", code)
    return found[0] if found else None


def docstring_of(name: str, code: str, language: str) -> str | None:
    """What a Python function says of itself; None for other languages."""
    function = _function(name, code) if language == PYTHON else None
    return None if function is None else ast.get_docstring(function)


def called_skills(name: str, code: str, language: str, known: Collection[str]) -> tuple[str, ...]:
    """Names of known skills that the code uses, in the order in which they first appear.

    A name that the code defines itself is its own, and a skill that calls itself depends on
    nothing.

    Args:
        name: the skill's own name.
        code: its code; code that does not parse uses nothing.
        language: decides how it is read.
        known: names of the skills there are.
    """
    if language == PYTHON:
        used, own = _python_names(code)
    else:
        used, own = _CALLED.findall(_NO_CODE.sub(" ", code)), _defined(code)
    wanted = (n for n in used if n in known and n != name and n not in own)
    return tuple(dict.fromkeys(wanted))


def top_names(code: str, language: str) -> set[str]:
    """Names that the code defines for whatever is loaded beside it.

    Of other languages than Python these are the definitions outside all braces.
    """
    if language != PYTHON:
        return _defined(_outside(code))
    names: set[str] = set()
    for node in ast.parse(code).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            names |= {n.id for n in ast.walk(node) if _stored(n)}  # type: ignore[attr-defined]
    return names


def _defined(code: str) -> set[str]:
    return {a or b for a, b in _DEFINED.findall(_NO_CODE.sub(" ", code))}


def _outside(code: str) -> str:
    """The code without what stands between braces."""
    depth, kept = 0, []
    for part in re.split(r"([{}])", _NO_CODE.sub(" ", code)):
        if part in {"{", "}"}:
            depth = max(0, depth + (1 if part == "{" else -1))
        elif not depth:
            kept.append(part)
    return " ".join(kept)


def _function(name: str, code: str) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    try:
        body = ast.parse(code).body
    except (SyntaxError, ValueError):
        return None
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    return next((n for n in body if isinstance(n, kinds) and n.name == name), None)


def _python_names(code: str) -> tuple[list[str], set[str]]:
    """Names that are read, in order, and names that are bound anywhere in the code."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError):
        return [], set()
    used: list[ast.Name] = []
    own: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Load):
                used.append(node)
            else:
                own.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            own.add(node.name)
        elif isinstance(node, ast.arg):
            own.add(node.arg)
        elif isinstance(node, ast.alias):
            own.add((node.asname or node.name).partition(".")[0])
    used.sort(key=lambda n: (n.lineno, n.col_offset))
    return [n.id for n in used], own


def _stored(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
