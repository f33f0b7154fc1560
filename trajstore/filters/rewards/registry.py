"""Every reward by name: what it reads, its parameters, its formula, how to compute it."""

from __future__ import annotations

import inspect
import math
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal

import pyarrow as pa

from trajstore.errors import SelectionError
from trajstore.filters.rewards import quality, runs
from trajstore.filters.rewards.sub_goals import sub_goals
from trajstore.filters.rewards.tool_agent import dense_tool_agent
from trajstore.filters.signals import next_state_signals
from trajstore.schema import canonical_json


@dataclass(frozen=True, slots=True, kw_only=True)
class Reward:
    """One reward composition: a pure function over Arrow tables with a name."""

    name: str
    """Its name, as in :data:`REWARDS`."""
    compute: Callable[..., pa.Table]
    """Takes the inputs by position and the parameters by keyword."""
    level: Literal["trajectory", "step"]
    """Whether a value is of a whole run or of a step."""
    version: int = 1
    """Counts up whenever the same inputs and parameters would give other values."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the tables that it reads, keys of :data:`trajstore.filters.rewards.INPUTS`."""
        kinds = inspect.signature(self.compute).parameters.values()
        return tuple(p.name for p in kinds if p.kind is not p.KEYWORD_ONLY)

    @property
    def parameters(self) -> dict[str, Any]:
        """Names of the parameters with their defaults; ``inspect.Parameter.empty`` for none."""
        kinds = inspect.signature(self.compute).parameters.values()
        return {p.name: p.default for p in kinds if p.kind is p.KEYWORD_ONLY}

    @property
    def formula(self) -> str:
        """What it computes, in one line."""
        return (inspect.getdoc(self.compute) or "").partition("\n")[0]

    @property
    def evaluator(self) -> str:
        """The evaluator that its labels name."""
        return f"trajstore/{self.name}"

    def filled(self, parameters: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """All parameters: those given, the defaults of the others.

        Raises:
            SelectionError: one is unknown, missing or of another kind; the message names the real
                ones.
        """
        given = dict(parameters or {})
        known, hints = self.parameters, typing.get_type_hints(self.compute)
        for name in given.keys() - known.keys():
            raise SelectionError(f"The reward '{self.name}' has no parameter '{name}'. {self._has}")
        filled = known | given
        for name, value in filled.items():
            if value is inspect.Parameter.empty:
                raise SelectionError(f"The reward '{self.name}' needs '{name}'. {self._has}")
            if not _fits(value, hints[name]):
                message = f"The reward '{self.name}' cannot take {name}={value!r}. {self._has}"
                raise SelectionError(message)
        return filled

    @property
    def _has(self) -> str:
        listed = [
            n if d is inspect.Parameter.empty else f"{n} (default {d!r})"
            for n, d in self.parameters.items()
        ]
        return f"Its parameters: {', '.join(listed)}."

    def evaluator_version(self, parameters: Mapping[str, Any] | None = None) -> str:
        """Version of the formula and all parameters, as the labels name it.

        >>> REWARDS["react"].evaluator_version({"lambda_length": 0})
        '1 {"lambda_format":0.1,"lambda_length":0.0}'
        """
        filled = {n: _alike(v, self.parameters[n]) for n, v in self.filled(parameters).items()}
        return f"{self.version} {canonical_json(filled)}"

    def __call__(self, inputs: Mapping[str, pa.Table], **parameters: Any) -> pa.Table:
        """Compute it.

        Args:
            inputs: the tables by name.
            parameters: see :meth:`filled`.

        Raises:
            SelectionError: an input or parameter is missing or does not fit.
        """
        filled = self.filled(parameters)
        missing = [n for n in self.inputs if n not in inputs]
        if missing:
            message = f"The reward '{self.name}' also reads the tables {', '.join(missing)}."
            raise SelectionError(message)
        return self.compute(*(inputs[n] for n in self.inputs), **filled)


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is of the type that a parameter is declared with; 1 may stand for 1.0."""
    if isinstance(value, float) and not math.isfinite(value):
        return False
    for kind in typing.get_args(hint) or (hint,):
        if isinstance(value, bool):
            return kind is bool
        if isinstance(value, kind) or (kind is float and isinstance(value, int)):
            return True
    return False


def _alike(value: Any, default: Any) -> Any:
    """1 and 1.0 are one parameter, so they are one version."""
    return float(value) if isinstance(default, float) and value is not None else value


_RUNS: dict[str, Callable[..., pa.Table]] = {
    "react": runs.react,
    "react-any-error": runs.react_any_error,
    "efficiency": runs.efficiency,
    "turn-budget": runs.turn_budget,
    "search": runs.search,
    "rlef": runs.rlef,
    "sql": runs.sql,
    "spl": quality.spl,
    "three-dimensions": quality.three_dimensions,
    "judge": quality.judge_score,
}
_STEPS: dict[str, Callable[..., pa.Table]] = {
    "dense-tool-agent": dense_tool_agent,
    "sub-goals": sub_goals,
    "next-state": next_state_signals,
}

REWARDS: Mapping[str, Reward] = {
    name: Reward(name=name, compute=function, level="trajectory" if name in _RUNS else "step")
    for name, function in sorted((_RUNS | _STEPS).items())
}
"""Every reward composition by name."""


def reward_named(name: str) -> Reward:
    """A reward by name.

    Raises:
        SelectionError: there is none; the message names the real ones.
    """
    if name in REWARDS:
        return REWARDS[name]
    near = get_close_matches(name, REWARDS, n=1)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    raise SelectionError(f"There is no reward '{name}'.{hint} Rewards: {', '.join(REWARDS)}")
