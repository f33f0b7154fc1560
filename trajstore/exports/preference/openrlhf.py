"""OpenRLHF: ``train_dpo`` and ``train_rm`` over message lists."""

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

_DPO = """```sh
python -m openrlhf.cli.train_dpo --data.dataset path/to/this/folder \\
  --data.prompt_key prompt --data.chosen_key chosen --data.rejected_key rejected \\
  --data.apply_chat_template --data.max_len 32768
```

Give the folder and not the file: only then the card above keeps absent keys absent. OpenRLHF does
not show tools to the template; the column is there for a template or a script of yours.
"""

_REWARD = """```sh
python -m openrlhf.cli.train_rm --data.dataset path/to/this/folder \\
  --data.chosen_key chosen --data.rejected_key rejected \\
  --data.apply_chat_template --data.max_len 32768
```

Both sides are whole conversations, and no `prompt_key` is given: OpenRLHF finds where the answer
begins by counting characters of the rendered prompt, which goes wrong for sides that open with
anything but an agent turn. Give the folder and not the file. OpenRLHF does not show tools to the
template; the column is there for a template or a script of yours.
"""


class OpenRlhfPairs(PairTarget):
    """``prompt``, ``chosen``, ``rejected`` for DPO; whole conversations for a reward model."""

    name: ClassVar[str] = "openrlhf"
    title: ClassVar[str] = "OpenRLHF `train_dpo` and `train_rm`"
    formats: ClassVar[tuple[Format, ...]] = ("jsonl", "parquet")
    usages: ClassVar[Mapping[PairKind, str]] = {"dpo": _DPO, "reward": _REWARD}
    refusals: ClassVar[Mapping[str, str]] = {
        SEVERAL_TURNS: "OpenRLHF's DPO puts loss on everything behind the prompt, and no mask can "
        "spare tool results and users; build pairs with level='step', or export whole runs to trl",
    }
    rules: ClassVar[Mapping[str, str]] = {
        "tools-not-shown": "the run offered tools, and OpenRLHF trains without showing them",
    }

    def takes_margin(self, kind: PairKind) -> bool:
        """``train_rm`` does."""
        return kind == "reward"

    def columns(self, kind: PairKind, options: PairRowOptions) -> Mapping[str, Kind]:
        """Message lists, and the tools as text."""
        prompt: dict[str, Kind] = {"prompt": "json-list"} if kind == "dpo" else {}
        sides: dict[str, Kind] = {"chosen": "json-list", "rejected": "json-list"}
        margin: dict[str, Kind] = {"margin": "double"} if options.margin else {}
        return {**prompt, **sides, "tools": "string", **margin, **PAIR_PROVENANCE}

    def record(self, row: PairRow, kind: PairKind, options: PairRowOptions) -> Record:
        """Sides of one agent turn, or for a reward model of any length."""
        before = row.prompt
        if kind == "dpo":
            need_single_turns(row)
            before = []
        values = {
            **({"prompt": row.prompt} if kind == "dpo" else {}),
            "chosen": [*before, *row.chosen],
            "rejected": [*before, *row.rejected],
            "tools": row.tools,
            **({"margin": row.margin} if options.margin else {}),
            **pair_provenance(row),
        }
        return Record(values=values, applied={"tools-not-shown": int(row.tools is not None)})


TARGET = OpenRlhfPairs()
"""The target of this module."""
