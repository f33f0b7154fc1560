"""``docs/reference/exports.md``: targets, options and refusals of every kind but SFT."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields

from docs.fields import field_words
from docs.markdown import codes, page, prose, table
from trajstore.exports import kto, preference, rl
from trajstore.exports.chat_options import ChatOptions
from trajstore.exports.preference import PairKind, PairRowOptions
from trajstore.exports.rl import GroupRowOptions, PromptOptions
from trajstore.exports.rl import groups as grouped
from trajstore.exports.rl import prompts as prompted
from trajstore.exports.target import Described

_INTRO = """
What `trajstore export dpo`, `reward`, `kto`, `prompts` and `grpo` write: the rows, `README.md` (a
dataset card that `datasets` reads, with how to train on it) and `manifest.json`. The first format
is written unless another is asked for.
[How to choose](../guides/exporting-preference-and-rl.md);
[what each trainer reads, and why some are refused](../algorithms/exports.md);
[the SFT export](sft.md).
"""

Row = tuple[str, str, str, str, str]


def kinds_page() -> str:
    """The page."""
    return page(
        "Preference and RL exports",
        _INTRO,
        "## Targets",
        table(
            ("kind", "target", "formats", "columns", "further files"),
            [*_pairs(), *_kto(), *_prompts(), *_groups()],
        ),
        "## Options",
        "All kinds share these; on the command line the flags of the same name.",
        _options(ChatOptions),
        "Some have options of their own.",
        table(
            ("kind", "option", "if not given", "what it does"),
            [
                *_own("`reward`", PairRowOptions),
                *_own("`prompts`", PromptOptions),
                *_own("`grpo`", GroupRowOptions),
            ],
        ),
        "## Refusals",
        "A pair, run or task that gives no row is counted under a reason; the manifest holds the "
        "first 100 ids of\neach.",
        table(("kind", "target", "reason", "why, and what to do"), list(_refusals())),
        "## Rules",
        "Changes on the way to messages are [those of the SFT export](sft.md#rules), and these.",
        table(("kind", "target", "rule", "what it does"), list(_rules())),
    )


def _row(kind: str, target: Described, columns: Iterable[str], further: Iterable[str]) -> Row:
    return (f"`{kind}`", f"`{target.name}`", codes(target.formats), codes(columns), codes(further))


def _pairs() -> list[Row]:
    kinds: tuple[PairKind, ...] = ("dpo", "reward")
    return [
        _row(kind, t, t.columns(kind, PairRowOptions()), t.further(kind, f"train.{t.formats[0]}"))
        for kind in kinds
        for t in preference.PAIR_TARGETS.values()
        if kind in t.kinds
    ]


def _kto() -> list[Row]:
    return [_row("kto", t, t.columns(), t.files("train")) for t in kto.KTO_TARGETS.values()]


def _prompts() -> list[Row]:
    asked = PromptOptions(ground_truth="answer")
    return [
        _row("prompts", t, t.columns(asked), t.files("train")) for t in rl.PROMPT_TARGETS.values()
    ]


def _groups() -> list[Row]:
    return [_row("grpo", t, t.columns(), t.files("train")) for t in rl.GROUP_TARGETS.values()]


def _options(kind: type) -> str:
    defaults = {f.name: f.default for f in fields(kind)}
    rows = [(f"`{n}`", f"`{defaults[n]}`", prose(words)) for n, words in field_words(kind)]
    return table(("option", "if not given", "what it does"), rows)


def _own(kind: str, options: type) -> list[tuple[str, str, str, str]]:
    defaults = {f.name: f.default for f in fields(options)}
    return [(kind, f"`{n}`", f"`{defaults[n]}`", prose(words)) for n, words in field_words(options)]


_ANY = "any"


def _refusals() -> Iterable[Sequence[str]]:
    yield from _words("`dpo`, `reward`", _ANY, preference.REFUSALS)
    yield from _of("`dpo`, `reward`", preference.PAIR_TARGETS, "refusals")
    yield from _words("`kto`", _ANY, kto.REFUSALS)
    yield from _of("`kto`", kto.KTO_TARGETS, "refusals")
    yield from _words("`prompts`", _ANY, prompted.REFUSALS)
    yield from _of("`prompts`", rl.PROMPT_TARGETS, "refusals")
    yield from _words("`grpo`", _ANY, grouped.REFUSALS)
    yield from _of("`grpo`", rl.GROUP_TARGETS, "refusals")


def _rules() -> Iterable[Sequence[str]]:
    yield from _of("`dpo`, `reward`", preference.PAIR_TARGETS, "rules")
    yield from _of("`kto`", kto.KTO_TARGETS, "rules")
    yield from _words("`prompts`", _ANY, prompted.RULES)
    yield from _of("`prompts`", rl.PROMPT_TARGETS, "rules")
    yield from _of("`grpo`", rl.GROUP_TARGETS, "rules")


def _of(kind: str, targets: Mapping[str, Described], attribute: str) -> Iterable[Sequence[str]]:
    for target in targets.values():
        yield from _words(kind, f"`{target.name}`", getattr(target, attribute))


def _words(kind: str, target: str, words: Mapping[str, str]) -> Iterable[Sequence[str]]:
    return [(kind, target, f"`{name}`", prose(text)) for name, text in words.items()]
