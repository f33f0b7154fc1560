"""TRL: ``DPOTrainer`` and ``RewardTrainer``, with masks beside and a trainer that uses them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from trajstore.exports.files import Format, Kind
from trajstore.exports.preference.rows import PairRow, PairRowOptions
from trajstore.exports.preference.target import (
    PAIR_PROVENANCE,
    PairKind,
    PairTarget,
    pair_provenance,
)
from trajstore.exports.target import Record
from trajstore.exports.trl_masks import TRAINER_FILE, TRAINERS

_SIDES: Mapping[str, Kind] = {
    "prompt": "json-list",
    "chosen": "json-list",
    "rejected": "json-list",
    "tools": "string",
}
_MASKS: Mapping[str, Kind] = {"chosen_trainable": "bool-list", "rejected_trainable": "bool-list"}

_DPO = """```python
import sys

from datasets import load_dataset
from trl import DPOConfig

sys.path.insert(0, "path/to/this/folder")
from trl_masks import MaskedDPOTrainer

rows = load_dataset("path/to/this/folder", split="train")
config = DPOConfig(max_length=None)
MaskedDPOTrainer("model", args=config, train_dataset=rows).train()
```

**Do not train on this folder with a plain `DPOTrainer` where a side holds more than one message.**
It puts loss on everything behind the prompt, so on tool results and on what users say, which the
model did not choose. `chosen_trainable` and `rejected_trainable` say for each message whether loss
may fall on it; `MaskedDPOTrainer` in `trl_masks.py` is TRL's trainer with exactly that mask. It
needs a chat template with `{% generation %}`; TRL brings one for the families that it knows. Where
every side is one agent turn (`--level step`), the plain `DPOTrainer` does the same. `max_length` is
1024 unless set, which cuts most trajectories. Where a side opens with a user's words, TRL warns
that the prompt's end differs: the prompt is the part that both sides share.
"""

_REWARD = """```python
from datasets import load_dataset
from trl import RewardConfig, RewardTrainer

rows = load_dataset("path/to/this/folder", split="train")
config = RewardConfig(max_length=None)
RewardTrainer("model", args=config, train_dataset=rows).train()
```

The score is read at the end of prompt and side. `max_length` is 1024 unless set, and longer rows
are dropped.
"""


class TrlPairs(PairTarget):
    """Messages as JSON values, which ``datasets`` gives back without padding."""

    name: ClassVar[str] = "trl"
    title: ClassVar[str] = "TRL `DPOTrainer` and `RewardTrainer`"
    formats: ClassVar[tuple[Format, ...]] = ("parquet", "jsonl")
    usages: ClassVar[Mapping[PairKind, str]] = {"dpo": _DPO, "reward": _REWARD}

    def takes_margin(self, kind: PairKind) -> bool:
        """``RewardTrainer`` does."""
        return kind == "reward"

    def columns(self, kind: PairKind, options: PairRowOptions) -> Mapping[str, Kind]:
        """Both sides; masks for DPO, the margin for a reward model where it is asked for."""
        masks = _MASKS if kind == "dpo" else {}
        margin: dict[str, Kind] = {"margin": "double"} if options.margin else {}
        return {**_SIDES, **masks, **margin, **PAIR_PROVENANCE}

    def record(self, row: PairRow, kind: PairKind, options: PairRowOptions) -> Record:
        """The row as it is."""
        names = [n for n in self.columns(kind, options) if n not in PAIR_PROVENANCE]
        values = {n: getattr(row, n) for n in names}
        return Record(values={**values, **pair_provenance(row)})

    def further(self, kind: PairKind, data: str) -> Mapping[str, str]:
        """For DPO, the trainer that uses the masks."""
        del data
        return {TRAINER_FILE: TRAINERS} if kind == "dpo" else {}


TARGET = TrlPairs()
"""The target of this module."""
