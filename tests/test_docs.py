"""The pages tell the truth: every block runs, every link resolves, nothing generated is stale.

With ``UPDATE_DOCS=1`` in the environment the outputs that differ are written into the pages.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import trajstore
from docs import generate
from tests import doc_blocks
from tests.doc_blocks import ROOT, Block, Run, agree, blocks
from trajstore import Pool
from trajstore.pipeline import run_demo

PAGES = sorted(
    [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    + [p for p in (ROOT / "docs").rglob("*.md") if "examples" not in p.parts],
)
COOKBOOK = ROOT / "docs/guides/sql-cookbook.md"
LANGUAGES = {"console", "python", "sql", "json", "text", "toml"}
IN_CLONE = "<!-- runs in a fresh clone after make demo -->"


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def every_block(language: str | None = None) -> Iterator[tuple[Path, Block]]:
    for page in PAGES:
        for block in blocks(page.read_text()):
            if language is None or block.language == language:
                yield page, block


def runs(page: Path) -> bool:
    found = blocks(page.read_text())
    return any(b.language in {"console", "python"} and not b.not_run for b in found)


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


def test_every_block_is_run_or_says_why_not() -> None:
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


@pytest.mark.parametrize(("command", "about"), list(generate.commands()), ids=lambda c: str(c))
def test_every_command_has_help_an_example_and_a_section(command: str, about: object) -> None:
    said = str(getattr(about, "help", "") or "")
    assert len(said.splitlines()[0]) > 20
    assert f"Example: {command}" in " ".join(said.split())
    page = (ROOT / "docs/reference/cli.md").read_text()
    assert f"\n## {command}\n" in page


def test_every_option_says_what_it_does() -> None:
    silent = [
        f"{command} {parameter.opts[0]}"
        for command, about in generate.commands()
        for parameter in about.params
        if not parameter.help and parameter.param_type_name == "option"
    ]
    assert silent == []


@pytest.mark.parametrize("command", [c for c, _ in generate.commands()])
def test_every_command_is_used_in_a_page_written_by_hand(command: str) -> None:
    used = "".join(
        b.text for p, b in every_block("console") if name(p) not in {*generate.PAGES}
    )
    assert f"$ {command} " in used or f"$ {command}\n" in used or f"| {command} " in used


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
    text = "<!-- not run: x -->\n```python\nf()\n```\n\n```text\n1\n```\n\nHi\n\n```text\n2\n```\n"
    one, two, three = blocks(text)
    assert (one.language, one.not_run, one.line) == ("python", True, 2)
    assert (two.behind, three.behind) == (0, None)


def test_a_wrong_output_is_replaced_by_the_real_one(tmp_path: Path, shims: Path) -> None:
    text = "```console\n$ echo one\nzwei\n$ cat <<E\n> two\n> E\ntwo\n```\n"
    shown = list(Run(tmp_path, shims).page(text))
    assert doc_blocks.updated(text, shown) == text.replace("zwei", "one")
