"""What a preference target is, and the checks that several of them share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from trajstore.errors import ExportError
from trajstore.exports.conversation import Unfit
from trajstore.exports.files import Kind
from trajstore.exports.preference.rows import PairRow, PairRowOptions, refused
from trajstore.exports.target import Described, Record
from trajstore.exports.writing import Refused

PairKind = Literal["dpo", "reward"]
"""Preference optimisation, or a reward model."""

PAIR_PROVENANCE: Mapping[str, Kind] = {
    "pair_id": "string",
    "task_id": "string",
    "chosen_id": "string",
    "rejected_id": "string",
    "chosen_reward": "double",
    "rejected_reward": "double",
    "weight": "double",
}
"""Columns that say where a row comes from; every trainer that allows more columns gets them."""

SEVERAL_TURNS = "several-turns"
"""Reason of targets whose sides are one message."""


class PairTarget(Described, ABC):
    """One trainer. It says what it reads of a pair, and turns one into that or refuses it."""

    kinds: ClassVar[tuple[PairKind, ...]] = ("dpo", "reward")
    """Kinds of sets that it reads."""
    usages: ClassVar[Mapping[PairKind, str]]
    """How to train on the folder, by kind: Markdown, for the dataset card."""

    def prepare(self, options: PairRowOptions, kind: PairKind) -> PairRowOptions:
        """The options with what the target leaves no choice about.

        Raises:
            ExportError: a margin where nothing reads it.
        """
        if options.margin and not self.takes_margin(kind):
            raise ExportError(
                f"{self.name} reads no margin for {kind}; trl and openrlhf do for reward"
            )
        return options

    def takes_margin(self, kind: PairKind) -> bool:
        """Whether the trainer reads a column ``margin``."""
        del kind
        return False

    def further(self, kind: PairKind, data: str) -> Mapping[str, str]:
        """Further files of the folder for that kind: name -> text."""
        del kind
        return self.files(data)

    @abstractmethod
    def columns(self, kind: PairKind, options: PairRowOptions) -> Mapping[str, Kind]:
        """Columns of a record, in order."""

    @abstractmethod
    def record(self, row: PairRow, kind: PairKind, options: PairRowOptions) -> Record:
        """The row as the target reads it.

        Raises:
            Unfit: it cannot; the reason is among :attr:`refusals`.
        """

    def record_or_refusal(
        self, row: PairRow, kind: PairKind, options: PairRowOptions
    ) -> Record | Refused:
        """The row as the target reads it, or why it cannot."""
        try:
            return self.record(row, kind, options)
        except Unfit as unfit:
            return refused(row.pair_id, row.chosen_id, row.rejected_id, unfit, self.refusals)


def pair_provenance(row: PairRow) -> dict[str, Any]:
    """The values of :data:`PAIR_PROVENANCE`."""
    return {n: getattr(row, n) for n in PAIR_PROVENANCE}


def need_single_turns(row: PairRow) -> None:
    """Refuse a pair whose sides are more than one agent turn.

    Raises:
        Unfit: as ``several-turns``.
    """
    if not row.is_single_turn():
        sizes = f"the chosen side has {len(row.chosen)} messages, the rejected {len(row.rejected)}"
        raise Unfit(SEVERAL_TURNS, sizes)
