"""What comes after a selection with a dot: pairs, groups and exports of a store's runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from trajstore.errors import ExportError
from trajstore.exports import AtifReport, ExportReport
from trajstore.filters import Selection
from trajstore.pairs import GroupReport, PairReport
from trajstore.pipeline.exporting import export_sft_from
from trajstore.pipeline.exporting_atif import export_atif_from
from trajstore.pipeline.exporting_pairs import export_kto_from, export_pairs_from
from trajstore.pipeline.exporting_rl import export_groups_from, export_prompts_from
from trajstore.pipeline.pairing import build_groups, build_pairs
from trajstore.store import Store

ExportKind = Literal["sft", "dpo", "reward", "kto", "prompts", "grpo", "atif"]

_EXPORTS: dict[str, Callable[..., ExportReport | AtifReport]] = {
    "sft": export_sft_from,
    "dpo": export_pairs_from,
    "reward": export_pairs_from,
    "kto": export_kto_from,
    "prompts": export_prompts_from,
    "grpo": export_groups_from,
    "atif": export_atif_from,
}


def export(
    store: Store, kind: ExportKind, out: Path | str | None, **how: Any
) -> ExportReport | AtifReport:
    """Write a training set of one kind, or runs as ATIF.

    Args:
        store: where from.
        kind: as the commands ``trajstore export KIND`` are called.
        out: folder to write to, ``-`` for JSON lines on stdout, or None to only count (not for
            ``atif``, which writes a folder).
        how: as :func:`export_sft_from`, :func:`export_pairs_from` (``dpo`` and ``reward``),
            :func:`export_kto_from`, :func:`export_prompts_from`, :func:`export_groups_from`
            (``grpo``) and ``trajstore export atif`` take it: ``to``, ``where``, ``selection``, ...

    Raises:
        ExportError: there is no such kind, or the trainer cannot read it.
    """
    if kind not in _EXPORTS:
        raise ExportError(f"There is no export '{kind}'. There are: {', '.join(_EXPORTS)}.")
    if kind in {"dpo", "reward"}:
        how = {**how, "kind": kind}
    return _EXPORTS[kind](store, out, **how)


@dataclass(frozen=True, slots=True)
class StoreSelection(Selection):
    """A selection that knows its store."""

    store: Store | None = None
    """Where the runs are."""

    def pairs(self, **how: Any) -> tuple[pa.Table, PairReport]:
        """Preference pairs of these runs; see :func:`trajstore.pipeline.build_pairs`.

        Args:
            how: its ``options``, ``step_values`` and ``alpha``.
        """
        return build_pairs(self._known, self, **how)

    def groups(self, **how: Any) -> tuple[pa.Table, GroupReport]:
        """These runs by task, with advantages; see :func:`trajstore.pipeline.build_groups`.

        Args:
            how: its ``options``.
        """
        return build_groups(self._known, self, **how)

    def export(
        self, kind: ExportKind, out: Path | str | None, **how: Any
    ) -> ExportReport | AtifReport:
        """Write a training set of these runs; see :func:`export`.

        Args:
            kind: ``sft``, ``dpo``, ``reward``, ``kto``, ``prompts``, ``grpo`` or ``atif``.
            out: where to.
            how: what that export takes beside a selection: ``to``, ``options``, ...
        """
        return export(self._known, kind, out, selection=self, **how)

    @property
    def _known(self) -> Store:
        if self.store is None:
            raise ExportError("this selection knows no store; make it with store.select(...)")
        return self.store
