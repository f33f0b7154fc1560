"""Pairs as a prompt and two sides: what every preference target starts from."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from trajstore.errors import ExportError
from trajstore.exports.chat_options import ChatOptions
from trajstore.exports.conversation import Conversation, Runs, Unfit, conversation
from trajstore.exports.messages import Message
from trajstore.exports.tools import tool_definitions
from trajstore.exports.writing import Refused
from trajstore.schema import Trajectory

COLUMNS = (
    "pair_id",
    "task_id",
    "chosen_id",
    "rejected_id",
    "chosen_step",
    "rejected_step",
    "n_prompt_steps",
    "level",
    "chosen_reward",
    "rejected_reward",
    "margin",
    "weight",
)
"""Columns of a table of pairs that are read here; ``trajstore.pairs.PAIR_SCHEMA`` has them."""

REFUSALS: Mapping[str, str] = {
    "unknown-run": "a run of the pair is not in the snapshot; build the pairs at the snapshot that "
    "is exported",
    "changed-run": "a run of the pair has fewer steps than the pair names; build the pairs anew",
    "no-prompt": "nothing that both sides share can be written as a message, so there is no prompt",
    "nothing-to-train": "a side has no agent turn to train on: all are copied, format errors or "
    "empty",
    "identical-sides": "both sides are the same messages, as where they differ only in what was "
    "left out",
    "media": "a message has images, audio or files; media='mark' writes their kind instead",
    "arguments": "arguments of a call are no JSON object that loads again; arguments='text' keeps "
    "them as the model wrote them (trl, openrlhf), the target openai takes any text",
}
"""Why a pair gives no row, and what to do about it."""

_PAIRS_A_READ = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class PairRowOptions(ChatOptions):
    """What a row of a pair looks like."""

    margin: bool = False
    """Kind ``reward``: write the column ``margin``, which TRL and OpenRLHF then take off the
    difference of the two rewards."""


DEFAULT_OPTIONS = PairRowOptions()
"""Messages with reasoning and arguments as objects, no margin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairRow:
    """One pair as messages."""

    pair_id: str
    task_id: str
    chosen_id: str
    rejected_id: str
    chosen_reward: float
    rejected_reward: float
    margin: float
    weight: float
    prompt: list[Message]
    """What both sides share."""
    chosen: list[Message]
    rejected: list[Message]
    chosen_trainable: list[bool]
    """For each message of the chosen side, whether loss may fall on it."""
    rejected_trainable: list[bool]
    tools: str | None
    """JSON text of the tool definitions, or None."""
    applied: Mapping[str, int]
    """Rules that changed something, counted."""

    def is_single_turn(self) -> bool:
        """Whether each side is one message."""
        return len(self.chosen) == len(self.rejected) == 1


def pair_rows(
    pairs: pa.Table, runs: Runs, options: PairRowOptions = DEFAULT_OPTIONS
) -> Iterator[PairRow | Refused]:
    """Rows and refusals, in the order of the pairs; nothing is left out without a word.

    Args:
        pairs: rows with :data:`COLUMNS`.
        runs: gives the runs that pairs name, those of 64 pairs at a time.
        options: what rows look like.

    Raises:
        ExportError: a column is missing.
    """
    missing = [n for n in COLUMNS if n not in pairs.column_names]
    if missing:
        raise ExportError(
            f"the pairs have no column {missing[0]!r}; give a table that `trajstore pairs` wrote"
        )
    listed = (row for b in pairs.select(COLUMNS).to_batches() for row in b.to_pylist())
    for part in _parts(listed):
        ids = dict.fromkeys(p[n] for p in part for n in ("chosen_id", "rejected_id"))
        found = {t.trajectory_id: t for t in runs(list(ids))}
        for pair in part:
            yield _row(pair, found, options)


def _parts(rows: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    it = iter(rows)
    while part := list(itertools.islice(it, _PAIRS_A_READ)):
        yield part


def _row(
    pair: Mapping[str, Any], found: Mapping[str, Trajectory], options: PairRowOptions
) -> PairRow | Refused:
    try:
        chosen, rejected = (_run(pair, f"{side}_id", found) for side in ("chosen", "rejected"))
        better = _side(pair, "chosen", chosen, chosen, options)
        worse = _side(pair, "rejected", chosen, rejected, options)
        _need_difference(better, worse)
    except Unfit as unfit:
        return refused(pair["pair_id"], pair["chosen_id"], pair["rejected_id"], unfit, REFUSALS)
    applied = Counter(better.applied)
    applied.update(worse.applied)
    named = ("pair_id", "task_id", "chosen_id", "rejected_id", "margin", "weight")
    return PairRow(
        **{n: pair[n] for n in named},
        chosen_reward=_finite(pair["chosen_reward"]),
        rejected_reward=_finite(pair["rejected_reward"]),
        prompt=better.prompt,
        chosen=better.completion,
        rejected=worse.completion,
        chosen_trainable=better.trainable,
        rejected_trainable=worse.trainable,
        tools=tool_definitions(chosen.tools),
        applied=applied,
    )


def refused(
    pair_id: str, chosen_id: str, rejected_id: str, unfit: Unfit, words: Mapping[str, str]
) -> Refused:
    """A refusal that names the pair and its runs."""
    where = f"pair {pair_id} ({chosen_id} over {rejected_id})"
    place = f": {unfit.detail}" if unfit.detail else ""
    return Refused(id=pair_id, reason=unfit.reason, detail=f"{where}{place}. {words[unfit.reason]}")


def _need_difference(better: Conversation, worse: Conversation) -> None:
    if better.completion == worse.completion:
        raise Unfit("identical-sides")


def _finite(value: float) -> float:
    return value if math.isfinite(value) else math.nan


def _run(pair: Mapping[str, Any], name: str, found: Mapping[str, Trajectory]) -> Trajectory:
    if pair[name] not in found:
        raise Unfit("unknown-run", f"run {pair[name]}")
    return found[pair[name]]


def _side(
    pair: Mapping[str, Any],
    side: str,
    prompt: Trajectory,
    run: Trajectory,
    options: PairRowOptions,
) -> Conversation:
    """The prompt of the chosen run, and one side behind it.

    On the rejected side, format errors may well be what was worse, so loss may fall on them there.
    """
    n, step = pair["n_prompt_steps"], pair[f"{side}_step"]
    is_step = pair["level"] == "step"
    if max(n, -1 if step is None else step + 1) > len(run.steps) or n > len(prompt.steps):
        raise Unfit("changed-run", f"run {run.trajectory_id} has {len(run.steps)} steps")
    if is_step:
        behind: Sequence[Any] = (replace(run.steps[step], observations=()),)
    else:
        behind = run.steps[n:] if step is None else run.steps[n : step + 1]
    joined = replace(prompt, steps=(*prompt.steps[:n], *behind))
    made = conversation(joined, n, options, train_format_errors=side == "rejected")
    if not is_step:
        return made
    applied = Counter(made.applied)
    applied["call-unanswered"] -= len(behind[0].tool_calls)
    return replace(made, applied={k: v for k, v in applied.items() if v > 0})
