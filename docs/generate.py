"""Write the pages that the code already knows: columns, formats, commands.

``python -m docs.generate`` writes them, ``--check`` only says which differ and then exits with 1.
Whole pages lie under ``docs/reference``; in hand-written pages the text between
``<!-- generated: NAME -->`` and ``<!-- end -->`` is replaced.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from docs.cli_page import cli_page, commands, summary
from docs.fields import field_words
from docs.jobs_page import jobs_page
from docs.kinds_page import kinds_page
from docs.markdown import codes, page, prose, table
from docs.recipe_page import recipe_page
from docs.schema_page import schema_page
from docs.sft_page import sft_page
from trajstore import ImportReport
from trajstore.importers import importers
from trajstore.importers.well_known import CONVERSATION_FIELDS, FIELDS
from trajstore.store import VIEW_MEANINGS

ROOT = Path(__file__).resolve().parents[1]

_SECTION = re.compile(r"(<!-- generated: ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)

_FORMATS_INTRO = """
What `trajstore import` reads. The format is found by content, never by the file's name; `--format
NAME` overrides that. Gzip and zstd are opened. The name is also the `source` of each trajectory.
[Importing](../guides/importing.md) says what all formats have in common.
"""


def formats_page() -> str:
    """``docs/reference/formats.md``: one row a format."""
    return page("Formats", _FORMATS_INTRO, formats_table("jsonl.md"))


def formats_table(own: str) -> str:
    """Name, what it is and what is read of each format; ``own`` links our own one."""
    rows = [
        (
            f"[`{i.name}`]({own})" if i.name == "trajstore-jsonl" else f"`{i.name}`",
            prose(i.title),
            prose(i.reads),
        )
        for i in importers().values()
    ]
    return table(("format", "what it is", "what is read"), rows)


def views_table() -> str:
    """The views and what they show."""
    return table(("view", "shows"), [(f"`{n}`", m) for n, m in VIEW_MEANINGS.items()])


def commands_table(page: str) -> str:
    """The commands and what they do, linked to ``page``."""
    rows = [(f"[`{n}`]({page}#{n.replace(' ', '-')})", summary(c)) for n, c in commands()]
    return table(("command", "does"), rows)


def report_table() -> str:
    """The fields of an import report."""
    return table(("field", "says"), [(f"`{n}`", w) for n, w in field_words(ImportReport)])


def mapping_table() -> str:
    """What ``--map`` may name, and which columns are taken without it."""
    rows = [(f"`{field}`", codes(names)) for field, (_, names) in FIELDS.items()]
    more = [(f"`{f}`", "part of the conversation") for f in CONVERSATION_FIELDS if f not in FIELDS]
    return table(("field", "taken from the columns"), [*rows, *more])


PAGES: dict[str, Callable[[], str]] = {
    "docs/reference/schema.md": schema_page,
    "docs/reference/formats.md": formats_page,
    "docs/reference/cli.md": cli_page,
    "docs/reference/sft.md": sft_page,
    "docs/reference/exports.md": kinds_page,
    "docs/reference/recipe.md": recipe_page,
    "docs/reference/jobs.md": jobs_page,
}
"""Pages that are written whole."""

SECTIONS: dict[str, dict[str, Callable[[], str]]] = {
    "README.md": {
        "formats": lambda: formats_table("docs/reference/jsonl.md"),
        "views": views_table,
        "commands": lambda: commands_table("docs/reference/cli.md"),
    },
    "docs/guides/importing.md": {"report": report_table, "mapping": mapping_table},
}
"""Hand-written pages, and what is filled into them."""


def texts() -> Iterator[tuple[Path, str]]:
    """Every page that is generated in whole or in part, and what should stand in it."""
    for name, write in PAGES.items():
        yield ROOT / name, write()
    for name, sections in SECTIONS.items():
        page = ROOT / name
        yield page, _filled(page.read_text(encoding="utf-8"), sections)


def _filled(text: str, sections: dict[str, Callable[[], str]]) -> str:
    return _SECTION.sub(lambda m: f"{m[1]}{sections[m[2]]()}{m[3]}", text)


def stale() -> list[str]:
    """Pages that differ from what the code says, by path from the root."""
    return [
        path.relative_to(ROOT).as_posix()
        for path, text in texts()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the pages, or with ``--check`` only compare; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m docs.generate", description=__doc__)
    parser.add_argument("--check", action="store_true", help="only say which pages differ")
    if parser.parse_args(arguments).check:
        differing = stale()
        for page in differing:
            sys.stderr.write(f"{page} is not what the code says; run python -m docs.generate\n")
        return 1 if differing else 0
    for path, text in texts():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
