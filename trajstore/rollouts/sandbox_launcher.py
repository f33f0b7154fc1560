"""The program that a sandbox is: it locks itself in, starts the command, and watches over it.

It runs as a process of its own (``python -I -S -B sandbox_launcher.py FD``) and imports nothing but
the standard library. It reads one JSON object from the file descriptor ``FD``, what to run and how,
and writes one JSON line to the descriptor that is named there: what became of it.

Three processes take part. The *launcher* makes new namespaces (user, mount, network, PID, IPC, host
name). The *supervisor*, the first process inside, builds a root folder that holds nothing but
what is listed, then waits. The *command* is its child. When the supervisor ends, the kernel kills
everything that is left inside, however often it forked or changed its session.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from typing import Any, NoReturn

_NEW_MOUNT, _NEW_HOST, _NEW_IPC = 0x00020000, 0x04000000, 0x08000000
_NEW_USER, _NEW_PID, _NEW_NET = 0x10000000, 0x20000000, 0x40000000
_READ_ONLY, _NO_SETUID, _NO_DEVICES = 0x1, 0x2, 0x4
_BIND, _RECURSIVE, _PRIVATE, _DETACH = 0x1000, 0x4000, 0x40000, 2
_DEATH_SIGNAL, _DUMPABLE, _DROP_BOUND, _SUBREAPER, _NO_NEW_RIGHTS = 1, 4, 24, 36, 38
_SET_ATTRIBUTES, _HERE, _ALL_BELOW = 442, -100, 0x8000
_NOBODY = 65534
_POLL_S = 0.01
_DEVICES = ("null", "zero", "full", "random", "urandom")

_libc = ctypes.CDLL(None, use_errno=True)


def _try(name: str, *arguments: Any) -> None:
    """Call a C function that answers 0 or -1."""
    if getattr(_libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def _prctl(option: int, value: int) -> None:
    _libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0)


def _die_with_parent(parent: int) -> None:
    """End when the parent does; it may have ended before this was asked for."""
    _prctl(_DEATH_SIGNAL, signal.SIGKILL)
    if parent and os.getppid() != parent:
        os._exit(1)


def _mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    _try("mount", source.encode(), target.encode(), kind.encode(), flags, data.encode())


class _Attributes(ctypes.Structure):
    """``struct mount_attr`` of mount_setattr(2)."""

    _fields_ = (
        ("set", ctypes.c_uint64),
        ("clear", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("user", ctypes.c_uint64),
    )


def _restrict(target: str, attributes: int, *, below: bool = True) -> None:
    """Set attributes on a mount and, if asked for, on everything mounted below it."""
    wanted = _Attributes(attributes, 0, 0, 0)
    place, how = target.encode(), _ALL_BELOW if below else 0
    size = ctypes.sizeof(wanted)
    _try("syscall", _SET_ATTRIBUTES, _HERE, place, how, ctypes.byref(wanted), size)


def _bind(source: str, target: str, *, writable: bool = False) -> None:
    """Show a file or folder of the outside at a place inside; a link inside is a link again."""
    os.makedirs(os.path.dirname(target), mode=0o755, exist_ok=True)  # noqa: PTH103, PTH120
    if os.path.isdir(source):  # noqa: PTH112
        os.makedirs(target, mode=0o755, exist_ok=True)  # noqa: PTH103
    else:
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
    _mount(source, target, "", _BIND | _RECURSIVE)
    _restrict(target, _NO_SETUID | (0 if writable else _READ_ONLY))


def _build_root(plan: dict[str, Any], uid: int, gid: int) -> None:
    """Make the root folder of the inside and move into it; the outside is gone afterwards."""
    _mount("none", "/", "", _RECURSIVE | _PRIVATE)
    root = plan["stage"]
    _mount("tmpfs", root, "tmpfs", _NO_SETUID | _NO_DEVICES, "size=1m,mode=755")
    private = f"size={plan['disk_bytes']},nr_inodes=20k,mode=700,uid={uid},gid={gid}"
    _fresh("tmpfs", f"{root}/tmp", private)  # noqa: S108  inside
    for source in plan["readable"]:
        _show(source, root + source)
    for folder in plan["hidden"]:
        if os.path.isdir(root + folder):  # noqa: PTH112
            flags = _NO_SETUID | _NO_DEVICES | _READ_ONLY
            _mount("tmpfs", root + folder, "tmpfs", flags, "size=4k,mode=755")
    for device in _DEVICES:
        _bind(f"/dev/{device}", f"{root}/dev/{device}", writable=True)
    for name, target in (("fd", "/proc/self/fd"), ("shm", "/tmp")):  # noqa: S108  inside
        os.symlink(target, f"{root}/dev/{name}")  # noqa: PTH211
    _bind(plan["given"], root + plan["given_inside"])
    if plan["folder"]:
        _bind(plan["folder"], root + plan["inside"], writable=True)
    else:
        _fresh("tmpfs", root + plan["inside"], private)
    _fresh("proc", f"{root}/proc", "")
    os.chdir(root)
    _try("pivot_root", b".", b".")
    _try("umount2", b".", _DETACH)
    os.chdir("/")
    _restrict("/", _READ_ONLY, below=False)


def _fresh(kind: str, target: str, options: str) -> None:
    os.makedirs(target)  # noqa: PTH103
    _mount(kind, target, kind, _NO_SETUID | _NO_DEVICES, options)


def _show(source: str, target: str) -> None:
    if os.path.islink(source):  # noqa: PTH114
        os.makedirs(os.path.dirname(target), exist_ok=True)  # noqa: PTH103, PTH120
        os.symlink(os.readlink(source), target)  # noqa: PTH115, PTH211
    elif os.path.exists(source):  # noqa: PTH110
        _bind(source, target)


def _map_user(uid: int, gid: int, inside: int) -> None:
    """In a new user namespace: the one user that exists there, under the number ``inside``."""
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{inside} {uid} 1"),
        ("gid_map", f"{inside} {gid} 1"),
    ):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:  # noqa: PTH123
            file.write(text)


def _drop_root() -> None:
    os.setgroups([])
    os.setresgid(_NOBODY, _NOBODY, _NOBODY)
    os.setresuid(_NOBODY, _NOBODY, _NOBODY)


def _become_nobody() -> None:
    """From root to a user without rights, in a user namespace of its own where there may be one.

    The kernel does not bound the processes of root, and root may write to ``/proc/sys``.
    """
    _drop_root()
    _prctl(_DUMPABLE, 1)
    if _libc.unshare(_NEW_USER) == 0:
        _map_user(_NOBODY, _NOBODY, _NOBODY)


def _forbid_more_namespaces() -> None:
    try:
        with open("/proc/sys/user/max_user_namespaces", "w", encoding="ascii") as file:  # noqa: PTH123
            file.write("0")
    except OSError:
        return  # only a second lock: inside, nothing of value can be reached by another namespace


def _enter(plan: dict[str, Any]) -> None:
    """Become the supervisor: the first process of new namespaces, in a root folder of its own."""
    uid, gid, user = os.geteuid(), os.getegid(), plan["user"]
    spaces = _NEW_MOUNT | _NEW_NET | _NEW_PID | _NEW_IPC | _NEW_HOST
    as_root = uid == 0 and _libc.unshare(spaces) == 0
    if not as_root:
        _try("unshare", spaces | _NEW_USER)
        _map_user(uid, gid, user)
    _die_with_parent(plan["parent"])
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        os._exit(0)
    if as_root:
        user = _NOBODY
        _give_folder(plan["folder"])
    _build_root(plan, user, user)
    if as_root:
        _become_nobody()
    _forbid_more_namespaces()
    _die_with_parent(0)  # a change of user takes this back, so it stands last


def _give_folder(folder: str | None) -> None:
    for place, folders, files in os.walk(folder) if folder else ():
        for name in (".", *folders, *files):
            os.lchown(os.path.join(place, name), _NOBODY, _NOBODY)  # noqa: PTH118


def _limit(what: int, value: int, hard: int | None = None) -> None:
    ceiling = resource.getrlimit(what)[1]
    top = value if hard is None else hard
    if ceiling != resource.RLIM_INFINITY:
        value, top = min(value, ceiling), min(top, ceiling)
    resource.setrlimit(what, (value, top))


def _exec(plan: dict[str, Any], report: int) -> NoReturn:
    """In the child: give up every right, set the limits, become the command."""
    try:
        os.setsid()
        for number in (signal.SIGPIPE, signal.SIGINT, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.chdir(plan["cwd"])
        if plan["linux"]:
            for right in range(64):
                _prctl(_DROP_BOUND, right)
            _prctl(_NO_NEW_RIGHTS, 1)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
        _limit(resource.RLIMIT_CORE, 0)
        _limit(resource.RLIMIT_CPU, plan["cpu_s"], plan["cpu_s"] + 1)
        _limit(resource.RLIMIT_DATA, plan["memory_bytes"])
        _limit(resource.RLIMIT_FSIZE, plan["disk_bytes"])
        if not plan["isolated"] and os.geteuid() == 0:
            _drop_root()
            _limit(resource.RLIMIT_NPROC, plan["processes"])
        elif plan["isolated"]:
            _limit(resource.RLIMIT_NPROC, plan["processes"] + 1)
        os.close(report)
        os.execvpe(plan["command"][0], plan["command"], plan["env"])  # noqa: S606
    except OSError as error:
        os.write(2, f"sandbox: cannot start {plan['command'][0]}: {error.strerror}\n".encode())
    os._exit(127)


class _Watch:
    """What the supervisor knows of the processes below it."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.memory_bytes = 0
        self._plan = plan
        self._inside = plan["isolated"]

    def over(self) -> str | None:
        """Name of the limit that all processes together are over, if any."""
        pids = _processes() if self._inside else _descendants()
        used = sum(_memory(pid) for pid in pids)
        self.memory_bytes = max(self.memory_bytes, used)
        if len(pids) > self._plan["processes"]:
            return "processes"
        return "memory" if used > self._plan["memory_bytes"] else None


def _processes() -> list[int]:
    own = os.getpid()
    return [int(n) for n in os.listdir("/proc") if n.isdigit() and int(n) != own]  # noqa: PTH208


def _descendants() -> list[int]:
    """Every process below this one; those whose parent ended are its own children by now."""
    found, todo = [], [os.getpid()]
    while todo:
        pid = todo.pop()
        try:
            with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:  # noqa: PTH123
                children = [int(n) for n in file.read().split()]
        except (OSError, ValueError):
            continue
        found += children
        todo += children
    return found


def _memory(pid: int) -> int:
    """Bytes of memory that are a process's own or shared by name; 0 for one that has gone."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:  # noqa: PTH123
            lines = file.readlines()
    except OSError:
        return 0
    return sum(int(n.split()[1]) << 10 for n in lines if n.startswith(("RssAnon:", "RssShmem:")))


def _kill_all(child: int, *, isolated: bool) -> None:
    if isolated:
        return  # the end of the first process of a PID namespace is the end of all
    for _ in range(1000):
        below = _descendants() if sys.platform == "linux" else []
        for pid in below:
            _signal(os.kill, pid)
        _signal(os.killpg, child)
        _reap(child)
        if not below:
            return
        time.sleep(0.001)


def _signal(send: Callable[[int, int], None], target: int) -> None:
    try:
        send(target, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def _reap(wanted: int) -> int | None:
    """Let every child go that has ended; the status of the wanted one, if it is among them."""
    status = None
    try:
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == wanted:
                status = ended[1]
    except ChildProcessError:
        return status
    return status


def _supervise(plan: dict[str, Any], report: int) -> NoReturn:
    """Start the command, watch it, and say what became of it."""
    if plan["linux"]:
        _prctl(_SUBREAPER, 1)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    started = time.monotonic()
    child = os.fork()
    if child == 0:
        _exec(plan, report)
    if plan["linux"]:
        _prctl(_DUMPABLE, 0)
    for descriptor in (0, 1, 2):
        os.close(descriptor)
    watch = _Watch(plan)
    limit: str | None = None
    status: int | None = None
    while status is None and limit is None:
        _wait_a_little(plan)
        status = _reap(child)
        if status is None:
            limit = watch.over() if plan["linux"] else None
            late = time.monotonic() - started > plan["wall_s"]
            limit = limit or ("wall" if late else None)
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    told = {
        "code": None if status is None else os.waitstatus_to_exitcode(status),
        "limit": limit,
        "wall_s": time.monotonic() - started,
        "cpu_s": spent.ru_utime + spent.ru_stime,
        "memory_bytes": max(watch.memory_bytes, spent.ru_maxrss << 10),
    }
    _kill_all(child, isolated=plan["isolated"])
    os.write(report, json.dumps(told).encode())
    os._exit(0)


def _wait_a_little(plan: dict[str, Any]) -> None:
    """Until a child ends, and a hundredth of a second at most."""
    if plan["linux"]:
        signal.sigtimedwait([signal.SIGCHLD], _POLL_S)
    else:
        time.sleep(_POLL_S)


def main() -> NoReturn:
    """Read the plan and carry it out."""
    with os.fdopen(int(sys.argv[1]), "rb") as source:
        plan = json.loads(source.read())
    report = plan["report"]
    if plan["linux"]:
        _die_with_parent(plan["parent"])
    try:
        if plan["enter"]:
            _enter(plan)
        elif not plan["isolated"] and os.geteuid() == 0:
            _give_folder(plan["cwd"])  # without a lock no command is ever run as root
    except OSError as error:
        os.write(report, json.dumps({"refused": str(error)}).encode())
        os._exit(1)
    _supervise(plan, report)


if __name__ == "__main__":
    main()
