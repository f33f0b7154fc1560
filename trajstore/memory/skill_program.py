"""The code of several skills as one text, in which no name hides another."""

from __future__ import annotations

import ast
import symtable
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from trajstore.errors import SkillError
from trajstore.memory.skill_code import PYTHON, top_names
from trajstore.memory.skill_row import StoredSkill, name_of

_ANOTHER = ""


@dataclass(frozen=True, slots=True)
class _Names:
    """Names of the code of one skill that reach beyond it."""

    bound: Mapping[str, str]
    """What it binds for whatever stands beside it, with the import where it is nothing else."""
    read: frozenset[str]
    """What it looks up there or in Python's builtins."""


def program_of(skills: Iterable[StoredSkill]) -> str:
    """The code of skills, one after another: what a prompt gets.

    Where a name in the code of one of them, such as a helper's, would hide a name of another,
    the code stands inside a function that gives back the skill alone, so each keeps its own.

    Args:
        skills: skills, each behind everything that it calls.

    Raises:
        SkillError: two names meet in code that cannot stand inside a function (it declares
            ``global``, imports ``*``, is not Python), or that has to stand first in a file; or
            they are versions of one skill.
    """
    return "\n\n".join(parts_of(skills))


def parts_of(skills: Iterable[StoredSkill]) -> list[str]:
    """The text of each of some skills in one program; see :func:`program_of`.

    Raises:
        SkillError: as there.
    """
    listed = list(skills)
    if len(listed) == 1:
        return [listed[0].code]
    known = {s.name: s for s in listed}
    twice = next((s for s in listed if known[s.name] is not s), None)
    if twice is not None:
        message = f"{twice.skill_id} and {known[twice.name].skill_id} cannot be in one program."
        raise SkillError(message)
    late = next((s for s in listed[1:] if _has_future(s)), None)
    if late is not None:
        message = (
            f"The code of {late.skill_id} has a 'from __future__' import, which has to stand first "
            "in a file, so it can stand behind no other skill."
        )
        raise SkillError(message)
    names = [_names(s) for s in listed]
    taken = {n for one in names for n in (*one.bound, *one.read)}
    parts = []
    for at, skill in enumerate(listed):
        clash = _clash(at, listed, names)
        parts.append(skill.code if clash is None else _apart(skill, *clash, taken))
    return parts


def _clash(
    at: int, skills: Sequence[StoredSkill], names: Sequence[_Names]
) -> tuple[str, StoredSkill] | None:
    """A name of one skill's code that would hide one of another, and that skill."""
    mine = {n: said for n, said in names[at].bound.items() if n != skills[at].name}
    for other, theirs in zip(skills, names, strict=True):
        if other is skills[at] or other.language != skills[at].language:
            continue
        for name in sorted(mine):
            met = theirs.bound.get(name)
            if name == "*" or (met is None and name in theirs.read):
                return name, other
            if met is not None and (met == _ANOTHER or met != mine[name]):
                return name, other
    return None


def _apart(skill: StoredSkill, name: str, other: StoredSkill, taken: set[str]) -> str:
    """The code inside a function."""
    inside = None if skill.language != PYTHON else _indented(skill.code)
    if inside is None:
        what = "What it imports by '*'" if name == "*" else f"{name!r}, which it defines,"
        message = (
            f"The code of {skill.skill_id} cannot stand beside {other.skill_id}: {what} would hide "
            "names of the other. Rename it, or put it inside the function."
        )
        raise SkillError(message)
    wrapper = f"_make_{skill.name}"
    while wrapper in taken:
        wrapper = f"_{wrapper}"
    return (
        f"def {wrapper}():  # keeps {name!r} apart from that of {other.name}\n{inside}\n"
        f"    return {skill.name}\n\n\n{skill.name} = {wrapper}()\n"
    )


def _indented(code: str) -> str | None:
    """Code as the body of a function; None where it would mean something else there."""
    tree = ast.parse(code)
    if any(isinstance(n, ast.Global) or _is_star(n) or _is_future(n) for n in ast.walk(tree)):
        return None
    strings = {
        row
        for n in ast.walk(tree)
        if isinstance(n, ast.JoinedStr) or (isinstance(n, ast.Constant) and n.end_lineno)
        for row in range(n.lineno + 1, (n.end_lineno or n.lineno) + 1)
    }
    lines = code.rstrip().split("\n")
    text = "\n".join(
        line if row in strings or not line.strip() else f"    {line}"
        for row, line in enumerate(lines, start=1)
    )
    try:
        (function,) = ast.parse(f"def f():\n{text}\n").body
    except (SyntaxError, ValueError):
        return None
    assert isinstance(function, ast.FunctionDef)
    same = ast.dump(ast.Module(function.body, [])) == ast.dump(ast.Module(tree.body, []))
    return text if same else None


def _names(skill: StoredSkill) -> _Names:
    if skill.language != PYTHON:
        return _Names(dict.fromkeys(top_names(skill.code, skill.language), _ANOTHER), frozenset())
    try:
        tree, table = ast.parse(skill.code), symtable.symtable(skill.code, skill.name, "exec")
    except (SyntaxError, ValueError):
        return _Names({}, frozenset())
    bound, read = set(), set()
    for scope in _scopes(table):
        for symbol in scope.get_symbols():
            name, binds = symbol.get_name(), symbol.is_assigned() or symbol.is_imported()
            if (scope is table or symbol.is_declared_global()) and binds:
                bound.add(name)
            elif symbol.is_referenced() and symbol.is_global():
                read.add(name)
    imports = _imports(tree)
    only = {n for n in bound if n in imports and not table.lookup(n).is_assigned()}
    said = {n: imports[n] if n in only else _ANOTHER for n in bound}
    if any(map(_is_star, ast.walk(tree))):
        said["*"] = _ANOTHER
    calls = set(map(name_of, skill.dependencies))
    return _Names(said, frozenset(read - bound - calls))


def _scopes(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield table
    for child in table.get_children():
        yield from _scopes(child)


def _imports(tree: ast.Module) -> dict[str, str]:
    """Name -> the imports that bind it, in one text."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            where = node.module if isinstance(node, ast.ImportFrom) else None
            for alias in node.names:
                name = alias.asname or alias.name.partition(".")[0]
                found.setdefault(name, set()).add(f"{where} {alias.name} {alias.asname}")
    return {name: "; ".join(sorted(said)) for name, said in found.items()}


def _has_future(skill: StoredSkill) -> bool:
    if skill.language != PYTHON:
        return False
    try:
        return any(map(_is_future, ast.parse(skill.code).body))
    except (SyntaxError, ValueError):
        return False


def _is_future(node: ast.AST) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def _is_star(node: ast.AST) -> bool:
    return isinstance(node, ast.ImportFrom) and node.names[0].name == "*"
