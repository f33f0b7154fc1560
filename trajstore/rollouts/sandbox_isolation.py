"""Which way of locking a process in this machine offers."""

from __future__ import annotations

import functools
import shutil
import sys
from typing import TYPE_CHECKING, Literal

from trajstore.errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Sequence

Isolation = Literal["namespaces", "bubblewrap", "none"]
"""How a run is locked in: by namespaces of our own, by ``bwrap``, or by limits alone."""

_WAYS: tuple[Isolation, ...] = ("namespaces", "bubblewrap")


def find_isolation(
    *, allow_unisolated: bool = False, ways: Sequence[Isolation] = _WAYS
) -> Isolation:
    """The first way that works, tried once a process with a command that does nothing.

    Args:
        allow_unisolated: answer ``none`` where nothing works.
        ways: which to try, in this order.

    Raises:
        SandboxError: nothing works; the message says what was tried and what to do.
    """
    refusals = []
    for way in ways:
        refusal = why_not(way)
        if refusal is None:
            return way
        refusals.append(f"{way}: {refusal}")
    if allow_unisolated:
        return "none"
    tried = "; ".join(refusals)
    message = (
        f"Code cannot be locked in on this machine ({tried}). Allow user namespaces "
        "(sysctl user.max_user_namespaces), install bubblewrap, run as root, or accept code that "
        "can use the network and your files with allow_unisolated=True (--allow-unisolated)."
    )
    raise SandboxError(message)


@functools.cache
def why_not(way: Isolation) -> str | None:
    """Why a way does not work here, or None if it does."""
    from trajstore.rollouts.sandbox import SandboxLimits
    from trajstore.rollouts.sandbox_process import Job, run_job

    if sys.platform != "linux":
        return f"needs Linux, this is {sys.platform}"
    if way == "bubblewrap" and shutil.which("bwrap") is None:
        return "bwrap is not installed"
    try:
        ended = run_job(Job(command=(sys.executable, "-I", "-c", "")), SandboxLimits(), way)
    except SandboxError as error:
        return str(error)
    return None if ended.code == 0 else ended.stderr.text().strip() or "a test run failed"
