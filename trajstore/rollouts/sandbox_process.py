"""One run in a sandbox, seen from outside: start the launcher, feed it, read what it says."""

from __future__ import annotations

import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from trajstore.errors import SandboxError

if TYPE_CHECKING:
    from trajstore.rollouts.sandbox import SandboxLimits
    from trajstore.rollouts.sandbox_isolation import Isolation

_LAUNCHER = Path(__file__).with_name("sandbox_launcher.py")
_FOLDER, _GIVEN = "/box", "/given"
_USER = 1000
_GRACE_S = 5.0
_UNTOLD = {"code": None, "limit": "wall", "cpu_s": 0.0, "memory_bytes": 0}
_SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix/store", "/gnu/store"),
    *("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives"),
    "/etc/localtime",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What to run."""

    command: tuple[str, ...]
    files: Mapping[str, bytes] = field(default_factory=dict)
    folder: str | None = None
    stdin: bytes = b""
    env: Mapping[str, str] = field(default_factory=dict)
    readable: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()


class Kept:
    """The beginning and the end of a stream."""

    def __init__(self, most: int) -> None:
        """Keep so many bytes."""
        self._most = most
        self._head = b""
        self._tail = bytearray()
        self.cut = 0
        """Bytes that are not kept."""

    def add(self, data: bytes) -> None:
        """Take in what was read."""
        room = self._most // 2 - len(self._head)
        self._head += data[: max(room, 0)]
        self._tail += data[max(room, 0) :]
        over = len(self._tail) - (self._most - self._most // 2)
        if over > 0:
            del self._tail[:over]
            self.cut += over

    def text(self) -> str:
        """What is kept, with a line where something is missing."""
        gap = f"\n[... {self.cut:,} bytes left out ...]\n".encode() if self.cut else b""
        return (self._head + gap + bytes(self._tail)).decode("utf-8", "backslashreplace")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a run ended, as the supervisor tells it."""

    code: int | None
    limit: Literal["wall", "memory", "processes"] | None
    wall_s: float
    cpu_s: float
    memory_bytes: int
    stdout: Kept
    stderr: Kept


def run_job(job: Job, limits: SandboxLimits, isolation: Isolation) -> Ended:
    """Run a command to its end, or to a limit.

    Raises:
        SandboxError: it could not be locked in or started.
    """
    with tempfile.TemporaryDirectory(prefix="trajstore-", ignore_cleanup_errors=True) as place:
        scratch = Path(place)
        for name in ("given", "stage", "box"):
            (scratch / name).mkdir()
        for name, content in job.files.items():
            path = scratch / "given" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        for path in (scratch, *(scratch / "given").rglob("*"), scratch / "given"):
            path.chmod(0o755 if path.is_dir() else 0o644)
        return _run(job, limits, isolation, scratch)


def _run(job: Job, limits: SandboxLimits, isolation: Isolation, scratch: Path) -> Ended:
    plan_read, plan_write = os.pipe()
    report_read, report_write = os.pipe()
    plan = _plan(job, limits, isolation, scratch) | {"report": report_write}
    launch = [sys.executable, "-I", "-S", "-B", str(_LAUNCHER), str(plan_read)]
    if isolation == "bubblewrap":
        launch = [*_bubblewrap(plan), *launch]
    try:
        with subprocess.Popen(  # noqa: S603  the launcher, which locks the command in
            launch,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(plan_read, report_write),
            start_new_session=True,
            env={},
            cwd="/",
        ) as process:
            os.close(report_write)
            report_write = -1
            with os.fdopen(plan_write, "wb") as sink:
                plan_write = -1
                sink.write(json.dumps(plan).encode())
            return _watch(process, job.stdin, report_read, limits)
    finally:
        for descriptor in (plan_read, plan_write, report_read, report_write):
            if descriptor >= 0:
                os.close(descriptor)


def _plan(job: Job, limits: SandboxLimits, isolation: Isolation, scratch: Path) -> dict[str, Any]:
    locked_in = isolation != "none"
    given = _GIVEN if locked_in else str(scratch / "given")
    folder = _FOLDER if locked_in else job.folder or str(scratch / "box")
    temporary = "/tmp" if locked_in else str(scratch / "box")  # noqa: S108  its own, inside
    env = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "HOME": folder,
        "TMPDIR": temporary,
        **job.env,
    }
    return {
        "command": [c.replace("{given}", given).replace("{folder}", folder) for c in job.command],
        "env": env,
        "cwd": folder,
        "folder": job.folder,
        "inside": _FOLDER,
        "given": str(scratch / "given"),
        "given_inside": _GIVEN,
        "stage": str(scratch / "stage"),
        "readable": _outermost([*_SYSTEM, *_interpreter(), *job.readable]),
        "hidden": list(job.hidden),
        "enter": isolation == "namespaces",
        "isolated": locked_in,
        "linux": sys.platform == "linux",
        "parent": 0 if isolation == "bubblewrap" else os.getpid(),
        "user": _USER,
        "wall_s": limits.wall_s,
        "cpu_s": limits.cpu_s,
        "memory_bytes": limits.memory_bytes,
        "processes": limits.processes,
        "disk_bytes": limits.disk_bytes,
    }


def _interpreter() -> list[str]:
    """Folders that this Python needs; the links on the way to it as well."""
    program = os.path.realpath(sys.executable)
    own = [sys.prefix, sys.base_prefix, os.path.realpath(sys.base_prefix)]
    return [*own, str(Path(program).parents[1])]


def _outermost(paths: list[str]) -> list[str]:
    """The paths that lie in no other one of them; the root folder is never shown."""
    kept: list[str] = []
    for path in sorted({os.path.normpath(p) for p in paths} - {"/"}):
        if not any(path.startswith(f"{k}/") and not Path(k).is_symlink() for k in kept):
            kept.append(path)
    return kept


def _bubblewrap(plan: dict[str, Any]) -> list[str]:
    program = shutil.which("bwrap") or "bwrap"
    size = str(plan["disk_bytes"])
    shown = [p for p in plan["readable"] if Path(p).exists()]
    links = [
        w for p in shown if Path(p).is_symlink() for w in ("--symlink", str(Path(p).readlink()), p)
    ]
    binds = [w for p in shown if not Path(p).is_symlink() for w in ("--ro-bind", p, p)]
    covers = [w for p in plan["hidden"] for w in ("--size", "4096", "--tmpfs", p)]
    launcher = ("--ro-bind", str(_LAUNCHER), str(_LAUNCHER))
    box = ["--size", size, "--tmpfs", _FOLDER]
    if plan["folder"]:
        box = ["--bind", plan["folder"], _FOLDER]
    return [
        *(program, "--unshare-all", "--as-pid-1", "--die-with-parent", "--cap-drop", "ALL"),
        *("--uid", str(_USER), "--gid", str(_USER)),
        *("--size", size, "--tmpfs", "/tmp", *binds, *links),  # noqa: S108  its own, inside
        *(*covers, *launcher, *(w for p in plan["hidden"] for w in ("--remount-ro", p))),
        *("--dev", "/dev", "--proc", "/proc", "--ro-bind", plan["given"], _GIVEN, *box),
        *("--remount-ro", "/", "--remount-ro", "/dev", "--chdir", "/", "--"),
    ]


def _watch(
    process: subprocess.Popen[bytes], stdin: bytes, report: int, limits: SandboxLimits
) -> Ended:
    """Feed and read a run until all its streams are closed; kill it where it overstays."""
    kept = {"stdout": Kept(limits.output_bytes), "stderr": Kept(limits.output_bytes)}
    said = b""
    started = time.monotonic()
    ends = started + limits.wall_s + _GRACE_S
    assert process.stdin is not None
    with selectors.DefaultSelector() as selector:
        for name in kept:
            selector.register(getattr(process, name), selectors.EVENT_READ, name)
        selector.register(report, selectors.EVENT_READ, "report")
        _feed(selector, process, stdin)
        while selector.get_map():
            if time.monotonic() > ends:
                _kill(process)
                break
            for key, _ in selector.select(timeout=0.5):
                if key.data == "stdin":
                    stdin = stdin[_write(key.fd, stdin) :]
                    if not stdin:
                        selector.unregister(key.fileobj)
                        process.stdin.close()
                    continue
                data = os.read(key.fd, 1 << 16)
                if not data:
                    selector.unregister(key.fileobj)
                elif key.data == "report":
                    said += data
                else:
                    kept[key.data].add(data)
    _kill(process)
    process.wait()
    return _ended(said, kept, time.monotonic() - started)


def _feed(selector: selectors.BaseSelector, process: subprocess.Popen[bytes], stdin: bytes) -> None:
    assert process.stdin is not None
    if not stdin:
        process.stdin.close()
        return
    os.set_blocking(process.stdin.fileno(), False)
    selector.register(process.stdin, selectors.EVENT_WRITE, "stdin")


def _write(descriptor: int, data: bytes) -> int:
    try:
        return os.write(descriptor, data[: 1 << 16])
    except BrokenPipeError:
        return len(data)
    except BlockingIOError:
        return 0


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _ended(said: bytes, kept: dict[str, Kept], wall_s: float) -> Ended:
    out, err = kept["stdout"], kept["stderr"]
    if not said:
        complaint = kept["stderr"].text().strip()
        if wall_s < _GRACE_S and complaint:
            raise SandboxError(f"The sandbox could not start: {complaint[-500:]}")
        said = json.dumps({**_UNTOLD, "wall_s": wall_s}).encode()
    told = json.loads(said)
    if "refused" in told:
        raise SandboxError(f"the system refuses: {told['refused']}")
    return Ended(**told, stdout=out, stderr=err)
