"""Code in the sandbox reaches nothing, takes no more than its limits, and leaves nothing behind."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from trajstore.errors import SandboxError
from trajstore.rollouts import Sandbox, SandboxLimits
from trajstore.rollouts.sandbox_isolation import find_isolation, why_not

MB = 1 << 20


@pytest.fixture(scope="module", params=["namespaces", "bubblewrap"])
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    refusal = why_not(request.param)
    if refusal is not None:
        pytest.skip(f"{request.param}: {refusal}")
    made = Sandbox(limits=SandboxLimits(wall_s=120))
    made.isolation = request.param
    return made


# --- what comes back -------------------------------------------------------------------------


def test_output_and_exit_code_come_back(sandbox: Sandbox) -> None:
    ran = sandbox.run_python("import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)")
    assert (ran.exit_code, ran.stdout, ran.stderr) == (7, "out\n", "err\n")
    assert not ran.ok
    assert ran.why == "exit code 7"


def test_a_signal_is_no_exit_code(sandbox: Sandbox) -> None:
    ran = sandbox.run_python("import os; os.kill(os.getpid(), 11)")
    assert (ran.exit_code, ran.signal, ran.limit) == (None, 11, None)


def test_a_program_that_is_not_there_is_said(sandbox: Sandbox) -> None:
    ran = sandbox.run(["no-such-program"])
    assert ran.exit_code == 127
    assert "no-such-program: No such file" in ran.stderr


def test_stdin_of_any_length_is_read(sandbox: Sandbox) -> None:
    ran = sandbox.run_python("import sys; print(len(sys.stdin.read()))", stdin="x" * 300_000)
    assert ran.stdout == "300000\n"


def test_stdin_that_nobody_reads_is_no_error(sandbox: Sandbox) -> None:
    assert sandbox.run_python("pass", stdin="x" * 3_000_000).ok


def test_bytes_that_are_no_text_are_escaped(sandbox: Sandbox) -> None:
    assert sandbox.run_python("import os; os.write(1, b'a\\xff')").stdout == "a\\xff"


def test_arguments_and_files_are_seen_inside(sandbox: Sandbox) -> None:
    code = "import sys; print(open(sys.argv[1]).read())"
    ran = sandbox.run_python(code, arguments=["{given}/in/a"], files={"in/a": "hidden test"})
    assert ran.stdout == "hidden test\n"


def test_each_run_starts_afresh(sandbox: Sandbox) -> None:
    code = (
        "import os; print(os.listdir('.'), os.listdir('/tmp')); open('a','w'); open('/tmp/a','w')"
    )
    first, second = sandbox.run_python(code), sandbox.run_python(code)
    assert first.stdout.startswith("[]")
    assert first.stdout == second.stdout


def test_a_folder_of_the_caller_keeps_what_was_written(sandbox: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("before")
    assert sandbox.run_python("open('a', 'a').write(' after'); open('b', 'w')", folder=tmp_path).ok
    assert (tmp_path / "a").read_text() == "before after"
    assert (tmp_path / "b").exists()


@pytest.mark.parametrize("name", ["../a", "/etc/a", "a/../../b", ""])
def test_a_file_cannot_be_put_outside(name: str, sandbox: Sandbox) -> None:
    with pytest.raises(SandboxError, match="relative path"):
        sandbox.run(["true"], files={name: "x"})


# --- what cannot be reached ------------------------------------------------------------------


def test_there_is_no_network(sandbox: Sandbox) -> None:
    code = "import socket; socket.create_connection(('192.0.2.1', 80), 2)"
    ran = sandbox.run_python(code)
    assert "Network is unreachable" in ran.stderr


def test_a_server_of_this_machine_is_out_of_reach(sandbox: Sandbox) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.5)
        port = server.getsockname()[1]
        ran = sandbox.run_python(
            f"import socket; socket.create_connection(('127.0.0.1', {port}), 1)"
        )
        assert not ran.ok
        with pytest.raises(TimeoutError):
            server.accept()


def test_the_environment_of_the_caller_stays_outside(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_KEY", "sk-hunter2")
    ran = sandbox.run_python(
        """
import glob, os
seen = str(dict(os.environ))
for path in glob.glob('/proc/[0-9]*/environ'):
    try:
        seen += open(path).read()
    except OSError:
        pass
print(seen)"""
    )
    assert ran.ok
    assert "PATH" in ran.stdout
    assert "hunter2" not in ran.stdout


def test_files_of_the_caller_are_not_there(sandbox: Sandbox, tmp_path: Path) -> None:
    secret = tmp_path / "id_ed25519"
    secret.write_text("key")
    secret.chmod(0o644)
    assert "No such file" in sandbox.run_python(f"open({str(secret)!r})").stderr


def test_nothing_but_the_two_folders_can_be_written(sandbox: Sandbox) -> None:
    ran = sandbox.run_python(
        """
import sys
for path in ('/a', '/usr/a', '/etc/a', '/given/a', '/given/main.py', '/dev/a', sys.prefix + '/a'):
    try:
        open(path, 'w')
        print(path)
    except OSError:
        pass
open('/tmp/a', 'w'); open('a', 'w'); print('done')"""
    )
    assert ran.stdout == "done\n"


def test_no_process_outside_can_be_seen_or_hit(sandbox: Sandbox) -> None:
    code = f"import os; print(os.path.exists('/proc/{os.getpid()}/status') and {os.getpid()} > 50)"
    ran = sandbox.run_python(code)
    assert ran.stdout == "False\n"


def test_there_are_no_rights_to_gain(sandbox: Sandbox) -> None:
    ran = sandbox.run_python("print(open('/proc/self/status').read())")
    status = dict(line.split(":\t", 1) for line in ran.stdout.splitlines() if ":\t" in line)
    assert status["NoNewPrivs"] == "1"
    assert {int(status[n], 16) for n in ("CapPrm", "CapEff", "CapBnd")} == {0}
    assert not status["Uid"].startswith("0\t")


# --- limits ----------------------------------------------------------------------------------


def test_the_time_is_bounded(sandbox: Sandbox) -> None:
    began = time.monotonic()
    ran = sandbox.run_python("import time; time.sleep(60)", limits=SandboxLimits(wall_s=0.5))
    assert ran.limit == "wall"
    assert ran.exit_code is None
    assert time.monotonic() - began < 40


def test_the_cpu_time_is_bounded(sandbox: Sandbox) -> None:
    limits = SandboxLimits(cpu_s=1, wall_s=120)
    assert sandbox.run_python("while True: pass", limits=limits).limit == "cpu"


def test_ten_gigabytes_are_refused(sandbox: Sandbox) -> None:
    ran = sandbox.run_python("bytearray(10**10)")
    assert not ran.ok
    assert "MemoryError" in ran.stderr


def test_shared_memory_counts_too(sandbox: Sandbox) -> None:
    code = "import mmap\nm = mmap.mmap(-1, 10**10)\nfor i in range(0, 10**10, 4096): m[i] = 1"
    ran = sandbox.run_python(code, limits=SandboxLimits(memory_bytes=128 * MB, wall_s=120))
    assert ran.limit == "memory"
    assert ran.memory_bytes < 1024 * MB


def test_memory_of_all_processes_is_one_sum(sandbox: Sandbox) -> None:
    code = (
        "import os, time\nfor _ in range(3):\n    if os.fork() == 0:\n"
        "        kept = b'x' * (60 << 20)\n        time.sleep(60)\ntime.sleep(60)"
    )
    ran = sandbox.run_python(code, limits=SandboxLimits(memory_bytes=128 * MB, wall_s=50))
    assert ran.limit == "memory"


def test_a_fork_bomb_is_over_in_its_time(sandbox: Sandbox) -> None:
    code = "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass"
    began = time.monotonic()
    ran = sandbox.run_python(code, limits=SandboxLimits(wall_s=1, processes=16))
    assert ran.limit in {"wall", "processes", "memory"}
    assert time.monotonic() - began < 60


def test_the_disk_is_bounded(sandbox: Sandbox) -> None:
    code = "for i in range(9): open(str(i), 'wb').write(bytes(1 << 20))"
    ran = sandbox.run_python(code, limits=SandboxLimits(disk_bytes=4 * MB, wall_s=120))
    assert "No space left" in ran.stderr


def test_a_flood_is_cut_in_the_middle(sandbox: Sandbox) -> None:
    code = "print('first')\nfor _ in range(100): print('x' * 9999)\nprint('last')"
    ran = sandbox.run_python(code, limits=SandboxLimits(output_bytes=1000, wall_s=120))
    assert ran.ok
    assert ran.stdout.startswith("first\nxx")
    assert ran.stdout.endswith("x\nlast\n")
    assert ran.cut_bytes == len("first\nlast\n") + 100 * 10_000 - 1000
    assert f"{ran.cut_bytes:,} bytes left out" in ran.stdout
    assert len(ran.stdout) < 1100


def test_an_endless_flood_ends_with_the_time(sandbox: Sandbox) -> None:
    code = "import sys\nwhile True: sys.stdout.write('x' * 65536)"
    assert sandbox.run_python(code, limits=SandboxLimits(wall_s=0.5)).limit == "wall"


# --- what stays behind -----------------------------------------------------------------------


def alive(mark: str) -> bool:
    """Whether a process of this machine has the mark among its arguments."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if mark.encode() in path.read_bytes():
                return True
        except OSError:
            continue
    return False


CHILD = """
import subprocess, sys
code = "import os, time; os.setsid(); time.sleep({seconds})"
subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL)
print("left", flush=True)
"""


def test_a_child_that_outlives_its_parent_is_killed(sandbox: Sandbox) -> None:
    ran = sandbox.run_python(CHILD.replace("{seconds}", "4321"))
    assert ran.stdout == "left\n"
    assert not alive("time.sleep(4321)")


def test_a_child_dies_at_the_limit_too(sandbox: Sandbox) -> None:
    code = CHILD.replace("{seconds}", "5432") + "import time; time.sleep(60)"
    assert sandbox.run_python(code, limits=SandboxLimits(wall_s=0.5)).limit == "wall"
    assert not alive("time.sleep(5432)")


def test_all_dies_with_the_caller(sandbox: Sandbox) -> None:
    program = f"""
from trajstore.rollouts import Sandbox, SandboxLimits
made = Sandbox(limits=SandboxLimits(wall_s=300))
made.isolation = {sandbox.isolation!r}
made.run(["sh", "-c", "sleep 6543; true"])"""
    with subprocess.Popen([sys.executable, "-c", program]) as caller:
        ends = time.monotonic() + 60
        while not alive("sleep 6543") and time.monotonic() < ends:
            time.sleep(0.02)
        assert alive("sleep 6543")
        caller.kill()
    ends = time.monotonic() + 60
    while alive("6543") and time.monotonic() < ends:
        time.sleep(0.02)
    assert not alive("6543")


def test_no_folder_is_left(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    sandbox.run_python("open('a', 'w')", files={"b": "x"})
    assert list(tmp_path.iterdir()) == []


def test_runs_beside_each_other_do_not_meet(sandbox: Sandbox) -> None:
    said: list[str] = []

    def run(number: int) -> None:
        said.append(
            sandbox.run_python(f"open('a','w').write('{number}'); print(open('a').read())").stdout
        )

    threads = [threading.Thread(target=run, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(said) == [f"{n}\n" for n in range(6)]


# --- other commands, and no isolation --------------------------------------------------------


def test_a_limit_of_nothing_is_refused() -> None:
    with pytest.raises(SandboxError, match="wall_s must be above 0, not 0"):
        SandboxLimits(wall_s=0)


def test_without_isolation_nothing_runs_unless_allowed() -> None:
    with pytest.raises(SandboxError, match="allow_unisolated=True"):
        find_isolation(ways=())
    assert find_isolation(ways=(), allow_unisolated=True) == "none"


@pytest.fixture
def unlocked() -> Sandbox:
    """A sandbox with limits alone; as root only where nobody may read the interpreter."""
    made = Sandbox(limits=SandboxLimits(wall_s=120), allow_unisolated=True)
    made.isolation = "none"
    return made


def test_without_isolation_it_is_said_and_limits_hold(unlocked: Sandbox) -> None:
    ran = unlocked.run(["sh", "-c", "sleep 60"], limits=SandboxLimits(wall_s=0.5))
    assert (ran.isolation, ran.limit) == ("none", "wall")


def test_without_isolation_no_secret_is_inherited(
    unlocked: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_KEY", "sk-hunter2")
    assert "hunter2" not in unlocked.run(["env"]).stdout


def test_without_isolation_no_command_is_root(unlocked: Sandbox) -> None:
    assert unlocked.run(["id", "-u"]).stdout != "0\n"


def test_without_isolation_children_are_killed_all_the_same(unlocked: Sandbox) -> None:
    ran = unlocked.run(["sh", "-c", "setsid sleep 7654 >/dev/null 2>&1 & echo left"])
    assert ran.stdout == "left\n"
    assert not alive("7654")
