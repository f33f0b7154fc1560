"""LLaMA-Factory: ``ranking: true`` over its sharegpt form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from trajstore.exports.files import Format, Kind
from trajstore.exports.llama_factory import TARGET as SFT_TARGET
from trajstore.exports.llama_factory import dataset_info, turns_of
from trajstore.exports.preference.rows import PairRow, PairRowOptions
from trajstore.exports.preference.target import (
    PAIR_PROVENANCE,
    SEVERAL_TURNS,
    PairKind,
    PairTarget,
    need_single_turns,
    pair_provenance,
)
from trajstore.exports.target import Record

_USAGE = """```yaml
stage: {stage}
dataset_dir: path/to/this/folder
dataset: trajstore
```

Reasoning stands in `<think>` before the text or the calls, text beside calls before a `<tool_call>`
pair. Set `cutoff_len`, which is 2048 unless set and cuts most trajectories.
"""


class LlamaFactoryPairs(PairTarget):
    """Turns that alternate, and one message a side."""

    name: ClassVar[str] = "llama-factory"
    title: ClassVar[str] = "LLaMA-Factory `dpo` and `rm` (`ranking: true`)"
    formats: ClassVar[tuple[Format, ...]] = ("jsonl",)
    usages: ClassVar[Mapping[PairKind, str]] = {
        "dpo": _USAGE.format(stage="dpo"),
        "reward": _USAGE.format(stage="rm"),
    }
    refusals: ClassVar[Mapping[str, str]] = {
        SEVERAL_TURNS: "LLaMA-Factory compares one message with another, so it can only carry "
        "pairs of single steps; build pairs with level='step', or export whole runs to trl",
        **SFT_TARGET.refusals,
    }
    rules: ClassVar[Mapping[str, str]] = SFT_TARGET.rules

    def prepare(self, options: PairRowOptions, kind: PairKind) -> PairRowOptions:
        """Arguments as objects: LLaMA-Factory writes them as its template wants."""
        return replace(super().prepare(options, kind), arguments="object")

    def columns(self, kind: PairKind, options: PairRowOptions) -> Mapping[str, Kind]:
        """All text, so that no reader can pad a turn."""
        del kind, options
        return {
            "conversations": "json-list",
            "chosen": "json",
            "rejected": "json",
            "system": "string",
            "tools": "string",
            **PAIR_PROVENANCE,
        }

    def record(self, row: PairRow, kind: PairKind, options: PairRowOptions) -> Record:
        """Turns of the prompt, and a turn a side."""
        del kind, options
        need_single_turns(row)
        applied: Counter[str] = Counter()
        system, chosen = turns_of([*row.prompt, *row.chosen], applied)
        _, rejected = turns_of([*row.prompt, *row.rejected], Counter())
        values = {
            "conversations": chosen[:-1],
            "chosen": chosen[-1],
            "rejected": rejected[-1],
            "system": system,
            "tools": row.tools or "",
            **pair_provenance(row),
        }
        return Record(values=values, applied=applied)

    def files(self, data: str) -> Mapping[str, str]:
        """``dataset_info.json`` with the one data set ``trajstore``."""
        return dataset_info(data, ranking=True, chosen="chosen", rejected="rejected")


TARGET = LlamaFactoryPairs()
"""The target of this module."""
