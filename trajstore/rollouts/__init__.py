"""Rollouts: environments, policies, and the runner that turns them into trajectories."""

from __future__ import annotations

from trajstore.rollouts.attempt import EnvironmentFactory, Limits
from trajstore.rollouts.dialect import Dialect
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
    EndpointPolicy,
    Fault,
    Prices,
    Profile,
    Sampling,
    ScriptedCoder,
    ScriptedPolicy,
    ScriptedShopper,
    ScriptPlayer,
    ShopFault,
    TransformersPolicy,
    VllmEnginePolicy,
    VllmServer,
    VllmServerPolicy,
)
from trajstore.rollouts.policy import Message, Policy, Response, Usage
from trajstore.rollouts.recording import RolloutReport, Tally, record_rollouts
from trajstore.rollouts.runner import run_rollouts
from trajstore.rollouts.sandbox import Sandbox, SandboxLimits, SandboxResult
from trajstore.rollouts.search import lats, search_rollouts
from trajstore.rollouts.search_critic import PolicyCritic
from trajstore.rollouts.search_generations import Generations
from trajstore.rollouts.search_lessons import Lesson, PolicyReflector, Reflector, first_error
from trajstore.rollouts.search_options import Critic, SearchOptions, SearchTree
from trajstore.rollouts.search_policy import FreshSeeds
from trajstore.rollouts.search_recording import SearchReport, SearchTally, record_searches
from trajstore.rollouts.shipped import SHIPPED, Shipped, shipped
from trajstore.rollouts.tree import Node, ucb1
from trajstore.rollouts.tree_places import ForkingEnvironment

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
    "Critic",
    "Dialect",
    "EndpointPolicy",
    "Environment",
    "EnvironmentFactory",
    "Exercise",
    "Fault",
    "ForkingEnvironment",
    "FreshSeeds",
    "Generations",
    "Lesson",
    "Limits",
    "Message",
    "Node",
    "Observed",
    "Outcome",
    "Policy",
    "PolicyCritic",
    "PolicyReflector",
    "Prices",
    "Profile",
    "Reflector",
    "Response",
    "RolloutReport",
    "Sampling",
    "Sandbox",
    "SandboxLimits",
    "SandboxResult",
    "ScriptPlayer",
    "ScriptedCoder",
    "ScriptedPolicy",
    "ScriptedShopper",
    "SearchOptions",
    "SearchReport",
    "SearchTally",
    "SearchTree",
    "Shipped",
    "ShopFault",
    "Tally",
    "Task",
    "Tool",
    "TransformersPolicy",
    "Transition",
    "Usage",
    "VllmEnginePolicy",
    "VllmServer",
    "VllmServerPolicy",
    "WebShopEnvironment",
    "Wish",
    "calculator_tasks",
    "code_tasks",
    "first_error",
    "function_tool",
    "lats",
    "record_rollouts",
    "record_searches",
    "run_rollouts",
    "search_rollouts",
    "shipped",
    "shop_tasks",
    "ucb1",
]
