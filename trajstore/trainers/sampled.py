"""What the stored tokens and log-probabilities of a step are worth to one tokenizer and trainer."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trajstore.rollouts.encoding import decode
from trajstore.schema import Step, ToolCall, Trajectory

FOREIGN = "token ids that are not of this tokenizer"
CUT_DISTRIBUTION = "log-probabilities of a distribution that top-p, top-k or min-p had cut"
RAW = "raw log-probabilities, of another temperature than that of sampling"
NO_LOGPROBS = "log-probabilities that are no finite numbers up to 0, one a token"

REASONS: Mapping[str, str] = {
    FOREIGN: "foreign_tokens",
    CUT_DISTRIBUTION: "cut_logprobs",
    RAW: "raw_logprobs",
    NO_LOGPROBS: "bad_logprobs",
}
"""Why something stored was not used, and its name among the numbers of a job."""

_ROUNDING = 1e-3
"""How far above 0 a log-probability may lie."""
_ENOUGH = 0.9
"""Share of the words of a step that its tokens must spell; an import may have changed a few."""
_WORD = re.compile(r"\w+")
_ESCAPE = re.compile(r"\\+(?:u([0-9a-fA-F]{4})|[nrtbf])?")
_CALL = re.compile(r"<tool_call>.*?</tool_call>", re.DOTALL)
_THOUGHT = re.compile(r"</?think>")
_SHOWN = 40


def known(step: Step) -> bool:
    """Whether it holds the tokens that were read and those that were written."""
    return bool(step.prompt_token_ids and step.completion_token_ids)


def foreign(run: Trajectory, places: Sequence[int], tokenizer: Any) -> str | None:
    """Why stored token ids are not those of a tokenizer; None where they are.

    They are if all are in its vocabulary and those that were written spell what their steps say,
    in each step that says something. Ids of steps that say nothing count as those of the others of
    their run; where no step says anything, only ids that spell nothing are good.

    Args:
        run: whose.
        places: steps with stored ids.
        tokenizer: of transformers.
    """
    size = len(tokenizer)
    for place in places:
        step = run.steps[place]
        lost = _outside((*(step.prompt_token_ids or ()), *_written(step)), size, tokenizer)
        if lost is not None:
            return f"step {place}: the tokenizer has no token {lost}"
    texts = decode([_written(run.steps[i]) for i in places], tokenizer)
    proven = False
    for place, text in zip(places, texts, strict=True):
        said = [*_said(run.steps[place])]
        if said and not _spells(text, said):
            return (
                f"step {place}: the tokens spell {text[:_SHOWN]!r}, and the step says "
                f"{said[0][:_SHOWN]!r}"
            )
        proven = proven or bool(said)
    if proven:
        return None
    bare = decode([_written(run.steps[i]) for i in places], tokenizer, special=False)
    silent = not any(_THOUGHT.sub("", text).strip() for text in bare)
    return None if silent else "no step says what its tokens should spell"


def _written(step: Step) -> tuple[int, ...]:
    return step.completion_token_ids or ()


def _outside(ids: Sequence[int], size: int, tokenizer: Any) -> int | None:
    """A token that the tokenizer does not have; ids may have gaps, so the count is no bound."""
    low, high = min(ids), max(ids)
    if low < 0:
        return low
    if high < size:
        return None
    backend = getattr(tokenizer, "backend_tokenizer", None)
    return high if backend is None or backend.id_to_token(high) is None else None


def _said(step: Step) -> Iterator[str]:
    """The texts that a step holds, but for numbers in arguments, which have several forms."""
    texts = [step.text, step.reasoning]
    for call in step.tool_calls:
        texts += [call.name, *_arguments(call)]
    return (t for t in texts if t and t.strip())


def _arguments(call: ToolCall) -> list[str]:
    if call.arguments is None:
        return [call.arguments_raw or ""]
    return [*_strings(json.loads(call.arguments))]


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield name
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)


def _spells(text: str, said: Sequence[str]) -> bool:
    """Whether the words of each text are there in their order, in whatever format of a turn.

    The text of a step with calls is what stood around them, so it is also looked for without them.
    """
    whole = _unescaped(text)
    words = [_WORD.findall(whole), _WORD.findall(_unescaped(_CALL.sub("", text)))]
    wanted = found = 0
    for each in map(_unescaped, said):
        named = _WORD.findall(each)
        if named:
            wanted += len(named)
            found += max(_in_order(named, w) for w in words)
        elif "".join(each.split()) not in "".join(whole.split()):
            return False
    return found >= _ENOUGH * wanted


def _in_order(wanted: Sequence[str], words: Sequence[str]) -> int:
    """How many are found when each is looked for behind the one before."""
    places: dict[str, list[int]] = {}
    for place in range(len(words) - 1, -1, -1):
        places.setdefault(words[place], []).append(place)
    found, behind = 0, -1
    for word in wanted:
        ahead = places.get(word, [])
        while ahead and ahead[-1] <= behind:
            ahead.pop()
        if ahead:
            found, behind = found + 1, ahead.pop()
    return found


def _unescaped(text: str) -> str:
    """Text as it reads with the escapes of JSON taken out, however often they were put in."""
    return _ESCAPE.sub(lambda m: chr(int(m[1], 16)) if m[1] else " ", text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """Under which distribution a step was sampled, as far as it is stored."""

    temperature: float | None
    """Of sampling; None is unknown, or 0."""
    logprobs: Sequence[float] | None
    """Of what was written, under the policy and its temperature; None where they are not known."""
    unused: str | None = None
    """Why stored log-probabilities are left out; one of :data:`REASONS`."""


def behaviour(step: Step) -> Behaviour:
    """What is stored, if it is of the distribution that a trainer computes with the same weights.

    A server's raw log-probabilities are of temperature 1, whatever the sampling was. Processed ones
    are of the tokens that top-p, top-k and min-p left, so the ratio to a whole distribution would
    be off by the share of the rest (TRL issue 6789).
    """
    sampling = _sampling(step)
    temperature = _number(sampling, "temperature")
    temperature = None if temperature is None or temperature <= 0 else temperature
    if step.logprobs is None:
        return Behaviour(temperature=temperature, logprobs=None)
    unused = _unused(step, sampling, temperature)
    kept = step.logprobs if unused is None else None
    return Behaviour(temperature=temperature, logprobs=kept, unused=unused)


def _unused(step: Step, sampling: Mapping[str, Any], temperature: float | None) -> str | None:
    told = step.logprobs or ()
    if len(told) != len(_written(step)) or not all(map(_is_logprob, told)):
        return NO_LOGPROBS
    mode = sampling.get("logprobs_mode", sampling.get("logprobs"))
    if isinstance(mode, str) and mode.startswith("raw"):
        return None if temperature == 1.0 else RAW
    top_p, top_k, min_p = (_number(sampling, n) for n in ("top_p", "top_k", "min_p"))
    cuts = (top_p is not None and top_p < 1) or (top_k or 0) > 0 or (min_p or 0) > 0
    return CUT_DISTRIBUTION if cuts else None


def _is_logprob(value: float) -> bool:
    return math.isfinite(value) and value <= _ROUNDING


def _sampling(step: Step) -> Mapping[str, Any]:
    try:
        told = json.loads(step.sampling or "{}")
    except ValueError:
        return {}
    return told if isinstance(told, Mapping) else {}


def _number(sampling: Mapping[str, Any], name: str) -> float | None:
    told = sampling.get(name)
    return None if isinstance(told, bool) or not isinstance(told, int | float) else float(told)
