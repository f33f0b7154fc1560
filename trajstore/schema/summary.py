"""The numbers and hashes of a trajectory, computed at import, the same way for every source."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime

from trajstore.schema.ids import canonical_action, mask_volatile
from trajstore.schema.trajectory import Step, Trajectory


def counted(step: Step) -> bool:
    """Whether a step counts as the agent's own: by the agent and not copied context."""
    return step.actor == "agent" and not step.is_copied


def finish(trajectory: Trajectory, *, state_keys: bool = True, digest: bool = True) -> Trajectory:
    """Fill in counts, token sums, size, content digest and (for agent steps) state keys.

    Args:
        trajectory: as an importer or a rollout made it.
        state_keys: also hash what the agent could see before each of its steps.
        digest: also hash the content.

    Returns:
        A copy with ``n_*``, ``size_bytes``, ``source_digest`` and missing token sums set. A token
        sum that is already set stays. Sums over no known number are None, not 0.
    """
    steps = _with_state_keys(trajectory) if state_keys else trajectory.steps
    own = [s for s in steps if counted(s)]
    return replace(
        trajectory,
        steps=steps,
        n_steps=len(steps),
        n_agent_steps=len(own),
        n_tool_calls=sum(len(s.tool_calls) for s in own),
        n_tool_errors=sum(o.is_error is True for s in own for o in s.observations),
        n_format_errors=sum(s.format_error for s in own),
        prompt_tokens=_or_sum(trajectory.prompt_tokens, (s.prompt_tokens for s in own)),
        completion_tokens=_or_sum(trajectory.completion_tokens, (s.completion_tokens for s in own)),
        cached_tokens=_or_sum(trajectory.cached_tokens, (s.cached_tokens for s in own)),
        size_bytes=sum(_bytes(part) for s in steps for part in texts(s)),
        source_digest=_digest(trajectory) if digest else trajectory.source_digest,
    )


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def _digest(trajectory: Trajectory) -> str:
    return trajectory.source_digest or content_digest(trajectory)


def _or_sum(given: int | None, values: Iterable[int | None]) -> int | None:
    known = [v for v in values if v is not None]
    if given is not None or not known:
        return given
    return sum(known)


def texts(step: Step) -> Iterable[str]:
    """All text of a step that was said, thought, called or observed, in order."""
    if step.reasoning:
        yield step.reasoning
    if step.text:
        yield step.text
    for call in step.tool_calls:
        yield call.arguments_raw or ""
    for observation in step.observations:
        yield observation.text or ""


def content_digest(trajectory: Trajectory) -> str:
    """SHA-256 over what was said and done, not over where it was found."""
    sha = hashlib.sha256()
    for step in trajectory.steps:
        sha.update(f"\x1e{step.actor}\x1f".encode())
        for call in step.tool_calls:
            sha.update(f"{call.name}\x1f".encode("utf-8", "backslashreplace"))
        for part in texts(step):
            sha.update(part.encode("utf-8", "backslashreplace"))
            sha.update(b"\x1f")
    return sha.hexdigest()


def _with_state_keys(trajectory: Trajectory) -> tuple[Step, ...]:
    """Give each agent step the hash of everything visible before it, volatile values masked.

    The goal counts as visible. A first step of which nothing is known that came before has no key.
    """
    seen = hashlib.sha256(mask_volatile(trajectory.goal or "").encode("utf-8", "backslashreplace"))
    keyed: list[Step] = []
    for step in trajectory.steps:
        known = bool(keyed or trajectory.goal or step.state)
        if step.actor == "agent" and step.state_key is None and known:
            here = seen.copy()
            here.update(mask_volatile(step.state or "").encode("utf-8", "backslashreplace"))
            keyed.append(replace(step, state_key=here.hexdigest()[:32]))
        else:
            keyed.append(step)
        actions = [
            canonical_action(c.name, c.arguments or c.arguments_raw) for c in step.tool_calls
        ]
        said = [] if step.actor == "agent" and actions else [step.text or ""]
        results = [o.text or "" for o in step.observations]
        for visible in (step.actor, *said, *actions, *results):
            seen.update(mask_volatile(visible).encode("utf-8", "backslashreplace"))
            seen.update(b"\x1f")
        seen.update(b"\x1e")
    return tuple(keyed)


def now() -> datetime:
    """The present moment in UTC."""
    return datetime.now(UTC)
