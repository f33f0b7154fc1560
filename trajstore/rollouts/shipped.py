"""The environments that ship with trajstore by name, each with its tasks and scripted agents."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from trajstore.rollouts.attempt import EnvironmentFactory
from trajstore.rollouts.environment import Task
from trajstore.rollouts.environments.calculator import CalculatorEnvironment
from trajstore.rollouts.environments.calculator_tasks import calculator_tasks
from trajstore.rollouts.environments.code_fixing import CodeFixingEnvironment
from trajstore.rollouts.environments.code_tasks import code_tasks
from trajstore.rollouts.environments.shop_tasks import shop_tasks
from trajstore.rollouts.environments.web_shop import WebShopEnvironment
from trajstore.rollouts.policies.scripted import ScriptedPolicy
from trajstore.rollouts.policies.scripted_code import ScriptedCoder
from trajstore.rollouts.policies.scripted_play import ScriptPlayer
from trajstore.rollouts.policies.scripted_shop import ScriptedShopper


@dataclass(frozen=True, slots=True, kw_only=True)
class Shipped:
    """One environment that ships with trajstore."""

    make: EnvironmentFactory
    """Makes a fresh one; code runs in a sandbox or not at all."""
    make_unisolated: EnvironmentFactory
    """As ``make``, also where this machine cannot lock code in."""
    tasks: Callable[[int, int], list[Task]]
    """So many tasks of a seed."""
    agent: type[ScriptPlayer]
    """The scripted agent that knows its way there."""

    @property
    def profiles(self) -> tuple[str, ...]:
        """Names of the profiles of its scripted agent, the most able first."""
        return tuple(self.agent.profiles)


SHIPPED: Mapping[str, Shipped] = {
    "calculator": Shipped(
        make=CalculatorEnvironment,
        make_unisolated=CalculatorEnvironment,
        tasks=lambda count, seed: calculator_tasks(count, seed=seed),
        agent=ScriptedPolicy,
    ),
    "code-fixing": Shipped(
        make=CodeFixingEnvironment,
        make_unisolated=partial(CodeFixingEnvironment, allow_unisolated=True),
        tasks=lambda count, seed: code_tasks(count, seed=seed),
        agent=ScriptedCoder,
    ),
    "web-shop": Shipped(
        make=WebShopEnvironment,
        make_unisolated=WebShopEnvironment,
        tasks=lambda count, seed: shop_tasks(count, seed=seed),
        agent=ScriptedShopper,
    ),
}
"""Every environment that ships with trajstore."""


def shipped(name: str) -> Shipped:
    """The environment of a name.

    Raises:
        ValueError: there is none.
    """
    if name not in SHIPPED:
        message = f"there is no environment '{name}'; those that ship are {', '.join(SHIPPED)}"
        raise ValueError(message)
    return SHIPPED[name]
