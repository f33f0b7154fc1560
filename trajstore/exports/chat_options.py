"""Choices about messages that every kind of set but SFT shares."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args, get_type_hints

from trajstore.errors import ExportError
from trajstore.exports.messages import ChatRules


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatOptions:
    """How steps become the messages of a row."""

    arguments: Literal["object", "text"] = "object"
    """Arguments of calls parsed, as TRL documents, or byte for byte what the model wrote. Each
    target that reads only one of the two gets that."""
    include_reasoning: bool = True
    """Write ``reasoning_content``."""
    media: Literal["refuse", "mark"] = "refuse"
    """Whether parts that are no text become a mark such as ``[image]``."""
    environment: Literal["user", "drop"] = "user"
    """What becomes of environment steps: user messages, or nothing."""
    consecutive: Literal["keep", "merge"] = "keep"
    """Whether user or system messages in a row stay or become one; a prompt and what follows it
    never do."""

    def __post_init__(self) -> None:
        """Refuse unknown choices with the real ones."""
        hints = get_type_hints(type(self))
        for found in fields(self):
            known = get_args(hints[found.name])
            value = getattr(self, found.name)
            if known and type(None) not in known and value not in known:
                choices = ", ".join(repr(k) for k in known)
                raise ExportError(f"{found.name} is {value!r}; it must be one of {choices}")

    def rules(self, *, train_format_errors: bool) -> ChatRules:
        """The part that concerns messages."""
        return ChatRules(
            include_reasoning=self.include_reasoning,
            train_format_errors=train_format_errors,
            environment=self.environment,
            consecutive=self.consecutive,
        )

    def parameters(self) -> dict[str, Any]:
        """JSON-ready values."""
        return asdict(self)
