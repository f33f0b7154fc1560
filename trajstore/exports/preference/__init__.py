"""Preference sets: pairs in the shapes that DPO and reward trainers read."""

from __future__ import annotations

from trajstore.exports.preference.export import PAIR_TARGETS, export_pairs, pair_target
from trajstore.exports.preference.rows import (
    DEFAULT_OPTIONS,
    REFUSALS,
    PairRow,
    PairRowOptions,
    pair_rows,
)
from trajstore.exports.preference.target import PairKind, PairTarget

__all__ = [
    "DEFAULT_OPTIONS",
    "PAIR_TARGETS",
    "REFUSALS",
    "PairKind",
    "PairRow",
    "PairRowOptions",
    "PairTarget",
    "export_pairs",
    "pair_rows",
    "pair_target",
]
