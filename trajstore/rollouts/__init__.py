"""Rollouts: environments, policies, and the runner that turns them into trajectories."""

from __future__ import annotations

from trajstore.rollouts.attempt import EnvironmentFactory, Limits
from trajstore.rollouts.environment import (
    Action,
    Environment,
    Observed,
    Outcome,
    Task,
    Tool,
    Transition,
    function_tool,
)
from trajstore.rollouts.environments import CalculatorEnvironment, calculator_tasks
from trajstore.rollouts.policies import PROFILES, Fault, Profile, ScriptedPolicy
from trajstore.rollouts.policy import Message, Policy, Response, Usage
from trajstore.rollouts.runner import run_rollouts
from trajstore.rollouts.sandbox import Sandbox, SandboxLimits, SandboxResult

__all__ = [
    "PROFILES",
    "Action",
    "CalculatorEnvironment",
    "Environment",
    "EnvironmentFactory",
    "Fault",
    "Limits",
    "Message",
    "Observed",
    "Outcome",
    "Policy",
    "Profile",
    "Response",
    "Sandbox",
    "SandboxLimits",
    "SandboxResult",
    "ScriptedPolicy",
    "Task",
    "Tool",
    "Transition",
    "Usage",
    "calculator_tasks",
    "function_tool",
    "run_rollouts",
]
