"""Environments that ship with trajstore."""

from __future__ import annotations

from trajstore.rollouts.environments.calculator import CalculatorEnvironment
from trajstore.rollouts.environments.calculator_tasks import calculator_tasks

__all__ = ["CalculatorEnvironment", "calculator_tasks"]
