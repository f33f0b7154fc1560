"""Pieces of Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_HEADER = "<!-- Written by `python -m docs.generate`; do not edit. -->"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(c.replace('|', chr(92) + '|') for c in r)} |\n" for r in lines)


def page(title: str, *parts: str) -> str:
    """A page that says on top that it is generated."""
    body = "\n".join(part.strip("\n") + "\n" for part in parts)
    return f"{_HEADER}\n\n# {title}\n\n{body}"


def codes(values: Iterable[str]) -> str:
    """Values as code, with commas between."""
    return ", ".join(f"`{v}`" for v in values)


def prose(text: str) -> str:
    """Text in which Markdown sees no HTML."""
    return text.replace("<", "&lt;").replace(">", "&gt;")
