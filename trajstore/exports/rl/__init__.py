"""Sets for reinforcement learning: prompts to sample from, and stored groups with advantages."""

from __future__ import annotations

from trajstore.exports.rl.export import export_groups, export_prompts
from trajstore.exports.rl.groups import DEFAULT_OPTIONS as DEFAULT_GROUP_ROWS
from trajstore.exports.rl.groups import (
    GROUP_TARGETS,
    GroupRowOptions,
    GroupTarget,
    group_target,
)
from trajstore.exports.rl.prompt_targets import PROMPT_TARGETS, PromptTarget, prompt_target
from trajstore.exports.rl.prompts import DEFAULT_OPTIONS as DEFAULT_PROMPTS
from trajstore.exports.rl.prompts import PromptOptions, PromptRow, prompt_rows
from trajstore.exports.rl.tokens import TokenRow, token_rows

__all__ = [
    "DEFAULT_GROUP_ROWS",
    "DEFAULT_PROMPTS",
    "GROUP_TARGETS",
    "PROMPT_TARGETS",
    "GroupRowOptions",
    "GroupTarget",
    "PromptOptions",
    "PromptRow",
    "PromptTarget",
    "TokenRow",
    "export_groups",
    "export_prompts",
    "group_target",
    "prompt_rows",
    "prompt_target",
    "token_rows",
]
