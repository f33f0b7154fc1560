"""What a report is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trajstore.pipeline.report.markup import Markup


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One part of the page."""

    name: str
    """Its anchor, and its key among the numbers."""
    title: str
    """Its heading."""
    facts: Any
    """Every number that it shows, JSON-ready."""
    body: Markup
    """What it shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Absent:
    """A part that the page does not have."""

    name: str
    """What its anchor would be."""
    title: str
    """What its heading would be."""
    why: str
    """What the runs lack for it, as a sentence."""
