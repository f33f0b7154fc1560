"""Charts as inline SVG: bars, rates with their interval, distributions, points.

Every chart is 480 units wide and drawn at 360 to 520 pixels, so text of 12 units stays readable on
a phone. Colours come from classes that the page's style sheet defines for light, dark and print.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trajstore.pipeline.report.markup import Markup, joined, tag
from trajstore.pipeline.report.scales import ticks
from trajstore.pipeline.report.text import compact, percent

WIDTH = 480.0
"""Units from left to right."""

_LEFT, _RIGHT, _TOP, _BOTTOM = 64.0, 14.0, 12.0, 40.0
_LETTER = 8.0
Tick = tuple[float, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """What a chart says besides its marks."""

    key: str
    """Unique on the page."""
    title: str
    """What is shown, for those who cannot see it."""
    about: str
    """What there is to see, in a sentence or two."""
    x: str
    """Name of the horizontal axis, with its unit."""
    y: str
    """Name of the vertical axis, with its unit."""


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle to draw in, with the values at its edges."""

    top: float
    bottom: float
    across: float
    """Value at the right edge; 0 is at the left one."""
    up: float
    """Value at the top; 0 is at the bottom."""

    def x(self, value: float) -> float:
        """Units from the left of the picture."""
        return _LEFT + (WIDTH - _LEFT - _RIGHT) * value / self.across

    def y(self, value: float) -> float:
        """Units from its top."""
        return self.bottom - (self.bottom - self.top) * value / self.up


def picture(words: Words, height: float, *marks: str | None, class_: str = "chart") -> Markup:
    """The whole image, with its name and description."""
    named = f"{words.key}-t {words.key}-d"
    return tag(
        "svg",
        tag("title", words.title, id=f"{words.key}-t"),
        tag("desc", words.about, id=f"{words.key}-d"),
        *marks,
        class_=class_,
        viewbox=f"0 0 {WIDTH:g} {height:g}",
        role="img",
        aria_labelledby=named,
    )


def _text(x: float, y: float, text: str, *, anchor: str = "middle", class_: str = "t") -> Markup:
    return tag("text", text, x=x, y=y, text_anchor=anchor, class_=class_)


def _x_axis(box: Box, marks: Iterable[Tick], name: str) -> Markup:
    line = tag("line", x1=box.x(0), x2=box.x(box.across), y1=box.bottom, y2=box.bottom, class_="ax")
    labels = (_label_below(box.x(at), box.bottom + 16, label) for at, label in marks)
    title = _text((box.x(0) + box.x(box.across)) / 2, box.bottom + 34, name, class_="t name")
    return joined([line, *labels, title])


def _label_below(x: float, y: float, label: str) -> Markup:
    """A label around a place, or to its left where the picture ends."""
    if x + _LETTER * len(label) / 2 > WIDTH:
        return _text(WIDTH, y, label, anchor="end")
    return _text(x, y, label)


def _y_axis(box: Box, marks: Iterable[Tick], name: str) -> Markup:
    parts = []
    for at, label in marks:
        y = box.y(at)
        parts += [
            tag("line", x1=box.x(0), x2=box.x(box.across), y1=y, y2=y, class_="grid"),
            _text(box.x(0) - 6, y + 4, label, anchor="end"),
        ]
    middle = (box.top + box.bottom) / 2
    title = tag(
        "text",
        name,
        x=-middle,
        y=11.0,
        text_anchor="middle",
        transform="rotate(-90)",
        class_="t name",
    )
    return joined([*parts, title])


def bars(
    words: Words,
    labels: Sequence[str],
    series: Sequence[tuple[str, Sequence[int]]],
    marks: Sequence[Tick],
) -> Markup:
    """Counts as bars, one series on top of the other.

    Args:
        words: titles.
        labels: what each bar stands for, shown when it is pointed at.
        series: a class of the style sheet with a count for each bar.
        marks: the ticks, in bars from 0 at the left edge of the first one.
    """
    highest = max(map(sum, zip(*(c for _, c in series), strict=True)), default=0)
    heights = ticks(highest)
    box = Box(_TOP, 188.0, max(len(labels), 1), heights[-1])
    parts = []
    for place, label in enumerate(labels):
        base, said = 0, []
        for class_, counts in series:
            if counts[place]:
                parts.append(_bar(box, place, base, counts[place], class_))
                said.append(f"{counts[place]:,} {class_}")
            base += counts[place]
        if said:
            parts.append(_hover(box, place, f"{label}: {', '.join(said)}"))
    y_axis = _y_axis(box, [(h, compact(h)) for h in heights], words.y)
    return picture(words, 188 + _BOTTOM, y_axis, *parts, _x_axis(box, marks, words.x))


def _bar(box: Box, place: int, base: float, size: float, class_: str) -> Markup:
    gap = 0.08
    top = box.y(base + size)
    return tag(
        "rect",
        x=box.x(place + gap),
        y=top,
        width=box.x(place + 1 - gap) - box.x(place + gap),
        height=box.y(base) - top,
        class_=f"f-{class_}",
    )


def _hover(box: Box, place: int, said: str) -> Markup:
    width = box.x(place + 1) - box.x(place)
    frame = {"x": box.x(place), "y": box.top, "width": width, "height": box.bottom - box.top}
    return tag("rect", tag("title", said), class_="hover", **frame)


@dataclass(frozen=True, slots=True)
class Rate:
    """A share with its interval, and of how many."""

    label: str
    share: float | None
    low: float
    high: float
    of: int


def rates(words: Words, found: Sequence[Rate], marks: Sequence[Tick]) -> Markup:
    """Shares as a line with a band, and below it how many each one is of."""
    across = max(len(found), 1)
    upper = Box(_TOP, 180.0, across, 1.0)
    heights = ticks(max((r.of for r in found), default=0), 2)
    lower = Box(200.0, 262.0, across, heights[-1])
    known = [(i + 0.5, r) for i, r in enumerate(found) if r.share is not None]
    marks_y = [(s / 4, percent(s / 4).replace(".0", "")) for s in range(5)]
    return picture(
        words,
        262 + _BOTTOM,
        _y_axis(upper, marks_y, "success rate"),
        *_bands(upper, known),
        *_rate_line(upper, known),
        _y_axis(lower, [(h, compact(h)) for h in heights], "runs"),
        *(_bar(lower, i, 0, r.of, "accent") for i, r in enumerate(found) if r.of),
        *(_hover(Box(_TOP, 262.0, across, 1.0), i, _said(r)) for i, r in enumerate(found) if r.of),
        _x_axis(lower, marks, words.x),
    )


def _said(rate: Rate) -> str:
    interval = f"{percent(rate.low)} to {percent(rate.high)}"
    return f"{rate.label}: {percent(rate.share)} of {rate.of:,} ({interval})"


def _bands(box: Box, known: Sequence[tuple[float, Rate]]) -> list[Markup]:
    return [
        tag(
            "rect",
            x=box.x(at - 0.5),
            y=box.y(r.high),
            width=box.x(at + 0.5) - box.x(at - 0.5),
            height=box.y(r.low) - box.y(r.high),
            class_="band",
        )
        for at, r in known
    ]


def _rate_line(box: Box, known: Sequence[tuple[float, Rate]]) -> list[Markup]:
    spots = [(box.x(at), box.y(r.share or 0.0)) for at, r in known]
    path = " ".join(f"{'L' if i else 'M'}{x:.1f} {y:.1f}" for i, (x, y) in enumerate(spots))
    dots = [tag("circle", cx=x, cy=y, r=3.5, class_="dot") for x, y in spots]
    return [tag("path", d=path, class_="line"), *dots] if spots else []


@dataclass(frozen=True, slots=True)
class Spread:
    """How the values of one kind of run lie."""

    class_: str
    counts: Sequence[int]
    """Runs in each bin."""
    middle: float
    """Where the median is, in bins from 0."""
    said: str
    """Quantiles in words."""


def spreads(words: Words, found: Sequence[Spread], marks: Sequence[Tick]) -> Markup:
    """Distributions below each other, each as shares of its own runs, with its median marked."""
    lane, gap = 44.0, 22.0
    bottom = len(found) * (lane + gap)
    count = len(found[0].counts) if found else 1
    highest = max((max(s.counts) / max(sum(s.counts), 1) for s in found), default=1.0)
    parts = []
    for number, spread in enumerate(found):
        top = gap + number * (lane + gap)
        box = Box(top, top + lane, count, highest)
        whole = max(sum(spread.counts), 1)
        parts += [
            _bar(box, i, 0, n / whole, spread.class_) for i, n in enumerate(spread.counts) if n
        ]
        x = box.x(spread.middle)
        parts += [
            tag("line", x1=x, x2=x, y1=top, y2=top + lane, class_="median"),
            tag("line", x1=_LEFT, x2=WIDTH - _RIGHT, y1=top + lane, y2=top + lane, class_="ax"),
            _text(_LEFT, top - 5, f"{spread.class_} {sum(spread.counts):,}", anchor="start"),
            _lane_hover(top, lane, spread.said),
        ]
    axis = _x_axis(Box(_TOP, bottom, count, 1.0), marks, words.x)
    return picture(words, bottom + _BOTTOM, *parts, axis)


def _lane_hover(top: float, height: float, said: str) -> Markup:
    frame = {"x": _LEFT, "y": top, "width": WIDTH - _LEFT - _RIGHT, "height": height}
    return tag("rect", tag("title", said), class_="hover", **frame)
