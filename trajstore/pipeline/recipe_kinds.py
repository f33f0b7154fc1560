"""The kinds of sets that a recipe can make: which keys each reads, and how it is written."""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from trajstore._toml import Table, keys_of
from trajstore.exports import TARGETS, ExportReport, SftOptions
from trajstore.exports.kto import KTO_TARGETS, KtoOptions
from trajstore.exports.preference import PAIR_TARGETS, PairKind, PairRowOptions
from trajstore.exports.rl import GROUP_TARGETS, PROMPT_TARGETS, GroupRowOptions, PromptOptions
from trajstore.filters import Selection
from trajstore.pairs import GroupOptions, RunRules, StepPairOptions, TrajectoryPairOptions
from trajstore.pipeline.exporting import export_sft_from
from trajstore.pipeline.exporting_pairs import export_kto_from, export_pairs_from
from trajstore.pipeline.exporting_rl import export_groups_from, export_prompts_from
from trajstore.store import Store

Settings = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetKind:
    """One kind of set."""

    about: str
    """What it holds, in words."""
    tables: Mapping[str, Sequence[type]]
    """Tables of ``[[dataset]]`` that it reads, and the dataclasses whose fields are their keys."""
    more: Mapping[str, str]
    """Further keys, ``key`` of ``[[dataset]]`` or ``table.key``, and what they say."""
    targets: Callable[[], Sequence[str]]
    """The trainers that it can be written for; the first is taken where none is named."""
    settings: Callable[[Table, int | None], Settings]
    """Reads those keys."""
    export: Callable[..., ExportReport]
    """Writes it: ``(store, folder, selection=, to=, format=, **settings)``."""

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys of ``[[dataset]]`` that it reads beside those of every kind."""
        return (*self.tables, *(k for k in self.more if "." not in k))

    def write(
        self,
        store: Store,
        out: Path,
        selection: Selection,
        *,
        to: str,
        format_: str | None,
        settings: Settings,
    ) -> ExportReport:
        """Write the set of a selection to a folder."""
        return self.export(store, out, selection=selection, to=to, format=format_, **settings)


def _sft(table: Table, seed: int | None) -> Settings:
    del seed
    failures = "include_failures" in table.values and table.value("include_failures", bool)
    options = table.table("options").made(SftOptions)
    if options.tokenizer is not None:
        beside = Path(table.source.name).parent / options.tokenizer
        options = replace(options, tokenizer=str(beside))
    return {"success_only": not failures, "options": options}


def _pairs(table: Table, seed: int | None) -> Settings:
    said = table.table("pairs")
    step = "level" in said.values and said.value("level", _Level) == "step"
    kind = StepPairOptions if step else TrajectoryPairOptions
    extra = ("step_values", "alpha") if step else ()
    pairing = _with_rules(said, kind, ("level", *extra), seed=_seed(said, seed))
    hints = {"step_values": tuple[str, ...], "alpha": float}
    given = {n: said.value(n, hints[n]) for n in extra if n in said.values}
    return {"pairing": pairing, "options": table.table("options").made(PairRowOptions), **given}


_Level = typing.Literal["trajectory", "step"]


def _seed(said: Table, seed: int | None) -> int:
    """The seed of pairs; whoever draws must have one."""
    if "seed" in said.values:
        return int(said.value("seed", int))
    draws = [n for n in ("max_pairs", "length_balance") if n in said.values]
    if draws and seed is None:
        message = (
            f"Pairs with '{draws[0]}' are drawn and need a seed: write seed = 0 here, or once for "
            "all at the top of the recipe."
        )
        raise said.error(message, draws[0])
    return seed or 0


def _kto(table: Table, seed: int | None) -> Settings:
    del seed
    said = table.table("verdicts")
    said.known([*_names(RunRules), "pass_threshold"])
    given = {}
    if "pass_threshold" in said.values:
        given["pass_threshold"] = said.value("pass_threshold", float)
    rules = _rules(said, RunRules(criterion="success", truncated="keep"))
    return {"rules": rules, "options": table.table("options").made(KtoOptions), **given}


def _prompts(table: Table, seed: int | None) -> Settings:
    del seed
    options = table.table("options").made(PromptOptions)
    if "split" in table.values and "split" not in table.table("options").values:
        options = replace(options, split=table.value("split", str))
    return {"options": options}


def _groups(table: Table, seed: int | None) -> Settings:
    del seed
    said = table.table("groups")
    signal = {} if "no_signal" in said.values else {"no_signal": "drop-zero-variance"}
    grouping = _with_rules(said, GroupOptions, **signal)
    return {"grouping": grouping, "options": table.table("options").made(GroupRowOptions)}


def _names(kind: type) -> Iterable[str]:
    return (f.name for f in keys_of(kind) if f.name != "runs")


def _with_rules(said: Table, kind: type[Any], others: Sequence[str] = (), **more: Any) -> Any:
    """Options, and the rules for runs inside them, from one table."""
    said.known([*_names(kind), *_names(RunRules), *others])
    return said.made(kind, others=True, runs=_rules(said, kind().runs), **more)


def _rules(said: Table, default: RunRules) -> RunRules:
    hints = typing.get_type_hints(RunRules)
    given = {n: said.value(n, hints[n]) for n in _names(RunRules) if n in said.values}
    return replace(default, **given)


def _pair_targets(kind: PairKind) -> list[str]:
    return [name for name, target in PAIR_TARGETS.items() if kind in target.kinds]


_PAIR_TABLES: Mapping[str, Sequence[type]] = {
    "pairs": (TrajectoryPairOptions, StepPairOptions, RunRules),
    "options": (PairRowOptions,),
}
_PAIR_KEYS = {
    "pairs.level": "`trajectory` (whole runs) or `step` (next actions); whole runs if not given",
    "pairs.step_values": "names of one or two step labels that say what single actions are worth "
    "(level `step`)",
    "pairs.alpha": "weight of the first of two of those, 0.5 if not given",
}

KINDS: Mapping[str, SetKind] = {
    "sft": SetKind(
        about="supervised fine-tuning: conversations",
        tables={"options": (SftOptions,)},
        more={"include_failures": "`true` also takes runs that failed or have no known outcome"},
        targets=lambda: list(TARGETS),
        settings=_sft,
        export=export_sft_from,
    ),
    "dpo": SetKind(
        about="preference pairs: a prompt, the chosen and the rejected rest",
        tables=_PAIR_TABLES,
        more=_PAIR_KEYS,
        targets=partial(_pair_targets, "dpo"),
        settings=_pairs,
        export=partial(export_pairs_from, kind="dpo"),
    ),
    "reward": SetKind(
        about="the same pairs, for a reward model",
        tables=_PAIR_TABLES,
        more=_PAIR_KEYS,
        targets=partial(_pair_targets, "reward"),
        settings=_pairs,
        export=partial(export_pairs_from, kind="reward"),
    ),
    "kto": SetKind(
        about="single runs, each labelled good or bad",
        tables={"verdicts": (RunRules,), "options": (KtoOptions,)},
        more={"verdicts.pass_threshold": "least value of a good run, 1.0 if not given"},
        targets=lambda: list(KTO_TARGETS),
        settings=_kto,
        export=export_kto_from,
    ),
    "prompts": SetKind(
        about="prompts to sample from, one a task (online GRPO)",
        tables={"options": (PromptOptions,)},
        more={},
        targets=lambda: list(PROMPT_TARGETS),
        settings=_prompts,
        export=export_prompts_from,
    ),
    "grpo": SetKind(
        about="stored attempts at each task with advantages (offline GRPO)",
        tables={"groups": (GroupOptions, RunRules), "options": (GroupRowOptions,)},
        more={"groups.no_signal": "here `drop-zero-variance` if not given"},
        targets=lambda: list(GROUP_TARGETS),
        settings=_groups,
        export=export_groups_from,
    ),
}
"""Every kind by the name that a recipe gives."""
