"""Whether code passes cases: it runs in the sandbox, and what it answers is compared out here.

The code under test shares no process with what judges it. Inside, a fresh process gets the calls
and nothing else: no expected value, no other test, no file that could hold one. Only the right
answers to questions whose answers it has not seen make a case pass, so there is nothing to forge.
"""

from __future__ import annotations

import json
import math
import site
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from trajstore.rollouts.environments.code_exercise import TESTS, Call, Case, spelled
from trajstore.rollouts.sandbox import Sandbox, SandboxLimits

LIMITS = SandboxLimits(
    wall_s=8.0,
    cpu_s=5,
    memory_bytes=256 << 20,
    processes=8,
    disk_bytes=8 << 20,
    output_bytes=1 << 20,
)
"""What one run of tests may take."""

_LONGEST = 200
_FLOATS = 1e300  # a whole number above it has no float to compare
_PACKAGE = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What became of each case, and of the run."""

    failures: tuple[str | None, ...]
    """For each case why it failed, None where it passed."""
    printed: str
    """What the code wrote to stdout and stderr."""
    ended: str | None
    """How the run ended, where that was not of its own accord."""

    @property
    def passed(self) -> int:
        """Number of cases that passed."""
        return sum(f is None for f in self.failures)

    @property
    def ok(self) -> bool:
        """Whether every case passed and the run ended of its own accord."""
        return bool(self.failures) and self.ended is None and self.passed == len(self.failures)


def code_sandbox(*, limits: SandboxLimits = LIMITS, allow_unisolated: bool = False) -> Sandbox:
    """A sandbox with Python's standard library and no installed package.

    trajstore itself is hidden: exercises are made from its source, which knows every solution.

    Args:
        limits: what one run of tests may take.
        allow_unisolated: as for :class:`~trajstore.rollouts.Sandbox`; nothing is hidden then.

    Raises:
        SandboxError: code cannot be locked in on this machine, and that is not allowed for.
    """
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    found = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *site.getsitepackages()]
    for prefix in {sys.base_prefix, "/usr", "/usr/local"}:
        found += [f"{prefix}/lib/{version}/site-packages", f"{prefix}/lib/{version}/dist-packages"]
        found.append(f"{prefix}/lib/python3/dist-packages")
    hidden = [*found, str(_PACKAGE)]
    return Sandbox(limits=limits, hidden=hidden, allow_unisolated=allow_unisolated)


def judge(
    sandbox: Sandbox, module: str, files: Mapping[str, str], cases: Sequence[Case]
) -> Verdict:
    """Put cases to a module in a fresh process.

    Args:
        sandbox: where the code runs; see :func:`code_sandbox`.
        module: name of the module.
        files: text by path. Tests are left out: they are not what decides.
        cases: what to ask. No ``expected`` of them leaves this process.
    """
    calls = [[{"call": c.name, "arguments": c.arguments} for c in case] for case in cases]
    given = {f"code/{p}": t for p, t in files.items() if not p.startswith(TESTS)}
    ran = sandbox.run_python(
        _guest(),
        arguments=["{given}/code"],
        files=given,
        stdin=json.dumps({"module": module, "cases": calls}),
    )
    said = _read(ran.stdout)
    ended = None if ran.ok else ran.why
    missing = said.get("failed") or f"no answer: {ended or 'the program ended early'}"
    failures = tuple(
        _failure(case, said.get(number), str(missing)) for number, case in enumerate(cases)
    )
    return Verdict(failures=failures, printed=ran.stderr, ended=ended)


@cache
def _guest() -> str:
    return Path(__file__).with_name("code_guest.py").read_text(encoding="utf-8")


def _read(text: str) -> dict[int | str, Any]:
    """Answers by number of the case, and why the module cannot be imported under ``failed``.

    What is no answer is passed over: the code under test may write to the channel as well, and
    gains nothing by it.
    """
    said: dict[int | str, Any] = {}
    for line in text.splitlines():
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if not isinstance(value, dict):
            continue
        if type(value.get("case")) is int:
            said.setdefault(value["case"], value.get("answers"))
        elif isinstance(value.get("failed"), str):
            said.setdefault("failed", f"the module cannot be imported: {value['failed']}")
    return said


def _failure(case: Case, answers: Any, missing: str) -> str | None:
    if answers is None:
        return missing
    if not isinstance(answers, list) or len(answers) != len(case):
        return "the answer cannot be read"
    for call, answer in zip(case, answers, strict=True):
        wrong = _wrong(call, answer if isinstance(answer, dict) else {})
        if wrong is not None:
            return f"{spelled(call)} {wrong}"
    return None


def _wrong(call: Call, answer: Mapping[str, Any]) -> str | None:
    wanted = f"expected {call.expected!r}" if call.raises is None else f"expected {call.raises}"
    if "raised" in answer:
        if call.raises is not None and answer["raised"] == call.raises:
            return None
        return f"raised {str(answer.get('message'))[:_LONGEST]}, {wanted}"
    if "value" not in answer:
        return "gave no answer"
    value = answer["value"]
    if call.raises is None and (call.name[0].isupper() or _same(value, call.expected)):
        return None
    return f"gave {_shown(value)}, {wanted}"


def _shown(value: Any) -> str:
    named = isinstance(value, dict) and set(value) == {"is", ""}
    try:
        text = str(value[""]) if named else repr(value)
    except RecursionError:
        text = "something nested too deep to show"
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "..."


def _same(value: Any, expected: Any) -> bool:
    """Equality of JSON values as Python has it, floats up to rounding."""
    if isinstance(expected, list):
        return (
            isinstance(value, list)
            and len(value) == len(expected)
            and all(map(_same, value, expected))
        )
    if isinstance(expected, dict):
        return (
            isinstance(value, dict)
            and value.keys() == expected.keys()
            and all(_same(value[k], e) for k, e in expected.items())
        )
    if isinstance(expected, float) and isinstance(value, int | float):
        return abs(value) < _FLOATS and math.isclose(value, expected, rel_tol=1e-9, abs_tol=1e-12)
    return bool(value == expected)
