"""Another outcome of a run that is there already: what an append leaves out, and says so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """A version of a run that says another outcome than the one that stays.

    Which outcome is right, no rule can tell; a label can add the other one.
    """

    trajectory_id: str
    """The run."""
    source_uri: str | None
    """Where the version that was left out came from."""
    success: bool | None
    """Its success."""
    reward: float | None
    """Its reward."""
    kept_success: bool | None
    """Success of the version that stays."""
    kept_reward: float | None
    """Reward of the version that stays."""

    def __str__(self) -> str:
        """Read as ``reward 1; the stored one (reward 0) stays``."""
        given = _words(self.reward, success=self.success)
        kept = _words(self.kept_reward, success=self.kept_success)
        return f"{given}; the stored one ({kept}) stays"


def conflict(
    given: Mapping[str, Any], *, success: bool | None, reward: float | None
) -> Conflict | None:
    """The conflict of a version with the outcome that stays, or None.

    There is one where the version knows a success or a reward that the other one does not have.

    Args:
        given: row of the version that is left out.
        success: success of the version that stays.
        reward: reward of the version that stays.
    """
    if not (_other(given["success"], success) or _other(given["reward"], reward)):
        return None
    return Conflict(
        trajectory_id=given["trajectory_id"],
        source_uri=given["source_uri"],
        success=given["success"],
        reward=given["reward"],
        kept_success=success,
        kept_reward=reward,
    )


def _other(given: float | None, kept: float | None) -> bool:
    """Whether a known value is another one; NaN is the same as NaN."""
    if given is None or given == kept:
        return False
    return given == given or kept is None or kept == kept  # noqa: PLR0124  of NaN, that is false


def _words(reward: float | None, *, success: bool | None) -> str:
    verdict = None if success is None else "success" if success else "no success"
    number = None if reward is None else f"reward {reward:g}"
    return ", ".join(part for part in (verdict, number) if part) or "no outcome"
