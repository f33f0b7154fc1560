"""LLaMA-Factory: its sharegpt form and the ``dataset_info.json`` that names it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, ClassVar

from trajstore.exports.conversation import Unfit
from trajstore.exports.files import Format, Kind
from trajstore.exports.messages import Message
from trajstore.exports.sft import Refusal, SftOptions, SftRow
from trajstore.exports.target import PROVENANCE, Record, SftTarget, provenance
from trajstore.schema import json_text

Turn = dict[str, str]
"""``from`` and ``value``."""

_BETWEEN_RESULTS = "\n</tool_response>\n<tool_response>\n"
_THOUGHT = ("<think>", "</think>")
_CALLED = ("<tool_call>", "</tool_call>")
_ASKING, _ANSWERING = {"human", "observation"}, {"gpt", "function_call"}


class LlamaFactoryTarget(SftTarget):
    """Turns that strictly alternate: human or observation, then gpt or function_call."""

    name: ClassVar[str] = "llama-factory"
    title: ClassVar[str] = "LLaMA-Factory (`formatting: sharegpt`)"
    formats: ClassVar[tuple[Format, ...]] = ("jsonl",)
    usage: ClassVar[str] = """```yaml
dataset_dir: path/to/this/folder
dataset: trajstore
```

Loss falls on every gpt and function_call turn. Reasoning stands in `<think>` before the text or the
calls, text beside calls before a `<tool_call>` pair: LLaMA-Factory 0.9.5 cuts function_call turns
by these words for most templates, and stops with `Invalid JSON format` for those with words of
their own. Set `cutoff_len`, which is 2048 unless set and cuts most trajectories.
"""
    refusals: ClassVar[Mapping[str, str]] = {
        "alternation": "LLaMA-Factory drops rows whose turns do not alternate between asking "
        "(human, observation) and answering (gpt, function_call); consecutive='merge' joins "
        "user messages in a row, environment='drop' leaves events out, other targets take any "
        "order",
        "system-later": "a system message comes after the first turn, and only the first may be "
        "one; other targets take it anywhere",
        "cutting-words": "a turn with calls holds <think>, </think>, <tool_call> or </tool_call> "
        "in its words, where LLaMA-Factory would cut it; include_reasoning=False helps where "
        "only the reasoning does, other targets take any words",
    }
    rules: ClassVar[Mapping[str, str]] = {
        "reasoning-as-think": "reasoning goes into <think> in front of its turn",
        "text-before-calls": "text beside calls goes before a <tool_call> pair around the calls",
        "results-in-one-turn": "results of parallel calls become one observation, parted as "
        "LLaMA-Factory itself parts them",
    }

    def prepare(self, options: SftOptions) -> SftOptions:
        """Arguments as objects: LLaMA-Factory writes them as its template wants."""
        return replace(super().prepare(options), arguments="object")

    def columns(self, options: SftOptions) -> Mapping[str, Kind]:
        """All text, so that no reader can pad a turn."""
        del options
        return {"conversations": "json-list", "system": "string", "tools": "string", **PROVENANCE}

    def record(self, row: SftRow, options: SftOptions) -> Record | Refusal:
        """Turns, with system and tools beside them ('' where there is none)."""
        del options
        applied: Counter[str] = Counter()
        try:
            system, turns = turns_of(row.messages, applied)
        except Unfit as unfit:
            return self.refuse(row, unfit.reason, unfit.detail)
        values = {
            "conversations": turns,
            "system": system,
            "tools": row.tools or "",
            **provenance(row),
        }
        return Record(values=values, applied=applied)

    def files(self, data: str) -> Mapping[str, str]:
        """``dataset_info.json`` with the one data set ``trajstore``."""
        return dataset_info(data)


def dataset_info(data: str, *, ranking: bool = False, **further: str) -> dict[str, str]:
    """``dataset_info.json`` and its text.

    Args:
        data: name of the file that holds the rows.
        ranking: whether rows are pairs.
        further: further columns, by LLaMA-Factory's name for them.
    """
    columns = {"messages": "conversations", "system": "system", "tools": "tools", **further}
    ranked = {"ranking": True} if ranking else {}
    about = {"file_name": data, "formatting": "sharegpt", **ranked, "columns": columns}
    return {"dataset_info.json": json.dumps({"trajstore": about}, indent=2) + "\n"}


def turns_of(messages: Sequence[Message], applied: Counter[str]) -> tuple[str, list[Turn]]:
    """The system prompt ('' where there is none) and the turns behind it.

    Args:
        messages: a conversation that ends with an agent turn.
        applied: counts the rules that changed something.

    Raises:
        Unfit: as ``system-later``, ``cutting-words`` or ``alternation``.
    """
    head = sum(1 for _ in _leading_system(messages))
    rest = messages[head:]
    if any(m["role"] == "system" for m in rest):
        raise Unfit("system-later", "a system message follows another")
    cut = next((m for m in rest if _would_be_cut(m)), None)
    if cut is not None:
        call = cut["tool_calls"][0]["id"]
        raise Unfit("cutting-words", f"the turn of call {call!r}")
    turns = list(_turns(rest, applied))
    wrong = _out_of_order(turns)
    if wrong is not None:
        raise Unfit("alternation", wrong)
    return "\n\n".join(m["content"] for m in messages[:head]), turns


def _leading_system(messages: Sequence[Message]) -> Iterator[Message]:
    for message in messages:
        if message["role"] != "system":
            return
        yield message


def _turns(messages: Sequence[Message], applied: Counter[str]) -> Iterator[Turn]:
    for is_result, group in groupby(messages, lambda m: m["role"] == "tool"):
        if is_result:
            results = [m["content"] for m in group]
            applied["results-in-one-turn"] += len(results) > 1
            yield _turn("observation", _BETWEEN_RESULTS.join(results))
        else:
            yield from (_said(m, applied) for m in group)


def _turn(who: str, value: str) -> Turn:
    return {"from": who, "value": value}


def _said(message: Message, applied: Counter[str]) -> Turn:
    if message["role"] == "user":
        return _turn("human", message["content"])
    thought = message.get("reasoning_content")
    applied["reasoning-as-think"] += thought is not None
    before = "" if thought is None else f"<think>\n{thought}\n</think>\n\n"
    calls = message.get("tool_calls")
    if not calls:
        return _turn("gpt", before + message["content"])
    if not message["content"]:
        return _turn("function_call", before + _written(calls))
    applied["text-before-calls"] += 1
    said = f"{message['content']}\n{_CALLED[0]}\n{_written(calls)}\n{_CALLED[1]}"
    return _turn("function_call", before + said)


def _written(calls: Sequence[Mapping[str, Any]]) -> str:
    """One call as an object, parallel ones as a list."""
    made = [{k: c["function"][k] for k in ("name", "arguments")} for c in calls]
    return json_text(made if len(made) > 1 else made[0])


def _would_be_cut(message: Message) -> bool:
    """Whether a turn with calls holds words by which LLaMA-Factory takes such turns apart."""
    calls = message.get("tool_calls")
    if not calls:
        return False
    words = (message["content"], message.get("reasoning_content", ""), _written(calls))
    return any(mark in text for text in words for mark in (*_THOUGHT, *_CALLED))


def _out_of_order(turns: Sequence[Turn]) -> str | None:
    """The first turn at a place where LLaMA-Factory does not take it, in words."""
    for place, turn in enumerate(turns):
        if turn["from"] not in (_ANSWERING if place % 2 else _ASKING):
            before = f"follows {turns[place - 1]['from']}" if place else "comes first"
            return f"turn {place + 1} is {turn['from']} and {before}"
    return None


TARGET = LlamaFactoryTarget()
"""The target of this module."""
