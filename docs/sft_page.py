"""``docs/reference/sft.md``: columns, options, refusals and rules of the SFT export."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields

from docs.fields import field_words
from docs.markdown import codes, page, prose, table
from trajstore.exports import REFUSALS, RULES, SFT_COLUMNS, TARGETS, SftOptions

_INTRO = """
What `trajstore export sft` and `Pool.export_sft` write: `train.parquet` or `train.jsonl`,
`README.md` (a dataset card that `datasets` reads) and `manifest.json` (snapshot, condition, funnel,
counts, hash of the ids). The same store, snapshot and options give the same bytes.
[Why the rows look so](../design/0003-sft-export.md);
[what each trainer reads](../algorithms/exports.md).
"""

_COLUMNS = {
    "messages": "the chat: role, content, and where there are any `reasoning_content`, "
    "`tool_calls`, `name`, `tool_call_id`; a key without a value is absent",
    "prompt": "the messages before the first turn to train on",
    "completion": "the messages from there to the last turn to train on",
    "tools": "JSON text of the tool definitions, or null",
    "trainable": "for each message, whether loss may fall on it",
    "trajectory_id": "the run",
    "task_id": "its task",
    "reward": "its reward; null where unknown or not finite",
}


def sft_page() -> str:
    """The page."""
    return page(
        "SFT export",
        _INTRO,
        "## Targets",
        "The trainer is named by `to`. The first format is written unless another is asked for.",
        _targets(),
        "## Columns for TRL",
        _columns(),
        "## Options",
        "In Python `SftOptions(...)`; on the command line the flags of the same name.",
        _options(),
        "## Refusals",
        "A run that gives no row is counted under a reason, in the report and in the manifest.",
        _words(("reason", "why, and what to do"), REFUSALS),
        "Some targets have reasons of their own.",
        _own_words(("target", "reason", "why, and what to do"), "refusals"),
        "## Rules",
        "A chat cannot say everything that a trajectory can. Each change on the way has a name, "
        "and the\nmanifest counts it under `rules_applied`.",
        _words(("rule", "what it does"), RULES),
        "Some targets have rules of their own.",
        _own_words(("target", "rule", "what it does"), "rules"),
    )


def _targets() -> str:
    rows = []
    for target in TARGETS.values():
        columns = target.columns(SftOptions(layout=target.layouts[0]))
        further = target.files(f"train.{target.formats[0]}")
        rows.append(
            (
                f"`{target.name}`",
                target.title,
                codes(target.formats),
                codes(columns),
                codes(further),
            )
        )
    return table(("target", "trainer", "formats", "columns", "further files"), rows)


def _own_words(header: tuple[str, str, str], attribute: str) -> str:
    rows = [
        (f"`{target.name}`", f"`{name}`", prose(text))
        for target in TARGETS.values()
        for name, text in getattr(target, attribute).items()
    ]
    return table(header, rows)


def _columns() -> str:
    names = list(dict.fromkeys(c for columns in SFT_COLUMNS.values() for c in columns))
    rows = [
        (f"`{n}`", ", ".join(f"`{layout}`" for layout, c in SFT_COLUMNS.items() if n in c), words)
        for n, words in ((n, _COLUMNS[n]) for n in names)
    ]
    return table(("column", "layout", "what it holds"), rows)


def _options() -> str:
    defaults = {f.name: f.default for f in fields(SftOptions)}
    rows = [
        (f"`{name}`", f"`{defaults[name]}`", _plain(words))
        for name, words in field_words(SftOptions)
    ]
    return table(("option", "if not given", "what it does"), rows)


def _plain(words: str) -> str:
    return prose(re.sub(r":class:`(\w+)`", r"`\1`", words)).replace("; see `ChatRules`", "")


def _words(header: tuple[str, str], words: Mapping[str, str]) -> str:
    return table(header, [(f"`{name}`", prose(text)) for name, text in words.items()])
