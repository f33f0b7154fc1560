"""HTML put together so that text can never become markup.

Only :func:`tag` and :func:`joined` make :class:`Markup`; whatever else goes in is text, and is
escaped. A value of the store that holds ``<script>`` is shown, never run.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from trajstore.pipeline.report.text import visible

Value: TypeAlias = str | float | bool | None


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


EMPTY = Markup("")
"""Nothing."""

_VOID = frozenset({"meta", "br", "circle", "line", "path", "rect"})


def escaped(text: str) -> str:
    """Text as HTML, also inside an attribute in double quotes; what hides is made visible.

    >>> escaped('<a href="x">')
    '&lt;a href=&quot;x&quot;&gt;'
    """
    return html.escape(visible(text), quote=True)


def joined(parts: Iterable[str | None], between: str = "") -> Markup:
    """Parts one after the other; those that are no :class:`Markup` are escaped, None is left out.

    >>> joined(["a < b", tag("br")])
    'a &lt; b<br>'
    """
    return Markup(
        escaped(between).join(p if isinstance(p, Markup) else escaped(p) for p in parts if p)
    )


def tag(name: str, *children: str | None, **attributes: Value) -> Markup:
    """One element.

    Args:
        name: of the element.
        children: what is in it, as :func:`joined` takes it.
        attributes: a trailing underscore is left out and others become hyphens (``class_``,
            ``aria_label``); None and False are left out, True is written without a value; numbers
            have two decimals at most.

    >>> tag("p", "1 < 2", class_="note")
    '<p class="note">1 &lt; 2</p>'
    """
    written = "".join(_attribute(n, v) for n, v in attributes.items())
    if name in _VOID and not children:
        end = ">" if name in {"meta", "br"} else "/>"
        return Markup(f"<{name}{written}{end}")
    return Markup(f"<{name}{written}>{joined(children)}</{name}>")


def _attribute(name: str, value: Value) -> str:
    if value is None or value is False:
        return ""
    key = _CASED.get(name) or name.rstrip("_").replace("_", "-")
    if value is True:
        return f" {key}"
    if isinstance(value, float):
        return f' {key}="{round(value, 2):g}"'
    return f' {key}="{escaped(str(value))}"'


_CASED = {"viewbox": "viewBox", "preserve": "preserveAspectRatio"}


_KINDS = {"n": "num", "b": "bar", "w": "wrap"}


def table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], *, caption: str, kinds: str = ""
) -> Markup:
    """A table that scrolls sideways where the page is narrow.

    Args:
        heads: names of the columns; a column of bars shares one with the column behind it.
        rows: cells; the first one names its row.
        caption: what the table shows, for those who cannot see it.
        kinds: a letter for each column from the second on: ``n`` numbers, ``b`` bars, ``w`` words;
            all are numbers where it is empty.
    """
    classes = [_KINDS[k] for k in kinds or "n" * (len(heads) - 1)]
    body = joined(
        tag(
            "tr",
            tag("th", first, scope="row"),
            *(tag("td", cell, class_=c) for cell, c in zip(rest, classes, strict=True)),
        )
        for first, *rest in rows
    )
    head = _heads(heads, ["", *classes])
    whole = tag("table", tag("caption", caption), tag("thead", tag("tr", head)), tag("tbody", body))
    return tag("div", whole, class_="scroll", tabindex=0, role="region", aria_label=caption)


def _heads(heads: Sequence[str], classes: Sequence[str]) -> Markup:
    cells, named = [], iter(heads)
    for place, class_ in enumerate(classes):
        if place and classes[place - 1] == "bar":
            continue
        wide = {"colspan": 2, "scope": "colgroup"} if class_ == "bar" else {"scope": "col"}
        cells.append(tag("th", next(named), class_=class_ or None, **wide))
    return joined(cells)


def figure(chart: Markup, *, about: Markup | None = None, data: Markup | None = None) -> Markup:
    """A chart with what is to be said of it, and its numbers to unfold, beside or below it."""
    return tag("figure", tag("div", chart), tag("figcaption", about, data), class_="wide")


def details(summary: str, *children: str | None) -> Markup:
    """Something to unfold."""
    return tag("details", tag("summary", summary), *children)


def note(*text: str) -> Markup:
    """A paragraph of small print."""
    return tag("p", *text, class_="note")
