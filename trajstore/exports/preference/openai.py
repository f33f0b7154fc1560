"""OpenAI's preference file: one input, one preferred and one non-preferred answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from trajstore.exports.conversation import Unfit
from trajstore.exports.files import Format, Kind
from trajstore.exports.messages import Message
from trajstore.exports.openai import TARGET as SFT_TARGET
from trajstore.exports.openai import bad_name, bare, unanswered
from trajstore.exports.preference.rows import PairRow, PairRowOptions
from trajstore.exports.preference.target import (
    SEVERAL_TURNS,
    PairKind,
    PairTarget,
    need_single_turns,
)
from trajstore.exports.target import Record

_USAGE = """Upload the data file with purpose `fine-tune` and method `dpo`. Each row has `input`
(messages, tools), `preferred_output` and `non_preferred_output` of one assistant message each. The
format has no place for reasoning or for ids; rows follow the order of the pairs, whose ids
`manifest.json` hashes.
"""


class OpenAIPairs(PairTarget):
    """``input``, ``preferred_output``, ``non_preferred_output``."""

    name: ClassVar[str] = "openai"
    title: ClassVar[str] = "OpenAI preference fine-tuning, and hosts that read its files"
    formats: ClassVar[tuple[Format, ...]] = ("jsonl",)
    kinds: ClassVar[tuple[PairKind, ...]] = ("dpo",)
    usages: ClassVar[Mapping[PairKind, str]] = {"dpo": _USAGE}
    refusals: ClassVar[Mapping[str, str]] = {
        SEVERAL_TURNS: "the API compares one assistant message with another, so it can only carry "
        "pairs of single steps; build pairs with level='step', or export whole runs to trl",
        **SFT_TARGET.refusals,
    }

    def prepare(self, options: PairRowOptions, kind: PairKind) -> PairRowOptions:
        """Arguments as text, no reasoning."""
        options = super().prepare(options, kind)
        return replace(options, arguments="text", include_reasoning=False)

    def columns(self, kind: PairKind, options: PairRowOptions) -> Mapping[str, Kind]:
        """Three JSON values."""
        del kind, options
        return {
            "input": "json",
            "preferred_output": "json-list",
            "non_preferred_output": "json-list",
        }

    def record(self, row: PairRow, kind: PairKind, options: PairRowOptions) -> Record:
        """``tools`` and ``parallel_tool_calls`` where there are any."""
        del kind, options
        need_single_turns(row)
        tools = [] if row.tools is None else json.loads(row.tools)
        for side in (row.chosen, row.rejected):
            whole = [*row.prompt, *side]
            if (bad := bad_name(whole, tools)) is not None:
                raise Unfit("function-name", f"function {bad!r}")
            if (lost := unanswered(whole)) is not None:
                raise Unfit("unanswered-call", f"call {lost!r}")
        values = {
            "input": _input(row, tools),
            "preferred_output": [bare(m) for m in row.chosen],
            "non_preferred_output": [bare(m) for m in row.rejected],
        }
        return Record(values=values)


def _input(row: PairRow, tools: list[Any]) -> dict[str, Any]:
    given: dict[str, Any] = {"messages": [bare(m) for m in row.prompt]}
    if tools:
        spoken: list[Message] = [*row.prompt, *row.chosen, *row.rejected]
        given["tools"] = tools
        given["parallel_tool_calls"] = any(len(m.get("tool_calls", ())) > 1 for m in spoken)
    return given


TARGET = OpenAIPairs()
"""The target of this module."""
