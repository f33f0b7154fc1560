"""The tables of this package, each column declared once: pairs, groups, credit, turn keys."""

from __future__ import annotations

import pyarrow as pa

from trajstore.schema import Column

LEVELS = ("trajectory", "step")
"""What a pair compares: whole runs, or two next actions at one place."""

VARIANTS = ("grpo", "rloo", "dr_grpo")
"""How an advantage is made of the rewards of a group."""

STD_CONVENTIONS = ("population", "sample")
"""Whether a standard deviation divides by n or by n - 1; trainers differ."""

ZERO_VARIANCE = ("all_pass", "all_fail", "mixed_equal")
"""Why a group gives no signal: every run passed, every run failed, or the rewards are equal."""


def _c(
    name: str,
    type_: pa.DataType,
    meaning: str,
    *,
    null: bool = False,
    allowed: tuple[str, ...] = (),
) -> Column:
    return Column(name=name, type=type_, meaning=meaning, nullable=null, allowed=allowed)


_S, _I32, _F64, _B = pa.string(), pa.int32(), pa.float64(), pa.bool_()

PAIRS: tuple[Column, ...] = (
    _c("pair_id", _S, "hash of the content of both sides; another one when the sides are swapped"),
    _c("pair_group", _S, "pairs of one task, level and policy share it"),
    _c("task_id", _S, "the task of both runs"),
    _c("level", _S, "whole runs, or two next actions at one place", allowed=LEVELS),
    _c("policy", _S, "how the pair was chosen, such as best_worst"),
    _c("parameters", _S, "JSON text: the options of the policy"),
    _c("chosen_id", _S, "the better run"),
    _c("rejected_id", _S, "the worse run"),
    _c(
        "chosen_step",
        _I32,
        "level step: the agent step that is the chosen side; level trajectory: the last step of "
        "the chosen side, null where it goes to the run's end",
        null=True,
    ),
    _c(
        "rejected_step",
        _I32,
        "the same of the rejected side; a cap in turns cuts it after an agent step",
        null=True,
    ),
    _c(
        "n_prompt_steps",
        _I32,
        "the prompt is this many first steps of the chosen run, which both sides share",
    ),
    _c("prompt_digest", _S, "hash of the prompt and the tools; equal prompts have equal digests"),
    _c("chosen_reward", _F64, "value of the chosen side by the criterion (level step: mean)"),
    _c("rejected_reward", _F64, "value of the rejected side by the criterion (level step: mean)"),
    _c("margin", _F64, "chosen_reward - rejected_reward; 0 where efficiency broke a tie"),
    _c("weight", _F64, "1 / pairs of the task, so the weights of a task sum to one"),
    _c("same_start", _B, "whether everything before the first agent step is equal in both runs"),
    _c("criterion", _S, "what the values are: reward, success, safety or a label's name"),
)
"""One row a pair."""

GROUPS: tuple[Column, ...] = (
    _c("group_id", _S, "hash of what the runs of the group share"),
    _c("task_id", _S, "the task"),
    _c("trajectory_id", _S, "the run"),
    _c("reward", _F64, "its value by the criterion"),
    _c("n", _I32, "runs in the group"),
    _c("mean", _F64, "mean reward of the group"),
    _c("std", _F64, "standard deviation of the rewards by std_convention; 0 in a group of one"),
    _c("advantage", _F64, "advantage of the run; sums to 0 in its group"),
    _c("variant", _S, "how the advantage was made", allowed=VARIANTS),
    _c("std_convention", _S, "whether std divides by n or n - 1", allowed=STD_CONVENTIONS),
    _c(
        "zero_variance",
        _S,
        "why every advantage of the group is 0; null where they differ",
        null=True,
        allowed=ZERO_VARIANCE,
    ),
    _c("staleness", _I32, "current policy version minus that of the run", null=True),
    _c("policy_version", _S, "checkpoint or iteration of the policy", null=True),
)
"""One row a run in a group."""

CREDITS: tuple[Column, ...] = (
    _c("trajectory_id", _S, "the run"),
    _c("step_index", _I32, "the agent step; null for the whole run", null=True),
    _c("name", _S, "what is credited, such as return or rtmc_advantage"),
    _c("value", _F64, "the credit"),
)
"""One row a step (or a run) that got credit."""

TURNS: tuple[Column, ...] = (
    _c("trajectory_id", _S, "the run"),
    _c("step_index", _I32, "position in the run, from 0"),
    _c("actor", _S, "whose turn it is"),
    _c("own", _B, "by the agent and not copied context: a turn that was decided in this run"),
    _c("format_error", _B, "the model's output could not be parsed into an action"),
    _c("turn", pa.uint64(), "hash of role, text, reasoning, content, calls and results"),
    _c("action", pa.uint64(), "hash of the canonical action of an agent step", null=True),
    _c("seen", pa.uint64(), "hash of what came back, or of what somebody else said"),
    _c("state", pa.uint64(), "hash of the state the agent could see"),
    _c("state_key", _S, "key of the state as it is stored", null=True),
    _c("reward", _F64, "step reward given by the environment", null=True),
    _c("n_own_bytes", pa.int64(), "UTF-8 bytes of text, reasoning and calls, without results"),
    _c("n_bytes", pa.int64(), "UTF-8 bytes of text, reasoning, calls and results"),
    _c(
        "digest",
        _S,
        "SHA-256 of a turn of system or user among the first eight steps, where prompts are",
        null=True,
    ),
)
"""One row a step, without its text."""


def _schema(columns: tuple[Column, ...]) -> pa.Schema:
    return pa.schema([pa.field(c.name, c.type, nullable=c.nullable) for c in columns])


PAIR_SCHEMA = _schema(PAIRS)
"""Schema of pairs, ordered by task, then by what the policy ranks first."""

GROUP_SCHEMA = _schema(GROUPS)
"""Schema of groups, ordered by task, group and trajectory."""

CREDIT_SCHEMA = _schema(CREDITS)
"""Schema of credit, ordered by trajectory and step."""

TURN_SCHEMA = _schema(TURNS)
"""Schema of turn keys. The hashes are those of one DuckDB version: compare them, never store them.
"""
