"""The metrics of a job as one picture: success on held-out tasks, and the loss of each round."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trajstore.trainers.metrics import read_metrics
from trajstore.trainers.trainer import METRICS_FILE

PLOT_FILE = "plot.svg"
"""Name of the picture in the job's folder."""

_WIDTH, _HEIGHT = 480.0, 200.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 56.0, 16.0, 30.0, 36.0
_STYLE = (
    "text{font:12px sans-serif;fill:#333}.line{fill:none;stroke:#2563a8;stroke-width:2}"
    ".dot{fill:#2563a8}.axis{stroke:#888}.grid{stroke:#ddd}svg{background:#fff}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One panel."""

    title: str
    """Above it."""
    points: Sequence[tuple[float, float]]
    """x and y, in order of x."""
    labels: Sequence[str] = ()
    """What stands below each point; its x where empty."""
    share: bool = False
    """Whether y is a share from 0 to 1."""


def write_plot(folder: Path) -> Path | None:
    """Draw the metrics of a job's folder; None where it has none.

    Args:
        folder: of the job; the picture is written there.
    """
    curves = curves_of(folder)
    if not curves:
        return None
    panels = "".join(_panel(c, place * _HEIGHT) for place, c in enumerate(curves))
    height = _HEIGHT * len(curves)
    size = f'viewBox="0 0 {_WIDTH:g} {height:g}" width="{_WIDTH * 1.5:g}"'
    text = (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size}><title>{_said(folder.name)}: '
        f"metrics</title><style>{_STYLE}</style>"
        f'<rect width="{_WIDTH:g}" height="{height:g}" fill="#fff"/>{panels}</svg>\n'
    )
    path = folder / PLOT_FILE
    path.write_text(text, encoding="utf-8")
    return path


def curves_of(folder: Path) -> list[Curve]:
    """What there is to draw: rates over policy versions, then the loss of each round."""
    found = []
    lines = [m for m in read_metrics(folder / METRICS_FILE) if _number(m, "held_out/success_rate")]
    if lines:
        found.append(
            Curve(
                title="success rate on held-out tasks",
                points=[(i, m["held_out/success_rate"]) for i, m in enumerate(lines)],
                labels=[str(m.get("version", i)) for i, m in enumerate(lines)],
                share=True,
            )
        )
    for file in sorted(folder.glob(f"*/{METRICS_FILE}"), key=_in_order):
        steps = [m for m in read_metrics(file) if _number(m, "loss")]
        if len(steps) > 1:
            points = [(m["step"], m["loss"]) for m in steps]
            found.append(Curve(title=f"loss of {file.parent.name} by step", points=points))
    return found


def _number(line: Mapping[str, Any], name: str) -> bool:
    return isinstance(line.get(name), int | float)


def _in_order(file: Path) -> tuple[int, str]:
    """By the number in the name of the round, so that 10 comes after 9."""
    digits = "".join(c for c in file.parent.name if c.isdigit())
    return (int(digits or 0), file.parent.name)


def _panel(curve: Curve, top: float) -> str:
    xs = [x for x, _ in curve.points]
    highest = 1.0 if curve.share else _round_up(max(y for _, y in curve.points))
    lowest = min(0.0, *(y for _, y in curve.points))

    def place(x: float, y: float) -> tuple[float, float]:
        across = (x - xs[0]) / ((xs[-1] - xs[0]) or 1)
        up = (y - lowest) / ((highest - lowest) or 1)
        return (
            _LEFT + across * (_WIDTH - _LEFT - _RIGHT),
            top + _HEIGHT - _BOTTOM - up * (_HEIGHT - _TOP - _BOTTOM),
        )

    parts = [_text(_LEFT, top + 18, curve.title, "start")]
    for share in (0.0, 0.5, 1.0):
        value = lowest + share * (highest - lowest)
        x, y = place(xs[0], value)
        shown = f"{value:.0%}" if curve.share else f"{value:.3g}"
        parts += [
            f'<line class="grid" x1="{x:.1f}" x2="{_WIDTH - _RIGHT:g}" y1="{y:.1f}" y2="{y:.1f}"/>',
            _text(x - 6, y + 4, shown, "end"),
        ]
    spots = [place(x, y) for x, y in curve.points]
    path = " ".join(f"{'L' if i else 'M'}{x:.1f} {y:.1f}" for i, (x, y) in enumerate(spots))
    parts.append(f'<path class="line" d="{path}"/>')
    if curve.labels:
        parts += [f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>' for x, y in spots]
    below = top + _HEIGHT - _BOTTOM + 18
    shown_labels = curve.labels or [f"{x:g}" for x in xs]
    every = max(1, math.ceil(len(spots) / 6))
    for number in range(0, len(spots), every):
        anchor = "start" if number == 0 else "end" if number == len(spots) - 1 else "middle"
        parts.append(_text(spots[number][0], below, shown_labels[number], anchor))
    return "".join(parts)


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{_said(text)}</text>'


def _said(text: str) -> str:
    return html.escape(text, quote=True)


def _round_up(value: float) -> float:
    """The least of 1, 2 and 5 times a power of ten that is not below a value.

    >>> [_round_up(v) for v in (0.3, 1, 3.4, -1)]
    [0.5, 1.0, 5.0, 1.0]
    """
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(float(f"{m * power:.6g}") for m in (1, 2, 5, 10) if m * power >= value * (1 - 1e-9))
