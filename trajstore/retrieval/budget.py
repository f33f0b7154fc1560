"""How the context window of a model is shared out in a long run."""

from __future__ import annotations

from dataclasses import dataclass

from trajstore.errors import RetrievalError


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextBudget:
    """Tokens for each part of a context; by default the 128K of a deep-research agent.

    The reserve is for the answer. No part takes what another leaves over, so a prompt that fits
    goes on to fit; only a system prompt or an intent that is too long takes from the history, as
    nobody may shorten it.
    """

    system: int = 2_000
    """The system prompt."""
    conversation: int = 4_000
    """The intent: what the user asked, before and during the run."""
    history: int = 80_000
    """Tool calls and results before the current one."""
    observation: int = 32_000
    """Results of the newest step."""
    reserve: int = 10_000
    """Kept free for what the model writes."""

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            RetrievalError: one is negative.
        """
        parts = (self.system, self.conversation, self.history, self.observation, self.reserve)
        if min(parts) < 0:
            raise RetrievalError(f"Parts of a context are 0 or more tokens, not {min(parts)}.")

    @classmethod
    def of(cls, total: int) -> ContextBudget:
        """The same shares of another window.

        >>> ContextBudget.of(32_000).history
        20000

        Args:
            total: tokens of the window.
        """
        whole = cls()
        names = ("system", "conversation", "history", "observation")
        parts = {n: getattr(whole, n) * total // whole.total for n in names}
        return cls(**parts, reserve=total - sum(parts.values()))

    @property
    def total(self) -> int:
        """Tokens of the whole window, the reserve included."""
        return self.prompt + self.reserve

    @property
    def prompt(self) -> int:
        """Tokens that a prompt may have."""
        return self.system + self.conversation + self.history + self.observation
