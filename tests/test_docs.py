"""The pages tell the truth: every block runs, every link resolves, nothing generated is stale.

With ``UPDATE_DOCS=1`` in the environment the outputs that differ are written into the pages.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import trajstore
from docs import generate, schema_page
from docs.cli_page import commands, example
from docs.fields import field_words
from docs.markdown import prose, table
from docs.schema_page import type_name
from tests import doc_blocks
from tests.doc_blocks import ROOT, Block, Run, agree, blocks
from trajstore import ImportReport, Pool
from trajstore.importers import importers
from trajstore.pipeline import run_demo
from trajstore.schema import TABLES

PAGES = sorted(
    [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    + [p for p in (ROOT / "docs").rglob("*.md") if "examples" not in p.parts],
)
COOKBOOK = ROOT / "docs/guides/sql-cookbook.md"
LANGUAGES = {"sh", "python", "sql", "json", "text"}
IN_CLONE = "<!-- runs in a fresh clone after make demo -->"


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def every_block(language: str | None = None) -> Iterator[tuple[Path, Block]]:
    for page in PAGES:
        for block in blocks(page.read_text()):
            if language is None or block.language == language:
                yield page, block


def runs(page: Path) -> bool:
    return any(block.runs for block in blocks(page.read_text()))


@pytest.fixture(scope="session")
def shims(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return doc_blocks.write_shims(tmp_path_factory.mktemp("bin") / "shims")


@pytest.fixture(scope="session")
def demo_pool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo") / "demo-pool"
    run_demo(trajstore.open(folder, durable=False))
    return folder


@pytest.fixture(scope="session")
def everything(real_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Pool:
    store = trajstore.open(tmp_path_factory.mktemp("real") / "pool", durable=False)
    store.import_files(real_data)
    return store


@pytest.mark.slow
@pytest.mark.parametrize("page", [p for p in PAGES if runs(p)], ids=name)
def test_every_block_runs_and_prints_what_the_page_says(
    page: Path, demo_pool: Path, shims: Path, tmp_path: Path
) -> None:
    text = page.read_text()
    shutil.copytree(ROOT / "docs/examples", tmp_path / "docs/examples")
    if IN_CLONE in text:
        shutil.copytree(demo_pool, tmp_path / "demo-pool")
    shown = list(Run(tmp_path, shims).page(text))
    if os.environ.get("UPDATE_DOCS"):
        page.write_text(doc_blocks.updated(text, shown))
        return
    for block, should in shown:
        assert block.text == should, f"{name(page)}:{block.line} prints something else"


def test_every_block_is_run_checked_or_an_output() -> None:
    strange = [f"{name(p)}:{b.line}" for p, b in every_block() if b.language not in LANGUAGES]
    assert strange == []


@pytest.mark.parametrize(("page", "block"), list(every_block("json")), ids=str)
def test_json_in_the_pages_is_json(page: Path, block: Block) -> None:
    assert json.loads(block.text) is not None, name(page)


QUERIES = [b for p, b in every_block("sql") if p == COOKBOOK]


def test_the_cookbook_has_at_least_15_recipes() -> None:
    assert len(QUERIES) >= 15


@pytest.mark.parametrize("block", QUERIES, ids=lambda b: f"line-{b.line}")
def test_every_recipe_gives_rows_over_the_recorded_runs(everything: Pool, block: Block) -> None:
    assert everything.query(block.text).read_all().num_rows > 0


def test_sql_in_the_pages_runs_over_the_demo(demo_pool: Path) -> None:
    store = trajstore.open(demo_pool)
    for _, block in every_block("sql"):
        assert store.query(block.text).read_all().num_columns > 0


@pytest.mark.parametrize("page", sorted({*generate.PAGES, *generate.SECTIONS}))
def test_what_the_code_knows_is_not_stale(page: str) -> None:
    assert page not in generate.stale(), "run: python -m docs.generate"


def test_check_says_which_page_is_stale(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(generate.PAGES, "docs/reference/cli.md", lambda: "something else")
    assert generate.main(["--check"]) == 1
    assert "docs/reference/cli.md" in capsys.readouterr().err


@pytest.mark.parametrize(("command", "about"), list(commands()), ids=str)
def test_every_command_has_help_an_example_and_a_section(command: str, about: object) -> None:
    said = str(getattr(about, "help", "") or "")
    assert len(said.splitlines()[0]) > 20
    assert example(about).startswith(command)
    page = (ROOT / "docs/reference/cli.md").read_text()
    assert f"\n## {command}\n" in page


def test_every_option_says_what_it_does() -> None:
    silent = [
        f"{command} {parameter.opts[0]}"
        for command, about in commands()
        for parameter in about.params
        if not parameter.help and parameter.param_type_name == "option"
    ]
    assert silent == []


def section(command: str) -> str:
    page = (ROOT / "docs/reference/cli.md").read_text()
    return page.split(f"\n## {command}\n")[1].partition("\n## ")[0]


def test_an_option_says_its_choices_and_its_default() -> None:
    said = section("trajstore export sft")
    assert "| `--layout` `messages` or `prompt-completion` |" in said
    assert re.search(r"\| `--layout` .*; `messages` if not given \|", said)
    assert re.search(
        r"\| `--reasoning`, `--no-reasoning` \| .*; `--reasoning` if not given \|", said
    )


def test_an_argument_says_whether_it_must_be_there_and_how_often() -> None:
    assert "trajstore import STORE PATH... [OPTIONS]" in section("trajstore import")
    assert "trajstore demo [DIR] [OPTIONS]" in section("trajstore demo")
    assert "may be given several times" in section("trajstore import")


@pytest.mark.parametrize(
    ("type_", "words"),
    [
        (pa.timestamp("us", tz="UTC"), "timestamp[us, UTC]"),
        (pa.map_(pa.string(), pa.float64()), "map<string, double>"),
        (pa.list_(pa.struct([("a", pa.bool_())])), "list<struct<a bool>>"),
    ],
)
def test_a_type_is_said_in_few_words(type_: pa.DataType, words: str) -> None:
    assert type_name(type_) == words


def test_every_column_of_every_table_is_in_the_schema_page() -> None:
    page = (ROOT / "docs/reference/schema.md").read_text()
    rows = [f"| `{c.name}` | `{type_name(c.type)}` |" for t in TABLES.values() for c in t]
    assert [r for r in rows if r not in page] == []


def test_a_column_without_words_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(schema_page._STORED_MEANINGS, "revision")
    with pytest.raises(LookupError, match="'revision'"):
        schema_page.schema_page()


def test_fields_are_told_by_the_docstrings_under_them() -> None:
    words = dict(field_words(ImportReport))
    assert words["secrets"] == "Secrets found and replaced, by kind"
    assert words["formats"].endswith("...")
    assert words.keys() == {f.name for f in dataclasses.fields(ImportReport)}


def test_markdown_sees_neither_html_nor_cells_in_text() -> None:
    assert prose("<think>") == "&lt;think&gt;"
    assert table(("a",), [("x | y",)]).endswith("| x \\| y |\n")


def test_generating_writes_every_page(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    monkeypatch.setattr(generate, "SECTIONS", {"a.md": {"name": lambda: "new\n"}})
    (tmp_path / "a.md").write_text("a\n<!-- generated: name -->\nold\n<!-- end -->\nb\n")
    assert generate.main([]) == 0
    assert generate.stale() == []
    assert (tmp_path / "a.md").read_text() == "a\n<!-- generated: name -->\nnew\n<!-- end -->\nb\n"
    assert (tmp_path / "docs/reference/schema.md").is_file()


@pytest.mark.parametrize("command", [c for c, _ in commands()])
def test_every_command_is_used_in_a_page_written_by_hand(command: str) -> None:
    used = "".join(b.text for p, b in every_block("sh") if name(p) not in generate.PAGES)
    assert re.search(rf"(^|[(|] ?){command}( |$)", used, re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """Anchors of the headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    kept = [re.sub(r"[^\w\- ]", "", h.lower()) for h in headings]
    return {k.replace(" ", "-") for k in kept}


def links() -> Iterator[tuple[Path, str]]:
    for page in PAGES:
        text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if not target.startswith(("http://", "https://")):
                yield page, target


def test_every_link_inside_the_project_resolves() -> None:
    broken = []
    for page, target in links():
        path, _, anchor = target.partition("#")
        aim = (page.parent / path).resolve() if path else page
        if not aim.exists() or (anchor and anchor not in anchors(aim)):
            broken.append(f"{name(page)}: {target}")
    assert broken == []


def test_every_page_is_reached_from_the_index() -> None:
    index = ROOT / "docs/index.md"
    reached = {(p.parent / t.partition("#")[0]).resolve() for p, t in links() if p == index}
    pages = {p for p in PAGES if p.is_relative_to(ROOT / "docs")}
    assert pages - reached == {index}


def test_every_test_that_a_page_names_exists() -> None:
    source = "".join(p.read_text() for p in (ROOT / "tests").rglob("test_*.py"))
    named = {(name(p), t) for p in PAGES for t in re.findall(r"`(test_\w+)`", p.read_text())}
    assert named
    assert [t for t in sorted(named) if f"def {t[1]}(" not in source] == []


def test_the_number_of_formats_is_the_real_one() -> None:
    said = f"{len(importers())} formats"
    assert said in (ROOT / "README.md").read_text()
    assert said in (ROOT / "CHANGELOG.md").read_text()


def test_every_public_name_is_in_the_python_tour() -> None:
    tour = (ROOT / "docs/reference/python.md").read_text()
    assert [n for n in trajstore.__all__ if n not in tour] == []


def test_an_output_agrees_up_to_times_and_spaces() -> None:
    assert agree("a  2026-01-02T03:04:05Z\n──  ─", "a 2026-11-30 17:00:00.123+00\n─ ─\n")
    assert not agree("a  1", "a  2")


def test_three_dots_stand_for_anything_in_a_line_or_for_lines() -> None:
    assert agree("a ... c\n...\nz", "a b c\n1\n2\nz")
    assert not agree("a ... c", "a b c\nd")


def test_blocks_know_their_language_mark_and_output() -> None:
    text = "<!-- exits 1 -->\n```python\nf()\n```\n\n```text\n1\n```\n\nHi\n\n```text\n2\n```\n"
    code, output, other = blocks(text)
    assert (code.language, code.line, code.exit_code, code.runs) == ("python", 2, 1, True)
    assert (output.output_of, other.output_of) == (0, None)


def test_a_block_that_is_not_run_has_no_output() -> None:
    code, output = blocks("<!-- not run: x -->\n```sh\nf\n```\n```text\n1\n```\n")
    assert (code.runs, output.output_of) == (False, None)


def test_a_wrong_output_is_replaced_by_the_real_one(tmp_path: Path, shims: Path) -> None:
    text = "```sh\ncat <<E\none\ntwo\nE\n```\n\n```text\none\nzwei\n```\n\nend\n"
    shown = list(Run(tmp_path, shims).page(text))
    assert doc_blocks.updated(text, shown) == text.replace("zwei", "two")


def test_a_script_that_fails_is_not_silent(tmp_path: Path, shims: Path) -> None:
    with pytest.raises(AssertionError, match="line 1 exits with 1"):
        list(Run(tmp_path, shims).page("```sh\nfalse\necho never\n```\n"))
