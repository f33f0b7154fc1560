"""``docs/reference/recipe.md``: every table and key of a recipe."""

from __future__ import annotations

import re
import typing
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, Field, is_dataclass

from docs.fields import field_words
from docs.markdown import codes, page, prose, table
from trajstore._toml import keys_of, said
from trajstore.pairs import RunRules
from trajstore.pipeline.recipe import DatasetRecipe, ImportRecipe, Recipe
from trajstore.pipeline.recipe_kinds import KINDS
from trajstore.pipeline.recipe_stages import SplitRecipe

_INTRO = """
What `trajstore build` reads: TOML, checked before anything is opened. An unknown key, stage or
parameter, and a value that does not fit, is an error with file, line and the real names.
[Recipes](../guides/recipes.md) shows a whole one and what it writes.
"""

_TOP = {"imports": "import", "stages": "select", "datasets": "dataset"}
_NOT_KEYS = {"path", "table", "contents", "settings"}
_DEFAULTS = {
    "to": "the first of its kind",
    "name": "the kind",
    "datasets": "needed",
    "snapshot": "the newest",
}
_HEADER = ("key", "is", "if not given", "says")

_SELECT = """
Stages that every set begins with, in order, behind the split. `stage` is the name of one; its
parameters are keys beside it. `trajstore stages` lists them,
[selection](../algorithms/selection.md) says what each keeps and drops. What is different here:

- A stage with a parameter `seed` needs one, of its own or at the top.
- `expiry` needs `now`, and an SQL condition may not ask for the clock or for chance.
- A `file` is relative to the recipe, and told in manifests as it stands there.
- `split` is no stage: it has a table of its own, and comes first.
- A vector function (`embed`) cannot be written in a file; build such a selection in Python.
"""


def recipe_page() -> str:
    """The page."""
    return page(
        "Recipe",
        _INTRO,
        "## Top of the file",
        keys_table(Recipe),
        "## `[import]`",
        keys_table(ImportRecipe),
        "## `[split]`",
        keys_table(SplitRecipe),
        "## `[[select]]` and `[[dataset.select]]`",
        _SELECT,
        "## `[[dataset]]`",
        "Keys of every kind:",
        keys_table(DatasetRecipe),
        "Kinds, the trainers that each can be written for (the first where `to` is not given), and "
        "the\ntables that it reads:",
        _kinds(),
        *_own_tables(),
    )


def keys_table(kind: type, without: Iterable[str] = ()) -> str:
    """The keys of a dataclass: type, default and meaning of each but some."""
    words = dict(_words(kind))
    hints = typing.get_type_hints(kind)
    rows = []
    for key in keys_of(kind):
        if key.name in _NOT_KEYS or key.name in without:
            continue
        name = _TOP.get(key.name, key.name)
        rows.append((f"`{name}`", _type(hints[key.name]), _default(key), _plain(words[key.name])))
    return table(_HEADER, rows)


def _words(kind: type) -> Iterator[tuple[str, str]]:
    for base in reversed(kind.__mro__):
        if is_dataclass(base):
            yield from field_words(base)


def _type(hint: object) -> str:
    words = said(hint)
    if "trajstore" in words:
        return "a table"
    return re.sub(r"'([^']*)'", r"`\1`", words)


def _default(key: Field[object]) -> str:
    if key.name in _DEFAULTS:
        return _DEFAULTS[key.name]
    if key.default is not MISSING:
        value = key.default
    elif key.default_factory is not MISSING:
        value = key.default_factory()
    else:
        return "needed"
    return "" if value is None or value in ("", (), {}) else f"`{_toml(value)}`"


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(_quoted(v) for v in value)}]"
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{k} = {v}' for k, v in value.items())} }}"
    return str(value)


def _quoted(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def _plain(words: str) -> str:
    text = re.sub(r":(?:class|data|func):`~?(?:[\w.]*\.)?(\w+)`", r"`\1`", words)
    text = re.sub("; see `(ChatRules|POLICIES)`", "", text)
    return prose(text.replace("where None", "where not given"))


def _kinds() -> str:
    rows = [
        (f"`{name}`", prose(kind.about), codes(kind.targets()), codes(kind.keys))
        for name, kind in KINDS.items()
    ]
    return table(("kind", "holds", "`to`", "reads"), rows)


def _own_tables() -> Iterator[str]:
    """A section for each table of its own, and the kinds that share it."""
    sections: dict[tuple[str, tuple[type, ...]], list[str]] = {}
    for name, kind in KINDS.items():
        for key, classes in kind.tables.items():
            sections.setdefault((key, tuple(classes)), []).append(name)
    yield "## Keys of some kinds"
    yield table(("key", "kind", "says"), list(_more()))
    for (key, classes), names in sections.items():
        yield f"## `[dataset.{key}]` of {' and '.join(f'`{n}`' for n in names)}"
        for each in classes:
            if each is RunRules:
                yield "Which runs count, and what they are judged by: [below](#rules-for-runs)."
            else:
                yield _level(each)
                yield keys_table(each, without={"runs"})
    yield "## Rules for runs"
    yield "Keys of `pairs`, `groups` and `verdicts` beside those above."
    yield keys_table(RunRules)


def _more() -> Iterator[tuple[str, str, str]]:
    told: dict[tuple[str, str], list[str]] = {}
    for name, kind in KINDS.items():
        for key, words in kind.more.items():
            told.setdefault((key, words), []).append(name)
    for (key, words), names in told.items():
        yield f"`{key}`", codes(names), prose(words)


def _level(kind: type) -> str:
    levels = {"TrajectoryPairOptions": "trajectory", "StepPairOptions": "step"}
    level = levels.get(kind.__name__)
    return f'With `level = "{level}"`:' if level else "Keys:"
