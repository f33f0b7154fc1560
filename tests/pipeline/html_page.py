"""Read an HTML page with the standard parser: its elements, its text, whether it is well formed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "br"}


@dataclass
class Element:
    """One element with what is in it."""

    name: str
    attributes: dict[str, str | None]
    children: list[Element | str] = field(default_factory=list)

    def all(self, name: str) -> Iterator[Element]:
        """Elements of a name below this one, in order."""
        for child in self.children:
            if isinstance(child, Element):
                if child.name == name:
                    yield child
                yield from child.all(name)

    def every(self) -> Iterator[Element]:
        """Every element below this one."""
        for child in self.children:
            if isinstance(child, Element):
                yield child
                yield from child.every()

    @property
    def text(self) -> str:
        return "".join(c if isinstance(c, str) else c.text for c in self.children)

    def by_id(self, id_: str) -> Element:
        return next(e for e in self.every() if e.attributes.get("id") == id_)


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("", {})
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, dict(attrs))
        assert len(attrs) == len(element.attributes), f"an attribute twice in {tag}"
        self.open[-1].children.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open[-1].children.append(Element(tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].name == tag, f"</{tag}> closes <{self.open[-1].name}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


def parse(html: str) -> Element:
    """The document; an assertion fails where an element is not closed in order."""
    parser = _Parser()
    parser.feed(html)
    parser.close()
    assert parser.open == [parser.root], f"not closed: {[e.name for e in parser.open]}"
    return parser.root


def rows(section: Element, *, table: int = 0) -> list[list[str]]:
    """The body cells of a section's table as text."""
    body = list(section.all("tbody"))[table]
    return [[c.text for c in r.children if isinstance(c, Element)] for r in body.all("tr")]
