"""One code exercise: files with a bug, and the cases that its tests consist of."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trajstore.schema import canonical_json

TESTS = "tests/"
"""Folder of the visible tests; nothing in it can be changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of a case, and what it must bring.

    Values are JSON: None, bool, int, float, str, lists, and dicts with string keys.
    """

    name: str
    """A function or class of the module, or ``.method`` of the object made last."""
    arguments: tuple[Any, ...] = ()
    """Positional arguments."""
    expected: Any = None
    """What it returns. Not compared where a class is called."""
    raises: str | None = None
    """Name of the exception that it raises instead."""


Case = tuple[Call, ...]
"""Calls in order, over one and the same object where they make one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exercise:
    """What an agent is to mend, and how that is checked."""

    module: str
    """Name of the module under test: the file ``module.py``."""
    files: Mapping[str, str]
    """Text by path: the module, and whatever else the agent finds there."""
    visible: tuple[Case, ...]
    """Cases of the tests that the agent can read and run."""
    hidden: tuple[Case, ...]
    """Cases that only the verdict knows."""

    def to_text(self) -> str:
        """The exercise as JSON, for the answer of a task."""
        return canonical_json(
            {
                "module": self.module,
                "files": dict(self.files),
                "visible": [[_written(c) for c in case] for case in self.visible],
                "hidden": [[_written(c) for c in case] for case in self.hidden],
            }
        )

    @classmethod
    def from_text(cls, text: str) -> Exercise:
        """The exercise back from :meth:`to_text`.

        Raises:
            ValueError: the text is something else.
        """
        try:
            value = json.loads(text)
            return cls(
                module=value["module"],
                files=value["files"],
                visible=tuple(_case(c) for c in value["visible"]),
                hidden=tuple(_case(c) for c in value["hidden"]),
            )
        except (ValueError, KeyError, TypeError) as error:
            message = f"the answer is no code exercise ({error!r}); see Exercise.to_text"
            raise ValueError(message) from error

    @property
    def test_path(self) -> str:
        """Path of the visible tests."""
        return f"{TESTS}test_{self.module}.py"

    def test_file(self) -> str:
        """The visible cases as a module of ``unittest``."""
        blocks = [_rendered(self.module, n, c) for n, c in enumerate(self.visible, 1)]
        head = f"import unittest\n\nimport {self.module}\n\n\nclass Tests(unittest.TestCase):\n"
        return head + "\n".join(blocks)


def _written(call: Call) -> dict[str, Any]:
    what: dict[str, Any] = {"call": call.name, "arguments": list(call.arguments)}
    return what | ({"expected": call.expected} if call.raises is None else {"raises": call.raises})


def _case(calls: Sequence[Mapping[str, Any]]) -> Case:
    return tuple(
        Call(
            name=c["call"],
            arguments=tuple(c["arguments"]),
            expected=c.get("expected"),
            raises=c.get("raises"),
        )
        for c in calls
    )


def spelled(call: Call) -> str:
    """The call as in Python, without the module: ``median([3, 1, 2])``."""
    return f"{call.name.removeprefix('.')}({', '.join(map(repr, call.arguments))})"


def _rendered(module: str, number: int, case: Case) -> str:
    lines = [f"    def test_{number}(self):"]
    for call in case:
        made = call.name[0].isupper()
        code = f"made{call.name}({spelled(call).partition('(')[2]}"
        if not call.name.startswith("."):
            code = f"{module}.{spelled(call)}"
        if call.raises is not None:
            name = call.raises if call.raises in _BUILT_IN else f"{module}.{call.raises}"
            lines += [f"        with self.assertRaises({name}):", f"            {code}"]
        elif made:
            lines.append(f"        made = {code}")
        else:
            lines.append(f"        self.assertEqual({code}, {call.expected!r})")
    return "\n".join(lines) + "\n"


_BUILT_IN = frozenset({"ValueError", "KeyError", "IndexError", "TypeError", "ZeroDivisionError"})
