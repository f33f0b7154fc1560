"""axolotl: ``rl: dpo`` with ``type: chat_template.default``, which reads words alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from trajstore.exports.conversation import Unfit
from trajstore.exports.files import Format, Kind
from trajstore.exports.messages import Message
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
rl: dpo
datasets:
  - path: path/to/this/folder
    split: train
    type: chat_template.default
    field_messages: messages
    field_chosen: chosen
    field_rejected: rejected
```

axolotl reads role and content of each message and nothing else, so no row here holds a call.
"""


class AxolotlPairs(PairTarget):
    """``messages``, ``chosen``, ``rejected``, all of role and content."""

    name: ClassVar[str] = "axolotl"
    title: ClassVar[str] = "axolotl DPO (`type: chat_template.default`)"
    formats: ClassVar[tuple[Format, ...]] = ("jsonl", "parquet")
    kinds: ClassVar[tuple[PairKind, ...]] = ("dpo",)
    usages: ClassVar[Mapping[PairKind, str]] = {"dpo": _USAGE}
    refusals: ClassVar[Mapping[str, str]] = {
        SEVERAL_TURNS: "axolotl takes the last message of a side and drops the others; build pairs "
        "with level='step', or export whole runs to trl",
        "calls-lost": "axolotl's DPO reads the content of messages and drops their calls; export "
        "to trl, openai, llama-factory or openrlhf, which keep them",
    }
    rules: ClassVar[Mapping[str, str]] = {
        "tools-not-shown": "the run offered tools, and axolotl's DPO trains without showing them",
    }

    def prepare(self, options: PairRowOptions, kind: PairKind) -> PairRowOptions:
        """No reasoning, which axolotl's DPO would not read."""
        return replace(super().prepare(options, kind), include_reasoning=False)

    def columns(self, kind: PairKind, options: PairRowOptions) -> Mapping[str, Kind]:
        """The prompt, and a message a side."""
        del kind, options
        said: dict[str, Kind] = dict.fromkeys(("messages", "chosen", "rejected"), "said-list")
        return {**said, **PAIR_PROVENANCE}

    def record(self, row: PairRow, kind: PairKind, options: PairRowOptions) -> Record:
        """Rows without any call."""
        del kind, options
        need_single_turns(row)
        sides = {"messages": row.prompt, "chosen": row.chosen, "rejected": row.rejected}
        values: dict[str, Any] = {n: _words(side) for n, side in sides.items()}
        shown = {"tools-not-shown": int(row.tools is not None)}
        return Record(values={**values, **pair_provenance(row)}, applied=shown)


def _words(messages: list[Message]) -> list[Message]:
    for message in messages:
        if "tool_calls" in message or message["role"] == "tool":
            raise Unfit("calls-lost", f"a message of {message['role']}")
    return [{"role": m["role"], "content": m["content"]} for m in messages]


TARGET = AxolotlPairs()
"""The target of this module."""
