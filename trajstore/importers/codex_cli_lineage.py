"""Where a Codex session comes from, and how many tokens are its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from trajstore.importers.codex_cli_items import tokens_of
from trajstore.schema import trajectory_id

FAMILY = "codex-cli"
"""Family of all renderings of a session: rollout files and ``codex exec --json``."""

_BURST_S = 1.0
"""Codex writes copied history at once; a pause longer than this ends it."""


class Usage:
    """Token totals of a session; what a fork took over from its ancestor is not its own."""

    def __init__(self) -> None:
        """Start at nothing."""
        self._totals: dict[str, int] = {}
        self._copied: dict[str, int] = {}
        self._last: Any = None

    def count(self, info: Any) -> dict[str, int] | None:
        """Take in a ``token_count``: the tokens of one call, or None where it says nothing new.

        Counts are written again and again; only one whose total moved stands for a model call.
        """
        if not isinstance(info, Mapping):
            return None
        total = info.get("total_token_usage", info)
        if total == self._last:
            return None
        self._last = total
        self.reach(tokens_of(total))
        return tokens_of(info.get("last_token_usage"))

    def reach(self, total: dict[str, int]) -> None:
        """Raise the totals to ``total`` where it is higher."""
        if _sum(total) > _sum(self._totals):
            self._totals = total

    def mark_copied(self) -> None:
        """Say that all tokens so far are the ancestor's."""
        self._copied = dict(self._totals)

    def own(self) -> dict[str, Any]:
        """Token columns of the run."""
        return {k: v - self._copied.get(k, 0) for k, v in self._totals.items()}


class Clock:
    """First and last moment of a session, and whether its opening burst still goes on."""

    def __init__(self) -> None:
        """Start before the first line."""
        self.first: datetime | None = None
        self.last: datetime | None = None
        self.burst = True

    def tick(self, time: datetime | None) -> bool:
        """Move on to the time of a line; True where its pause ends the opening burst."""
        if time is None:
            return False
        pause = (time - self.last).total_seconds() if self.last is not None else 0.0
        ends = self.burst and pause > _BURST_S
        self.burst = self.burst and not ends
        self.first, self.last = self.first or time, time
        return ends


def is_fork(meta: Mapping[str, Any], ancestors: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a session may open with history that it copied from another one."""
    return bool(ancestors or meta.get("forked_from_id") or _spawner(meta))


def lineage(meta: Mapping[str, Any], ancestors: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Parent columns of a sub-agent or a fork; empty for a session that stands alone."""
    spawner = _spawner(meta)
    parent = spawner or meta.get("forked_from_id")
    if not parent and ancestors:
        parent = ancestors[0].get("id")
    if not parent:
        return {}
    relation = "sub-agent" if spawner else "branch"
    return {"parent_id": trajectory_id(FAMILY, str(parent)), "relation": relation}


def _spawner(meta: Mapping[str, Any]) -> Any:
    """Id of the thread that started this one as a sub-agent, or None."""
    source = meta.get("source")
    if not isinstance(source, Mapping) or "subagent" not in source:
        return None
    how = source["subagent"]
    spawn = how.get("thread_spawn") if isinstance(how, Mapping) else None
    return (spawn or {}).get("parent_thread_id") or meta.get("parent_thread_id")


def _sum(usage: Mapping[str, int]) -> int:
    return usage.get("prompt_tokens", 0) + usage.get("completion_tokens", 0)
