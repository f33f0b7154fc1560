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
from trajstore.rollouts.environments import (
    CalculatorEnvironment,
    Call,
    Case,
    CodeFixingEnvironment,
    Exercise,
    WebShopEnvironment,
    Wish,
    calculator_tasks,
    code_tasks,
    shop_tasks,
)
from trajstore.rollouts.policies import (
    CODE_PROFILES,
    PROFILES,
    SHOP_PROFILES,
    CodeFault,
    Fault,
    Profile,
    ScriptedCoder,
    ScriptedPolicy,
    ScriptedShopper,
    ScriptPlayer,
    ShopFault,
)
from trajstore.rollouts.policy import Message, Policy, Response, Usage
from trajstore.rollouts.recording import RolloutReport, Tally, record_rollouts
from trajstore.rollouts.runner import run_rollouts
from trajstore.rollouts.sandbox import Sandbox, SandboxLimits, SandboxResult
from trajstore.rollouts.shipped import SHIPPED, Shipped, shipped

__all__ = [
    "CODE_PROFILES",
    "PROFILES",
    "SHIPPED",
    "SHOP_PROFILES",
    "Action",
    "CalculatorEnvironment",
    "Call",
    "Case",
    "CodeFault",
    "CodeFixingEnvironment",
    "Environment",
    "EnvironmentFactory",
    "Exercise",
    "Fault",
    "Limits",
    "Message",
    "Observed",
    "Outcome",
    "Policy",
    "Profile",
    "Response",
    "RolloutReport",
    "Sandbox",
    "SandboxLimits",
    "SandboxResult",
    "ScriptPlayer",
    "ScriptedCoder",
    "ScriptedPolicy",
    "ScriptedShopper",
    "Shipped",
    "ShopFault",
    "Tally",
    "Task",
    "Tool",
    "Transition",
    "Usage",
    "WebShopEnvironment",
    "Wish",
    "calculator_tasks",
    "code_tasks",
    "function_tool",
    "record_rollouts",
    "run_rollouts",
    "shipped",
    "shop_tasks",
]
