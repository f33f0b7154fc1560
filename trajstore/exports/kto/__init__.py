"""KTO sets: single runs, each labelled good or bad."""

from __future__ import annotations

from trajstore.exports.kto.export import export_kto
from trajstore.exports.kto.rows import (
    DEFAULT_OPTIONS,
    REFUSALS,
    Judged,
    KtoOptions,
    KtoRow,
    kto_rows,
)
from trajstore.exports.kto.targets import KTO_TARGETS, KtoTarget, kto_target

__all__ = [
    "DEFAULT_OPTIONS",
    "KTO_TARGETS",
    "REFUSALS",
    "Judged",
    "KtoOptions",
    "KtoRow",
    "KtoTarget",
    "export_kto",
    "kto_rows",
    "kto_target",
]
