"""Environments that ship with trajstore."""

from __future__ import annotations

from trajstore.rollouts.environments.calculator import CalculatorEnvironment
from trajstore.rollouts.environments.calculator_tasks import calculator_tasks
from trajstore.rollouts.environments.code_exercise import Call, Case, Exercise
from trajstore.rollouts.environments.code_fixing import CodeFixingEnvironment
from trajstore.rollouts.environments.code_tasks import code_tasks
from trajstore.rollouts.environments.shop_tasks import Wish, shop_tasks
from trajstore.rollouts.environments.web_shop import WebShopEnvironment

__all__ = [
    "CalculatorEnvironment",
    "Call",
    "Case",
    "CodeFixingEnvironment",
    "Exercise",
    "WebShopEnvironment",
    "Wish",
    "calculator_tasks",
    "code_tasks",
    "shop_tasks",
]
