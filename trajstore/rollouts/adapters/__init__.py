"""Environments of others, and other forms of ours."""

from __future__ import annotations

from trajstore.rollouts.adapters.gymnasium import GymnasiumEnvironment
from trajstore.rollouts.adapters.react import ReActEnvironment
from trajstore.rollouts.adapters.verifiers import VerifiersEnvironment, verifiers_tasks

__all__ = ["GymnasiumEnvironment", "ReActEnvironment", "VerifiersEnvironment", "verifiers_tasks"]
