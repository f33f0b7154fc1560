"""Run the command line in this process, as a process of its own, or on a terminal."""

from __future__ import annotations

import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from trajstore_cli.main import app
from typer.testing import CliRunner

from trajstore import Observation, Step, ToolCall, Trajectory
from trajstore import open as open_store

ROOT = Path(__file__).resolve().parents[2]
HOSTILE = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202etxt\r"
"""Escape sequences, a bell, a one-byte CSI, a mark that reverses text, a lone carriage return."""


@dataclass(frozen=True)
class Ran:
    """What one command did."""

    code: int
    out: str
    err: str = ""


Cli = Callable[..., Ran]


@pytest.fixture
def cli() -> Cli:
    """Run a command in this process."""

    def run(*arguments: object, stdin: str | bytes | None = None) -> Ran:
        result = CliRunner().invoke(app, [str(a) for a in arguments], input=stdin)
        return Ran(result.exit_code, result.stdout, result.stderr)

    return run


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "trajstore_cli.main", *map(str, arguments)]


def environment(home: Path, **more: str) -> dict[str, str]:
    paths = [str(ROOT), str(ROOT / "cli"), os.environ.get("PYTHONPATH", "")]
    kept = {k: v for k, v in os.environ.items() if k not in {"NO_COLOR", "PYTHONUNBUFFERED"}}
    return {
        **kept,
        "PYTHONPATH": os.pathsep.join(p for p in paths if p),
        "XDG_STATE_HOME": str(home),
        "TERM": "xterm",
        **more,
    }


@pytest.fixture
def process(tmp_path: Path) -> Cli:
    """Run a command as a process with pipes."""

    def run(*arguments: object, stdin: str = "", env: Mapping[str, str] | None = None) -> Ran:
        done = subprocess.run(
            command(*arguments),
            input=stdin,
            capture_output=True,
            check=False,
            text=True,
            env=environment(tmp_path, **(env or {})),
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    return run


@dataclass
class Terminal:
    """A process whose stdin, stdout and stderr are one pseudo terminal."""

    child: subprocess.Popen[bytes]
    handle: int
    seen: str = ""
    _raw: bytearray = field(default_factory=bytearray)
    _at: int = 0

    def wait_for(self, text: str, seconds: float = 120) -> str:
        """Read on until the text shows up, and give everything up to its end."""
        start, end = self._at, time.monotonic() + seconds
        while (found := self.seen.find(text, start)) < 0:
            new = self.seen[start:]
            assert time.monotonic() < end, f"no {text!r} in {new!r}"
            assert self._read(), f"ended without {text!r}: {new!r}"
        self._at = found + len(text)
        return self.seen[start : self._at]

    def _read(self) -> bool:
        if not select.select([self.handle], [], [], 0.2)[0]:
            return True
        try:
            data = os.read(self.handle, 65536)
        except OSError:
            return False
        self._raw += data
        self.seen = self._raw.decode("utf-8", "replace")
        return bool(data)

    def type(self, text: str) -> None:
        os.write(self.handle, text.encode())

    def interrupt(self) -> None:
        """Press Ctrl-C, once the process waits; a signal between prompt and wait would be lost.

        It waits where it sleeps each time that somebody looks, for half a second.
        """
        stat = Path(f"/proc/{self.child.pid}/stat")
        waits, ends = 0, time.monotonic() + 60
        while waits < 10 and time.monotonic() < ends:
            time.sleep(0.05)
            asleep = not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "S"
            waits = waits + 1 if asleep else 0
        self.child.send_signal(signal.SIGINT)

    def wait_until_busy(self, seconds: float = 1.0) -> None:
        """Wait until the process has used so much more processor time: a query is at work."""
        stat = Path(f"/proc/{self.child.pid}/stat")
        if not stat.exists():
            pytest.skip("there is no /proc here")
        tick = os.sysconf("SC_CLK_TCK")
        start = None
        while True:
            user, system = stat.read_text().rpartition(")")[2].split()[11:13]
            used = (int(user) + int(system)) / tick
            start = used if start is None else start
            if used > max(start + seconds, 2.5):
                return
            assert self.child.poll() is None, self.seen
            time.sleep(0.05)

    def ended(self, seconds: float = 120) -> int:
        """Read the rest and give the exit code."""
        end = time.monotonic() + seconds
        while self._read():
            if self.child.poll() is not None and not select.select([self.handle], [], [], 0)[0]:
                break
            assert time.monotonic() < end, f"still running: {self.seen!r}"
        return self.child.wait(seconds)


Terminals = Callable[..., Terminal]


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminals]:
    """Start a command on a pseudo terminal."""
    started: list[Terminal] = []

    def start(*arguments: object, **env: str) -> Terminal:
        ours, theirs = pty.openpty()
        child = subprocess.Popen(
            command(*arguments),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment(tmp_path, **env),
            start_new_session=True,
        )
        os.close(theirs)
        started.append(Terminal(child, ours))
        return started[-1]

    yield start
    for each in started:
        if each.child.poll() is None:
            each.child.kill()
        each.child.wait()
        os.close(each.handle)


def hostile_run() -> Trajectory:
    """A run whose every text tries to steer the terminal."""
    call = ToolCall.of(f"bash{HOSTILE}", {"cmd": f"ls{HOSTILE}\necho", "n": 1}, "c1")
    seen = Observation(text=f"files{HOSTILE}\nmore", call_id="c1", is_error=True)
    return Trajectory(
        trajectory_id="hostile",
        task_id=f"t/1{HOSTILE}",
        source="hand",
        goal=f"do it{HOSTILE}",
        agent=f"agent{HOSTILE}",
        tags=(f"tag{HOSTILE}",),
        steps=(
            Step(actor="user", text=f"please{HOSTILE}"),
            Step(
                actor="agent",
                text=f"ok{HOSTILE}",
                reasoning=f"hm{HOSTILE}",
                tool_calls=(call,),
                observations=(seen,),
            ),
        ),
    )


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A store with one hostile run."""
    folder = tmp_path / "hostile-pool"
    open_store(folder, durable=False).append(hostile_run())
    return folder


@pytest.fixture(scope="session")
def airline_pool(tmp_path_factory: pytest.TempPathFactory, real_data: Path) -> Path:
    """The 200 runs of the tau-bench file; for reading only."""
    folder = tmp_path_factory.mktemp("airline") / "pool"
    open_store(folder, durable=False).import_files(real_data / "tau_bench")
    return folder


@pytest.fixture
def airline(airline_pool: Path, tmp_path: Path) -> Path:
    """A copy of the 200 runs to change."""
    return Path(shutil.copytree(airline_pool, tmp_path / "airline"))


@pytest.fixture(scope="session")
def small_pool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs at two tasks by one agent; for reading only."""
    folder = tmp_path_factory.mktemp("small") / "pool"
    open_store(folder, durable=False).append(
        [
            run("a1", "t/a", success=True, reward=1.0, error=False),
            run("a2", "t/a", success=False, reward=0.25, error=True),
            run("b1", "t/b", success=None, reward=None, error=False),
        ]
    )
    return folder


@pytest.fixture
def small(small_pool: Path, tmp_path: Path) -> Path:
    """A copy of the three runs to change."""
    return Path(shutil.copytree(small_pool, tmp_path / "small"))


def run(
    name: str, task: str, *, success: bool | None, reward: float | None, error: bool
) -> Trajectory:
    call = ToolCall.of("search", {"q": "x"}, "c1")
    seen = Observation(text="none" if error else "found", call_id="c1", is_error=error)
    return Trajectory(
        trajectory_id=name,
        task_id=task,
        source="hand",
        agent="one",
        status="terminated",
        success=success,
        reward=reward,
        steps=(
            Step(actor="user", text="find x"),
            Step(actor="agent", text="searching", tool_calls=(call,), observations=(seen,)),
            Step(actor="agent", text="done"),
        ),
    )
