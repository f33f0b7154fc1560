"""Run code that nobody has read: no network, no files but its own, limits that hold.

Skills are verified here and environments run an agent's code here. What the sandbox keeps in and
what it does not is on the page ``docs/design/0007-sandbox.md``.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from trajstore.errors import SandboxError
from trajstore.rollouts.sandbox_isolation import Isolation, find_isolation
from trajstore.rollouts.sandbox_process import Ended, Job, run_job

Limit = Literal["wall", "cpu", "memory", "processes"]
"""Which limit ended a run."""

FOLDER = "/box"
"""The working folder, as a command inside sees it."""

GIVEN = "/given"
"""The folder of the read-only files, as a command inside sees it."""

_SIGXCPU = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxLimits:
    """What a run may take."""

    wall_s: float = 10.0
    """Seconds from start to end."""
    cpu_s: int = 10
    """Seconds of CPU time of any one process."""
    memory_bytes: int = 512 << 20
    """Memory of all processes together; one process cannot even reserve more."""
    processes: int = 32
    """Processes and threads at once, the command counted."""
    disk_bytes: int = 64 << 20
    """Bytes of the working folder, of the temporary folder, and of any one file."""
    output_bytes: int = 64 << 10
    """Bytes of stdout and of stderr that are kept: the beginning and the end of each."""

    def __post_init__(self) -> None:
        """Check that every limit is above zero.

        Raises:
            SandboxError: one is not.
        """
        for name in ("wall_s", "cpu_s", "memory_bytes", "processes", "disk_bytes", "output_bytes"):
            if getattr(self, name) <= 0:
                raise SandboxError(f"The limit {name} must be above 0, not {getattr(self, name)}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxResult:
    """What became of a run."""

    exit_code: int | None
    """Exit code of the command; None where a signal or a limit ended it."""
    signal: int | None
    """Number of the signal that ended it, where one did."""
    limit: Limit | None
    """The limit that ended it, where one did."""
    stdout: str
    """What it wrote; bytes that are no UTF-8 are written as escapes."""
    stderr: str
    """What it wrote to stderr."""
    cut_bytes: int
    """Bytes of output that are not shown; a line in the middle says so."""
    wall_s: float
    """Seconds it took."""
    cpu_s: float
    """Seconds of CPU time."""
    memory_bytes: int
    """Most memory seen at once."""
    isolation: Isolation
    """How it was locked in."""

    @property
    def ok(self) -> bool:
        """Whether the command ended by itself with exit code 0."""
        return self.exit_code == 0

    @property
    def why(self) -> str:
        """How it ended, in a few words."""
        if self.limit is not None:
            return f"stopped at the limit: {self.limit}"
        if self.signal is not None:
            return f"ended by signal {self.signal}"
        return f"exit code {self.exit_code}"


class Sandbox:
    """A place where commands run that must not reach anything; every run starts afresh.

    Inside, a command sees the system's programs and libraries, the interpreter, read-only files
    that it is given, an empty working folder and an empty temporary folder, both in memory. It has
    no network, not even loopback to the outside; the environment holds what ``env`` says and
    nothing else; at the end everything that it started is killed. One object may be used by
    several threads.
    """

    def __init__(
        self,
        *,
        limits: SandboxLimits | None = None,
        env: Mapping[str, str] | None = None,
        readable: Sequence[str | Path] = (),
        hidden: Sequence[str | Path] = (),
        allow_unisolated: bool = False,
    ) -> None:
        """Look for a way to lock commands in.

        Args:
            limits: what a run may take.
            env: environment variables, beside PATH, HOME, TMPDIR and LANG.
            readable: further files and folders of this machine to show, read-only.
            hidden: folders that would be shown, as parts of the interpreter's, and are empty
                instead. Without isolation nothing can be hidden.
            allow_unisolated: where this machine offers no isolation, run with limits alone: the
                code can then use the network, and read and write whatever this user can.

        Raises:
            SandboxError: there is no isolation here, and ``allow_unisolated`` is False.
        """
        self.limits = limits or SandboxLimits()
        self.isolation: Isolation = find_isolation(allow_unisolated=allow_unisolated)
        self._env = dict(env or {})
        self._readable = [str(Path(p).absolute()) for p in readable]
        self._hidden = sorted({str(p) for p in (Path(h).resolve() for h in hidden) if p.is_dir()})

    def run(
        self,
        command: Sequence[str],
        *,
        files: Mapping[str, str | bytes] | None = None,
        folder: str | Path | None = None,
        stdin: str | bytes = b"",
        limits: SandboxLimits | None = None,
    ) -> SandboxResult:
        """Run a command.

        Args:
            command: the program and its arguments. ``{given}`` and ``{folder}`` in them stand for
                the folders of the read-only files and of the work.
            files: read-only files by relative path, under :data:`GIVEN`.
            folder: a folder of this machine to work in instead of a private one; it is writable
                inside and keeps what was written. A caller who is root hands it to user 65534.
            stdin: what the command can read.
            limits: in place of the sandbox's own.

        Raises:
            SandboxError: the command could not be started, or a path leads out.
        """
        job = Job(
            command=tuple(command),
            files={_inside(n): _bytes(c) for n, c in (files or {}).items()},
            folder=None if folder is None else str(Path(folder).resolve(strict=True)),
            stdin=_bytes(stdin),
            env=self._env,
            readable=tuple(self._readable),
            hidden=tuple(self._hidden),
        )
        ended = run_job(job, limits or self.limits, self.isolation)
        return _result(ended, self.isolation)

    def run_python(
        self,
        code: str,
        *,
        arguments: Sequence[str] = (),
        files: Mapping[str, str | bytes] | None = None,
        folder: str | Path | None = None,
        stdin: str | bytes = b"",
        limits: SandboxLimits | None = None,
    ) -> SandboxResult:
        """Run Python code with the interpreter, and the packages, that this process has.

        Args:
            code: the program; tracebacks call it ``main.py``.
            arguments: what it finds in ``sys.argv``, placeholders as in :meth:`run`.
            files: as in :meth:`run`; Python does not import from there by itself.
            folder: as in :meth:`run`.
            stdin: as in :meth:`run`.
            limits: as in :meth:`run`.
        """
        command = (sys.executable, "-I", "-B", "{given}/main.py", *arguments)
        every = {**(files or {}), "main.py": code}
        return self.run(command, files=every, folder=folder, stdin=stdin, limits=limits)


def _bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("utf-8", "backslashreplace")


def _inside(name: str) -> str:
    parts = Path(name).parts
    if not parts or Path(name).is_absolute() or ".." in parts:
        message = f"The file name {name!r} must be a relative path that stays in its folder."
        raise SandboxError(message)
    return name


def _result(ended: Ended, isolation: Isolation) -> SandboxResult:
    code = ended.code
    number = -code if code is not None and code < 0 else None
    limit: Limit | None = "cpu" if number == _SIGXCPU else ended.limit
    return SandboxResult(
        exit_code=code if code is not None and code >= 0 else None,
        signal=number,
        limit=limit,
        stdout=ended.stdout.text(),
        stderr=ended.stderr.text(),
        cut_bytes=ended.stdout.cut + ended.stderr.cut,
        wall_s=ended.wall_s,
        cpu_s=ended.cpu_s,
        memory_bytes=ended.memory_bytes,
        isolation=isolation,
    )
