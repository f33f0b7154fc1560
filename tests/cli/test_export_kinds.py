"""``trajstore export dpo``, ``reward``, ``kto``, ``prompts`` and ``grpo``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from trajstore_cli._exporting import as_flags

from tests.cli.conftest import Cli
from trajstore import Step, ToolCall, Trajectory
from trajstore import open as open_store
from trajstore.exports import preference
from trajstore.exports.kto import KTO_TARGETS
from trajstore.exports.kto import REFUSALS as KTO_REFUSALS
from trajstore.exports.preference import PAIR_TARGETS
from trajstore.exports.rl import GROUP_TARGETS, PROMPT_TARGETS
from trajstore.exports.rl.groups import REFUSALS as GROUP_REFUSALS
from trajstore.exports.rl.prompts import REFUSALS as PROMPT_REFUSALS

KINDS = ("dpo", "reward", "kto", "prompts", "grpo")
ASKED = Step(actor="user", text="2+3?")


def attempt(name: str, *steps: Step, reward: float | None, task: str = "sums") -> Trajectory:
    return Trajectory(
        trajectory_id=name,
        task_id=task,
        source="hand",
        status="terminated",
        success=None if reward is None else reward >= 1,
        reward=reward,
        steps=(ASKED, *steps),
    )


def called(value: int) -> Step:
    return Step(actor="agent", tool_calls=(ToolCall.of("add", {"x": value}, "c"),))


@pytest.fixture
def sums(tmp_path: Path) -> Path:
    """Three attempts at one task: right, half right, not judged; each a call and an answer."""
    folder = tmp_path / "sums-pool"
    open_store(folder, durable=False).append(
        [
            attempt("good", called(5), Step(actor="agent", text="5"), reward=1.0),
            attempt("half", called(4), Step(actor="agent", text="4?"), reward=0.25),
            attempt("open", called(3), Step(actor="agent", text="3"), reward=None),
        ]
    )
    return folder


def rows(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def test_the_airline_runs_give_26_best_and_worst_pairs(
    cli: Cli, airline_pool: Path, tmp_path: Path
) -> None:
    ran = cli("export", "dpo", airline_pool, "--to", "trl", "-o", tmp_path / "dpo")
    table = pq.read_table(tmp_path / "dpo" / "train.parquet")
    assert (ran.code, table.num_rows) == (0, 26)
    assert set(table.column("chosen_reward").to_pylist()) == {1.0}
    assert set(table.column("rejected_reward").to_pylist()) == {0.0}
    assert [line.split() for line in ran.err.splitlines()] == [
        ["pairs", "200", "->", "26", "pairs"],
        ["export", "dpo", "26", "->", "26"],
    ]


def test_the_prompt_of_an_airline_pair_is_the_system_message(cli: Cli, airline_pool: Path) -> None:
    for row in rows(cli("export", "dpo", airline_pool, "-o", "-").out):
        assert [m["role"] for m in row["prompt"]] == ["system"]
        assert row["chosen"][0]["role"] == row["rejected"][0]["role"] == "user"
        for side in ("chosen", "rejected"):
            spoken = [m["role"] == "assistant" for m in row[side]]
            assert row[f"{side}_trainable"] == spoken
            assert spoken[-1]


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        (("dpo", "--policy", "all_margin"), 88),
        (("dpo", "--level", "step"), 0),
        (("reward",), 26),
        (("reward", "--to", "openrlhf"), 26),
        (("kto",), 200),
        (("prompts", "--to", "verl"), 50),
        (("grpo",), 104),
        (("grpo", "--keep-zero-variance"), 200),
    ],
    ids=lambda v: " ".join(v) if isinstance(v, tuple) else str(v),
)
def test_the_recorded_airline_runs_give_the_known_numbers(
    cli: Cli, airline_pool: Path, tmp_path: Path, arguments: tuple[str, ...], count: int
) -> None:
    kind, *rest = arguments
    ran = cli("export", kind, airline_pool, "-o", tmp_path / "set", *rest, "--json")
    assert ran.code == 0
    assert json.loads(ran.out)["rows"] == count


@pytest.mark.parametrize("to", ["openai", "llama-factory", "openrlhf", "axolotl", "nemo-rl"])
def test_targets_of_single_steps_refuse_whole_runs_with_the_id_and_the_way_out(
    cli: Cli, airline_pool: Path, tmp_path: Path, to: str
) -> None:
    ran = cli("export", "dpo", airline_pool, "--to", to, "-o", tmp_path / "set")
    said = " ".join(ran.err.split())
    ids = json.loads((tmp_path / "set" / "manifest.json").read_text())["refused_ids"]
    assert "refused 26 as several-turns" in said
    assert "build pairs with --level step, or export whole runs to trl" in said
    assert f"(first: {ids['several-turns'][0]})" in said
    assert len(ids["several-turns"]) == 26
    assert cli("export", "dpo", airline_pool, "--to", to, "-o", tmp_path / "set",
               "--fail-empty").code == 1  # fmt: skip


def test_pairs_of_steps_go_to_every_target_that_keeps_calls(cli: Cli, sums: Path) -> None:
    for to in ("trl", "openai", "llama-factory", "openrlhf", "nemo-rl"):
        ran = cli("export", "dpo", sums, "--to", to, "--level", "step", "-o", "-")
        assert len(rows(ran.out)) == 1, ran.err
    ran = cli("export", "dpo", sums, "--to", "axolotl", "--level", "step", "-o", "-")
    assert "refused 1 as calls-lost" in ran.err


def test_a_file_of_pairs_gives_what_building_them_gives(
    cli: Cli, sums: Path, tmp_path: Path
) -> None:
    file = tmp_path / "pairs.parquet"
    cli("pairs", sums, "-o", file)
    given = cli("export", "dpo", sums, "-o", "-", "--pairs", file)
    assert given.code == 0
    assert rows(given.out) == rows(cli("export", "dpo", sums, "-o", "-").out)
    assert [r["chosen_id"] for r in rows(given.out)] == ["good"]


def test_a_selection_says_which_runs_are_paired(cli: Cli, sums: Path, tmp_path: Path) -> None:
    file = tmp_path / "selection.parquet"
    cli("select", sums, "--stage", "keep condition='reward is not null'", "-o", file)
    ran = cli("export", "dpo", sums, "-o", tmp_path / "set", "--selection", file, "--json")
    funnel = json.loads(ran.out)["selection_funnel"]
    assert [(s["stage"], s["in"], s["out"]) for s in funnel] == [
        ("keep", 3, 2),
        ("pairs", 2, 1),
        ("export dpo", 1, 1),
    ]


def test_the_manifest_says_where_the_pairs_come_from(cli: Cli, sums: Path, tmp_path: Path) -> None:
    cli("export", "dpo", sums, "-o", tmp_path / "set", "--where", "trajectory_id <> 'x'")
    manifest = json.loads((tmp_path / "set" / "manifest.json").read_text())
    assert manifest["snapshot"] == 1
    assert manifest["filter"] == "trajectory_id <> 'x'"
    report = manifest["pairs_report"]
    assert (report["policy"], report["pairs"]) == ("best_worst", 1)
    assert report["runs_dropped"] == {"unknown-outcome": 1}
    assert [s["stage"] for s in manifest["selection_funnel"]] == ["where", "pairs", "export dpo"]


def test_unknown_outcomes_never_enter_a_kto_set(cli: Cli, sums: Path, tmp_path: Path) -> None:
    found = rows(cli("export", "kto", sums, "-o", "-").out)
    assert {r["trajectory_id"]: r["label"] for r in found} == {"good": True, "half": False}
    ran = cli("export", "kto", sums, "-o", tmp_path / "set")
    assert "unknown-outcome 1" in ran.err


def test_a_threshold_moves_the_label(cli: Cli, sums: Path) -> None:
    options = ("--criterion", "reward", "--pass-threshold", "0.25")
    found = rows(cli("export", "kto", sums, "-o", "-", *options).out)
    assert [(r["label"], r["value"]) for r in found] == [(True, 1.0), (True, 0.25)]


def test_prompts_are_one_row_a_task_and_count_all_attempts(cli: Cli, sums: Path) -> None:
    (row,) = rows(cli("export", "prompts", sums, "-o", "-").out)
    assert row["prompt"] == [{"role": "user", "content": "2+3?"}]
    assert (row["task_id"], row["attempts"]) == ("sums", 3)


def test_the_first_attempt_has_the_lowest_trial_number(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "pool"
    answer = Step(actor="agent", text="a")
    open_store(folder, durable=False).append(
        [
            Trajectory(
                trajectory_id=name,
                task_id="t",
                source="hand",
                attempt=number,
                steps=(Step(actor="user", text=name), answer),
            )
            for name, number in (("a", None), ("b", 2), ("c", 1))
        ]
    )
    options = ("--differing", "first", "-o", "-")
    (row,) = rows(cli("export", "prompts", folder, *options).out)
    assert (row["trajectory_id"], row["prompt"][0]["content"]) == ("c", "c")


def test_advantages_of_a_group_sum_to_zero(cli: Cli, sums: Path) -> None:
    found = rows(cli("export", "grpo", sums, "-o", "-").out)
    assert len(found) == 2
    assert abs(sum(r["advantage"] for r in found)) < 1e-9


def test_groups_without_a_signal_are_left_out_and_counted(cli: Cli, airline_pool: Path) -> None:
    ran = cli("export", "grpo", airline_pool, "-o", "-", "--dry-run", "--json")
    manifest = json.loads(ran.out)
    assert manifest["groups_report"]["groups_dropped"] == 24
    assert manifest["selection_funnel"][0]["dropped"] == {"no-signal": 96}


def test_runs_without_tokens_are_refused_by_prime_rl(cli: Cli, sums: Path) -> None:
    ran = cli("export", "grpo", sums, "--to", "prime-rl", "-o", "-")
    assert ran.out == ""
    assert "refused 2 as no-token-ids" in ran.err
    assert "(first: good)" in ran.err


@pytest.mark.parametrize("kind", KINDS)
def test_a_dry_run_counts_and_writes_nothing(
    cli: Cli, sums: Path, tmp_path: Path, kind: str
) -> None:
    ran = cli("export", kind, sums, "-o", tmp_path / "set", "--dry-run")
    assert ran.code == 0
    assert f"would write to  {tmp_path / 'set'}" in ran.out
    assert not (tmp_path / "set").exists()


def test_a_dry_run_knows_targets_that_read_parquet_alone(cli: Cli, sums: Path) -> None:
    ran = cli("export", "prompts", sums, "--to", "verl", "-o", "set", "--dry-run", "--json")
    assert json.loads(ran.out)["format"] == "parquet"


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_export_twice_gives_the_same_bytes(
    cli: Cli, sums: Path, tmp_path: Path, kind: str
) -> None:
    for name in ("a", "b"):
        assert cli("export", kind, sums, "-o", tmp_path / name).code == 0
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_to_write_fails_only_where_asked(
    cli: Cli, sums: Path, tmp_path: Path, kind: str
) -> None:
    arguments = ("export", kind, sums, "-o", tmp_path / "set", "--where", "reward > 99")
    ran = cli(*arguments)
    assert ran.code == 0
    assert "no row is left" in ran.err
    assert cli(*arguments, "--fail-empty").code == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("dpo", "--to", "verl"), "trl and openrlhf read pairs of messages"),
        (("reward", "--to", "axolotl"), "no reward export to 'axolotl'; known are trl"),
        (("grpo", "--to", "trl"), "export prompts to it"),
    ],
    ids=["dpo-verl", "reward-axolotl", "grpo-trl"],
)
def test_a_trainer_that_cannot_read_the_kind_is_answered_with_what_can(
    cli: Cli, sums: Path, arguments: tuple[str, ...], words: str
) -> None:
    kind, *rest = arguments
    ran = cli("export", kind, sums, "-o", "x", *rest)
    assert ran.code == 1
    assert words in " ".join(ran.err.split())
    assert not Path("x").exists()


def test_flags_that_build_pairs_do_not_go_with_pairs_that_are_built(
    cli: Cli, sums: Path, tmp_path: Path
) -> None:
    file = tmp_path / "pairs.parquet"
    cli("pairs", sums, "-o", file)
    for flags, code in ((("--level", "step"), 2), (("--where", "true"), 1)):
        ran = cli("export", "dpo", sums, "-o", "-", "--pairs", file, *flags)
        assert (ran.code, ran.out) == (code, "")
    (tmp_path / "text").write_text("no pairs")
    assert cli("export", "dpo", sums, "-o", "-", "--pairs", tmp_path / "text").code == 2
    assert cli("export", "dpo", sums, "-o", "-", "--pairs", tmp_path / "nothing").code == 2


def test_hints_of_all_refusals_are_options_that_exist(cli: Cli) -> None:
    tables = {
        "dpo": [preference.REFUSALS, *(t.refusals for t in PAIR_TARGETS.values())],
        "kto": [KTO_REFUSALS, *(t.refusals for t in KTO_TARGETS.values())],
        "prompts": [PROMPT_REFUSALS, *(t.refusals for t in PROMPT_TARGETS.values())],
        "grpo": [GROUP_REFUSALS, *(t.refusals for t in GROUP_TARGETS.values())],
    }
    for kind, words in tables.items():
        said = " ".join(as_flags(text) for table in words for text in table.values()).split()
        help_text = cli("export", kind, "--help").out
        assert all(w in help_text for w in said if w.startswith("--")), kind


def test_refusals_of_a_target_are_explained_for_sft_too(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "pool"
    steps = (called(1), Step(actor="agent", text="done"))
    open_store(folder, durable=False).append(attempt("t", *steps, reward=1.0))
    ran = cli("export", "sft", folder, "--to", "openai", "-o", tmp_path / "set")
    assert ran.code == 0
    assert "refused 1 as unanswered-call: a call that is not" in ran.err
