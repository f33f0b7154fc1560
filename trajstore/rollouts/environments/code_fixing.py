"""Code fixing: an agent reads a module with a bug, edits it, and runs tests in a sandbox."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from trajstore.rollouts.environment import (
    Action,
    Observed,
    Outcome,
    Task,
    Tool,
    Transition,
    function_tool,
)
from trajstore.rollouts.environments.code_exercise import TESTS, Exercise
from trajstore.rollouts.environments.code_verdict import Verdict, code_sandbox, judge
from trajstore.rollouts.environments.tool_calls import (
    BadCallError,
    call_arguments,
    text_argument,
)
from trajstore.rollouts.sandbox import Sandbox
from trajstore.schema import Observation, ToolCall

MAX_FILES = 30
"""Files that there may be at most."""
MAX_FILE_BYTES = 64 << 10
"""Bytes that a file may have at most."""

MAX_PATH = 200
"""Characters that a path may have at most."""

_SYSTEM = (
    "Mend the code. Read files with read_file, change them with edit_file, check them with "
    "run_tests, and end with finish. The tests cannot be changed, and other tests than those that "
    "you see decide."
)
_REMARK = "No tool was called. Call finish when the code is right."
_PRINTED = 2000
_TOOLS: tuple[Tool, ...] = (
    function_tool(
        "read_file",
        "Read a file.",
        {"path": {"type": "string", "description": "Path of the file, as listed."}},
    ),
    function_tool(
        "edit_file",
        "Replace a piece of text in a file, or write a whole file.",
        {
            "path": {"type": "string", "description": "Path of the file."},
            "old": {
                "type": "string",
                "description": "The text to replace; it must occur exactly once. Empty: the whole "
                "file is replaced, or made if it is not there.",
            },
            "new": {"type": "string", "description": "The text to put there."},
        },
    ),
    function_tool("run_tests", "Run the visible tests.", {}),
    function_tool("finish", "Say that the work is done. Ends the task.", {}),
)


class CodeFixingEnvironment:
    """One agent at one exercise; see :func:`code_tasks` for the exercises.

    The agent's files are held in memory and put into a fresh sandbox for every run, read-only, so
    nothing that runs can change a file. The reward is 1 where the code as it stands passes every
    visible and hidden case in a fresh process, and 0 otherwise, whether or not ``finish`` was
    called. How the verdict is kept from being forged is said in ``code_verdict``.
    """

    name = "code-fixing"
    version = "1"
    system_prompt = _SYSTEM

    def __init__(self, *, sandbox: Sandbox | None = None, allow_unisolated: bool = False) -> None:
        """Look for a sandbox; there is no task yet.

        Args:
            sandbox: where code runs; that of :func:`code_sandbox` where None.
            allow_unisolated: run code also where this machine cannot keep it from network and
                files. It could then read the solutions, so the reward is not to be trusted.

        Raises:
            SandboxError: code cannot be locked in on this machine, and that is not allowed for.
        """
        self._sandbox = sandbox or code_sandbox(allow_unisolated=allow_unisolated)
        self._exercise: Exercise | None = None
        self._files: dict[str, str] = {}
        self._finished = False
        self._refused = 0
        self._judged: tuple[dict[str, str], Verdict] | None = None

    @property
    def tools(self) -> Sequence[Tool]:
        """read_file, edit_file, run_tests and finish."""
        return _TOOLS

    @property
    def files(self) -> Mapping[str, str]:
        """The files as they stand, the visible tests among them."""
        return dict(self._files)

    def reset(self, task: Task) -> Observed:
        """Begin an exercise.

        Raises:
            ValueError: the answer of the task is no exercise.
        """
        self._exercise = Exercise.from_text(task.answer or "")
        tests = {self._exercise.test_path: self._exercise.test_file()}
        self._files = dict(self._exercise.files) | tests
        self._finished, self._refused, self._judged = False, 0, None
        listed = "\n".join(sorted(self._files))
        return Observed(text=f"{task.goal}\n\nFiles:\n{listed}", state=self._state())

    def step(self, action: Action) -> Transition:
        """Carry out the calls in order; those after ``finish`` are refused."""
        if not action.tool_calls:
            return Transition(observation=Observed(text=_REMARK, state=self._state()))
        results = tuple(self._result(call) for call in action.tool_calls)
        reward = self.outcome().reward if self._finished else 0.0
        return Transition(
            observation=Observed(results=results, state=self._state()),
            reward=reward or 0.0,
            terminated=self._finished,
        )

    def outcome(self) -> Outcome:
        """Whether the code as it stands passes every visible and hidden case.

        Of the named rewards, ``visible_passed`` and ``hidden_passed`` are shares from 0 to 1, and
        ``tampering`` is 1 where the agent tried to change a test. They are no part of the reward.
        """
        if self._exercise is None:
            return Outcome()
        verdict = self._verdict(self._exercise)
        visible = len(self._exercise.visible)
        return Outcome(
            success=verdict.ok,
            reward=float(verdict.ok),
            rewards={
                "solved": float(verdict.ok),
                "visible_passed": _share(verdict.failures[:visible]),
                "hidden_passed": _share(verdict.failures[visible:]),
                "finished": float(self._finished),
                "tampering": float(self._refused > 0),
            },
        )

    def close(self) -> None:
        """Nothing to let go of: every sandbox ended with its run."""

    def _verdict(self, exercise: Exercise) -> Verdict:
        """The verdict over the present files; worked out once for the same files."""
        if self._judged is None or self._judged[0] != self._files:
            cases = (*exercise.visible, *exercise.hidden)
            verdict = judge(self._sandbox, exercise.module, self._files, cases)
            self._judged = (dict(self._files), verdict)
        return self._judged[1]

    def _state(self) -> dict[str, Any]:
        return {"files": sorted(self._files)}

    def _result(self, call: ToolCall) -> Observation:
        try:
            return Observation(call_id=call.call_id, text=self._call(call), is_error=False)
        except BadCallError as error:
            return Observation(call_id=call.call_id, text=f"error: {error}", is_error=True)

    def _call(self, call: ToolCall) -> str:
        assert self._exercise is not None
        if self._finished:
            raise BadCallError("the task has ended: finish was called before")
        arguments = call_arguments(call, _TOOLS)
        if call.name == "read_file":
            return self._read(text_argument(arguments, "path"))
        if call.name == "edit_file":
            return self._edit(*(text_argument(arguments, n) for n in ("path", "old", "new")))
        if call.name == "run_tests":
            return self._run_tests(self._exercise)
        self._finished = True
        return "The work was handed in."

    def _read(self, path: str) -> str:
        name = _path(path)
        if name not in self._files:
            message = f"there is no file '{path}'; the files are {', '.join(sorted(self._files))}"
            raise BadCallError(message)
        return self._files[name]

    def _edit(self, path: str, old: str, new: str) -> str:
        name = _path(path)
        if name == TESTS.rstrip("/") or name.startswith(TESTS):
            self._refused += 1
            raise BadCallError(f"'{path}' is part of the tests, and those are read-only")
        if old:
            text = self._read(path)
            found = text.count(old)
            if found != 1:
                message = f"the text to replace occurs {found} times in '{path}', not once"
                raise BadCallError(message)
            new = text.replace(old, new)
        elif name not in self._files and len(self._files) >= MAX_FILES:
            raise BadCallError(f"there are {MAX_FILES} files already, and no more may be made")
        self._check(name, new)
        self._files[name] = new
        return f"'{name}' was changed."

    def _check(self, name: str, text: str) -> None:
        if any(n.startswith(f"{name}/") or name.startswith(f"{n}/") for n in self._files):
            raise BadCallError(f"'{name}' cannot be a file and a folder at once")
        if len(text.encode("utf-8", "backslashreplace")) > MAX_FILE_BYTES:
            raise BadCallError(f"a file may have {MAX_FILE_BYTES:,} bytes at most")

    def _run_tests(self, exercise: Exercise) -> str:
        verdict = judge(self._sandbox, exercise.module, self._files, exercise.visible)
        lines = [
            f"test_{number}: ok" if failure is None else f"test_{number}: FAILED: {failure}"
            for number, failure in enumerate(verdict.failures, 1)
        ]
        lines.append(f"{verdict.passed} of {len(verdict.failures)} tests passed.")
        if verdict.printed.strip():
            lines.append(f"The code printed:\n{verdict.printed.strip()[:_PRINTED]}")
        return "\n".join(lines)


def _share(failures: Sequence[str | None]) -> float:
    return sum(f is None for f in failures) / len(failures) if failures else 1.0


def _path(path: str) -> str:
    """The path inside the folder of the exercise, in its one spelling."""
    pure = PurePosixPath(path)
    bad = pure.is_absolute() or ".." in pure.parts or not pure.parts or "\\" in path
    if bad or not (path.isascii() and path.isprintable()) or len(path) > MAX_PATH:
        message = f"the path '{path[:MAX_PATH]}' must be relative, plain and stay in the folder"
        raise BadCallError(message)
    return str(pure)
