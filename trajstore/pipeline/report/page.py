"""The page: sections put into one HTML file that needs nothing beside itself."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files

from trajstore.pipeline.report.markup import EMPTY, Markup, note, tag
from trajstore.pipeline.report.sections import Absent, Section

_READING = (
    "Success is what an evaluator said of a run; a run that nobody judged is unknown and in no "
    "rate. Steps and calls are the agent's own, copied context left out. Intervals are 95 % Wilson "
    "intervals. Everything on this page was counted in the snapshot named above; the same snapshot "
    "gives the same page."
)


def page(*, title: str, about: Sequence[Markup], sections: Sequence[Section | Absent]) -> str:
    """The whole document.

    The browser is told to load nothing from anywhere and to run this page's own script only, by its
    hash: text that came with a run could not act even if it were not escaped.

    Args:
        title: of the page.
        about: paragraphs below it: which store, snapshot, condition.
        sections: in order; absent ones are named at the end with the reason.
    """
    there = [s for s in sections if isinstance(s, Section)]
    absent = [s for s in sections if isinstance(s, Absent)]
    body = tag(
        "body",
        tag("header", tag("h1", title), *about, _contents(there)),
        tag("main", *map(_section, there), _absent(absent)),
        tag("footer", note(_READING)),
        tag("script", _script()),
    )
    html = tag("html", _head(title), body, lang="en")
    return f"<!doctype html>\n{html}\n"


def _head(title: str) -> Markup:
    policy = (
        f"default-src 'none'; style-src '{_hash(_style())}'; script-src '{_hash(_script())}'; "
        "base-uri 'none'; form-action 'none'"
    )
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name_="referrer", content="no-referrer"),
        tag("title", title),
        tag("style", _style()),
    )


def _contents(sections: Sequence[Section]) -> Markup:
    links = (tag("li", tag("a", s.title, href=f"#{s.name}")) for s in sections)
    return tag("nav", tag("ul", *links), aria_label="Sections")


def _section(section: Section) -> Markup:
    heading = tag("h2", section.title, id=f"{section.name}-title")
    return tag(
        "section",
        heading,
        section.body,
        id=section.name,
        aria_labelledby=f"{section.name}-title",
    )


def _absent(absent: Sequence[Absent]) -> Markup:
    if not absent:
        return EMPTY
    lines = (tag("li", tag("b", a.title), f": {a.why}.") for a in absent)
    return tag(
        "section",
        tag("h2", "Not shown", id="absent-title"),
        tag("ul", *lines, class_="kinds"),
        id="absent",
        aria_labelledby="absent-title",
    )


def _style() -> Markup:
    return _own_file("report.css")


def _script() -> Markup:
    return _own_file("report.js")


def _own_file(name: str) -> Markup:
    return Markup(files(__package__).joinpath(name).read_text(encoding="utf-8"))


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
