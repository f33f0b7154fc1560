"""OpenRLHF: whole conversations under one key (``--data.multiturn``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from trajstore.exports.files import Format, Kind
from trajstore.exports.sft import Refusal, SftOptions, SftRow
from trajstore.exports.target import PROVENANCE, Record, SftTarget, provenance


class OpenRlhfTarget(SftTarget):
    """``messages`` as JSON values, which ``datasets`` gives back without padding."""

    name: ClassVar[str] = "openrlhf"
    title: ClassVar[str] = "OpenRLHF multi-turn SFT"
    formats: ClassVar[tuple[Format, ...]] = ("jsonl", "parquet")
    usage: ClassVar[str] = """```sh
python -m openrlhf.cli.train_sft --data.dataset path/to/this/folder \\
  --data.input_key messages --data.apply_chat_template --data.multiturn --data.max_len 32768
```

Give the folder and not the file: only then the card above keeps absent keys absent. Loss falls on
every assistant message, found by rendering each prefix anew, so the chat template must not change
earlier turns (many drop earlier reasoning: `include_reasoning=False` avoids it). OpenRLHF does not
show tools to the template; the column is there for a template or a script of yours.
"""
    refusals: ClassVar[Mapping[str, str]] = {
        "agent-first": "the run opens with an agent turn, and OpenRLHF renders what comes before "
        "each agent turn, which is nothing; leave such runs out, or export to trl with "
        "layout='prompt-completion'",
    }
    rules: ClassVar[Mapping[str, str]] = {
        "tools-not-shown": "the run offered tools, and OpenRLHF trains without showing them",
    }

    def columns(self, options: SftOptions) -> Mapping[str, Kind]:
        """Messages, and the tools as text."""
        del options
        return {"messages": "json-list", "tools": "string", **PROVENANCE}

    def record(self, row: SftRow, options: SftOptions) -> Record | Refusal:
        """The messages as they are."""
        del options
        if row.messages[0]["role"] == "assistant":
            return self.refuse(row, "agent-first", "message 1 is the agent's")
        values = {"messages": row.messages, "tools": row.tools, **provenance(row)}
        return Record(values=values, applied={"tools-not-shown": int(row.tools is not None)})


TARGET = OpenRlhfTarget()
"""The target of this module."""
