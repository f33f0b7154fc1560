"""NeMo-RL: ``context`` and ranked ``completions``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from trajstore.exports.files import Format, Kind
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
data:
  dataset_name: PreferenceDataset
  train_data_path: path/to/this/folder/train.jsonl
```

`completions` are ranked, 0 is the better one. NeMo-RL does not show tools to the template; the
column is there for a template or a script of yours.
"""


class NemoRlPairs(PairTarget):
    """``context`` and two completions of ranks 0 and 1."""

    name: ClassVar[str] = "nemo-rl"
    title: ClassVar[str] = "NeMo-RL DPO and reward models (`PreferenceDataset`)"
    formats: ClassVar[tuple[Format, ...]] = ("jsonl",)
    usages: ClassVar[Mapping[PairKind, str]] = {"dpo": _USAGE, "reward": _USAGE}
    refusals: ClassVar[Mapping[str, str]] = {
        SEVERAL_TURNS: "NeMo-RL's DPO puts loss on the last message alone, so earlier turns of a "
        "side would count for nothing; build pairs with level='step', or export whole runs to trl",
    }
    rules: ClassVar[Mapping[str, str]] = {
        "tools-not-shown": "the run offered tools, and NeMo-RL trains without showing them",
    }

    def columns(self, kind: PairKind, options: PairRowOptions) -> Mapping[str, Kind]:
        """Messages as JSON values, and the tools as text."""
        del kind, options
        sides: dict[str, Kind] = {"context": "json-list", "completions": "json-list"}
        return {**sides, "tools": "string", **PAIR_PROVENANCE}

    def record(self, row: PairRow, kind: PairKind, options: PairRowOptions) -> Record:
        """Rank 0 is the chosen side. A reward model reads sides of any length."""
        del options
        if kind == "dpo":
            need_single_turns(row)
        ranked = [
            {"rank": rank, "completion": side}
            for rank, side in enumerate((row.chosen, row.rejected))
        ]
        values = {
            "context": row.prompt,
            "completions": ranked,
            "tools": row.tools,
            **pair_provenance(row),
        }
        return Record(values=values, applied={"tools-not-shown": int(row.tools is not None)})


TARGET = NemoRlPairs()
"""The target of this module."""
