"""Metrics of a training run as JSON lines."""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path
from typing import Any

from trajstore._optional import require


def metrics_callback(path: Path) -> Any:
    """A callback of transformers that writes what is logged, one JSON object a line.

    Each line has ``step``; a number that is none becomes null. A run that goes on from a
    checkpoint drops the lines behind it, so each step stands there once.

    Args:
        path: the file; its folder is made.
    """
    return _callback_class()(path)


class _JsonLines:
    def __init__(self, path: Path) -> None:
        self._path = path

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Keep the lines up to where the run begins."""
        del args, control
        if not state.is_world_process_zero:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        kept = [line for line in read_metrics(self._path) if line["step"] <= state.global_step]
        whole = "".join(json.dumps(line) + "\n" for line in kept if state.global_step)
        self._path.write_text(whole, encoding="utf-8")

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any
    ) -> None:
        """Append one line."""
        del args, control
        if not state.is_world_process_zero or logs is None:
            return
        line = {"step": state.global_step, **{k: _number(v) for k, v in logs.items()}}
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def _number(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The lines of a file of metrics, a broken last line left out; empty if there is no file."""
    if not path.is_file():
        return []
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


@cache
def _callback_class() -> type[Any]:
    base = require("transformers", extra="train", purpose="Training").TrainerCallback
    return type("JsonLinesCallback", (_JsonLines, base), {})
