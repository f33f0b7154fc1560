"""What a training target is: how rows become its records, and which files lie around them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from trajstore.errors import ExportError
from trajstore.exports.files import Format, Kind
from trajstore.exports.sft import Layout, Refusal, SftOptions, SftRow

PROVENANCE: Mapping[str, Kind] = {
    "trajectory_id": "string",
    "task_id": "string",
    "reward": "double",
}
"""Columns that say where a row comes from; every trainer that allows more columns gets them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One row in the shape of a target."""

    values: Mapping[str, Any]
    """Column -> value, in the order of the file."""
    applied: Mapping[str, int] = field(default_factory=dict)
    """Rules of the target that changed the row, counted."""


class Described:
    """What every target says of itself."""

    name: ClassVar[str]
    """What the user says."""
    title: ClassVar[str]
    """Its name and what it reads, in words."""
    formats: ClassVar[tuple[Format, ...]]
    """File formats that it reads; the first is written unless another is asked for."""
    usage: ClassVar[str]
    """How to train on the folder: Markdown, for the dataset card."""
    refusals: ClassVar[Mapping[str, str]] = {}
    """Reasons of its own for which there is no row, each with the way out."""
    rules: ClassVar[Mapping[str, str]] = {}
    """Rules of its own that change a row."""

    def files(self, data: str) -> Mapping[str, str]:
        """Further files of the folder: name -> text.

        Args:
            data: name of the file that holds the rows.
        """
        del data
        return {}


class SftTarget(Described, ABC):
    """One trainer. It says what it reads, and turns a row into that or refuses it."""

    layouts: ClassVar[tuple[Layout, ...]] = ("messages",)
    """Layouts of :class:`SftOptions` that it knows."""

    def prepare(self, options: SftOptions) -> SftOptions:
        """The options with what the target leaves no choice about.

        Raises:
            ExportError: a layout that it does not know.
        """
        if options.layout not in self.layouts:
            known = ", ".join(repr(name) for name in self.layouts)
            raise ExportError(f"{self.name} takes layout {known}, not {options.layout!r}")
        return options

    @abstractmethod
    def columns(self, options: SftOptions) -> Mapping[str, Kind]:
        """Columns of a record, in order."""

    @abstractmethod
    def record(self, row: SftRow, options: SftOptions) -> Record | Refusal:
        """The row as the target reads it, or why it cannot."""

    def refuse(self, row: SftRow, reason: str, detail: str) -> Refusal:
        """A refusal for one of the reasons in :attr:`refusals`, with the place in words."""
        said = f"{detail}. {self.refusals[reason]}"
        return Refusal(trajectory_id=row.trajectory_id, reason=reason, detail=said)


def provenance(row: SftRow) -> dict[str, Any]:
    """The values of :data:`PROVENANCE`."""
    return {n: getattr(row, n) for n in PROVENANCE}
