"""Runs of groups with their advantages, and the targets that read them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from trajstore.errors import ExportError
from trajstore.exports.chat_options import ChatOptions
from trajstore.exports.conversation import Unfit, conversation, first_own_step
from trajstore.exports.files import Format, Kind
from trajstore.exports.rl.tokens import token_rows
from trajstore.exports.target import Described, Record
from trajstore.exports.tools import tool_definitions
from trajstore.schema import Trajectory

REFUSALS: Mapping[str, str] = {
    "unknown-run": "the run is not in the snapshot; build the groups at the snapshot that is "
    "exported",
    "nothing-to-train": "no agent turn of its own: all are copied or empty",
}
"""Why a run gives no row, whatever the target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRowOptions(ChatOptions):
    """What a row of a group looks like."""

    temperature: float | None = None
    """For ``prime-rl``: temperature of sampling, for steps that do not say."""


DEFAULT_OPTIONS = GroupRowOptions()
"""Messages with reasoning and arguments as objects."""

GROUP_COLUMNS: Mapping[str, Kind] = {
    "group_id": "string",
    "task_id": "string",
    "trajectory_id": "string",
    "reward": "double",
    "n": "int",
    "mean": "double",
    "std": "double",
    "advantage": "double",
    "zero_variance": "string",
    "staleness": "int",
    "policy_version": "string",
}
"""What rows say of the run and its group, as ``trajstore.pairs.GROUP_SCHEMA`` has it."""


class GroupTarget(Described, ABC):
    """One trainer. It turns a run with its advantage into rows, or refuses it."""

    @abstractmethod
    def columns(self) -> Mapping[str, Kind]:
        """Columns of a record, in order."""

    @abstractmethod
    def records(
        self, run: Trajectory, told: Mapping[str, Any], options: GroupRowOptions
    ) -> Iterator[Record]:
        """The rows of a run.

        Args:
            run: the run.
            told: the values of :data:`GROUP_COLUMNS`.
            options: what rows look like.

        Raises:
            Unfit: it cannot; the reason is among :attr:`refusals` or :data:`REFUSALS`.
        """


class MessageGroups(GroupTarget):
    """A run a row, as messages with a mask: for a loop of your own."""

    name: ClassVar[str] = "messages"
    title: ClassVar[str] = "messages with advantages, for a training loop of your own"
    formats: ClassVar[tuple[Format, ...]] = ("parquet", "jsonl")
    usage: ClassVar[str] = """Each row is one run: `messages`, `trainable` (whether loss may fall on
each message), `advantage`. The runs of one `group_id` were compared with one another, and their
advantages sum to zero; a run that was refused here still counted. Every turn that the policy
produced is trainable, format errors too, as the advantage is on all that it did. `truncated` runs
count in the mean of their group; whether they carry loss is yours to say.
"""
    refusals: ClassVar[Mapping[str, str]] = {
        "media": "a message has images, audio or files; media='mark' writes their kind instead",
        "arguments": "arguments of a call are no JSON object that loads again; arguments='text' "
        "keeps them as the model wrote them",
    }

    def columns(self) -> Mapping[str, Kind]:
        """Messages as JSON values, and what the group says."""
        return {
            "messages": "json-list",
            "tools": "string",
            "trainable": "bool-list",
            "truncated": "bool",
            **GROUP_COLUMNS,
        }

    def records(
        self, run: Trajectory, told: Mapping[str, Any], options: GroupRowOptions
    ) -> Iterator[Record]:
        """One row."""
        cut = first_own_step(run)
        made = conversation(run, cut, options, train_format_errors=True, need_prompt=False)
        values = {
            "messages": [*made.prompt, *made.completion],
            "tools": tool_definitions(run.tools),
            "trainable": [False] * len(made.prompt) + made.trainable,
            "truncated": run.status == "truncated",
            **told,
        }
        yield Record(values=values, applied=made.applied)


class PrimeRlGroups(GroupTarget):
    """Flat token rows with the sampler's own tokens and log-probabilities."""

    name: ClassVar[str] = "prime-rl"
    title: ClassVar[str] = "prime-rl `TrainingSample`, flat token rows"
    formats: ClassVar[tuple[Format, ...]] = ("parquet", "jsonl")
    usage: ClassVar[str] = """```python
from datasets import load_dataset
from prime_rl.transports.rollouts.types import TrainingSample

names = ("token_ids", "mask", "logprobs", "temperatures", "env_name", "advantages")
rows = load_dataset("path/to/this/folder", split="train")
samples = [TrainingSample(**{n: row[n] for n in names}) for row in rows]
```

The tokens are those that the sampler saw and sampled; nothing was tokenised again. `mask` is true
on sampled tokens, and only there `logprobs`, `temperatures` and `advantages` mean something. A turn
whose prompt does not continue the tokens before it starts a row of its own, so a run may give
several.
"""
    refusals: ClassVar[Mapping[str, str]] = {
        "no-token-ids": "a turn of the agent has no stored tokens, and rows are never tokenised "
        "again; sample with a policy that returns token ids, or export to messages",
        "no-logprobs": "a turn of the agent has no log-probability for each of its tokens, and "
        "without them the sampling policy is not known; sample with log-probabilities, or export "
        "to messages",
        "no-temperature": "a turn of the agent does not say at which temperature it was sampled; "
        "temperature=1.0 says it for all such turns, the target messages needs none",
        "rationalized": "the run was sampled with a hint that its prompt does not show, so its "
        "log-probabilities are of another prompt; leave such runs out, or export to messages",
    }
    rules: ClassVar[Mapping[str, str]] = {
        "forked": "a turn's prompt does not continue the tokens before it, and starts a new row",
    }

    def columns(self) -> Mapping[str, Kind]:
        """Token lists of one length, and what the group says."""
        return {
            "token_ids": "int-list",
            "mask": "bool-list",
            "logprobs": "double-list",
            "temperatures": "double-list",
            "env_name": "string",
            "advantages": "double-list",
            **GROUP_COLUMNS,
        }

    def records(
        self, run: Trajectory, told: Mapping[str, Any], options: GroupRowOptions
    ) -> Iterator[Record]:
        """A row for each stretch of tokens that only grew."""
        for place, row in enumerate(token_rows(run, options.temperature)):
            values = {
                "token_ids": row.token_ids,
                "mask": row.mask,
                "logprobs": row.logprobs,
                "temperatures": row.temperatures,
                "env_name": run.environment or run.source,
                "advantages": [told["advantage"] if m else 0.0 for m in row.mask],
                **told,
            }
            yield Record(values=values, applied={"forked": int(place > 0)})


GROUP_TARGETS: Mapping[str, GroupTarget] = {t.name: t for t in (MessageGroups(), PrimeRlGroups())}
"""Name -> target."""

_ELSEWHERE: Mapping[str, str] = dict.fromkeys(
    ("trl", "verl", "openrlhf"),
    "it samples its own completions and takes no stored ones; export prompts to it (kind prompts) "
    "and train online, or groups to messages or prime-rl",
)


def group_target(name: str) -> GroupTarget:
    """The target of that name.

    Raises:
        ExportError: there is none; the message says what to do instead.
    """
    if name in _ELSEWHERE:
        raise ExportError(f"there is no grpo export to {name}: {_ELSEWHERE[name]}")
    if name not in GROUP_TARGETS:
        known = ", ".join(GROUP_TARGETS)
        raise ExportError(f"there is no grpo export to {name!r}; known are {known}")
    return GROUP_TARGETS[name]


def why_unfit(unfit: Unfit, target: GroupTarget) -> str:
    """The way out of a refusal."""
    return {**REFUSALS, **target.refusals}[unfit.reason]
