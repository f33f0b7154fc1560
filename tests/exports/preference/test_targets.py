"""What every preference target promises, and what each reads and refuses."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.exports.preference.pairs import pair_of, runs_of, two_runs
from trajstore.errors import ExportError
from trajstore.exports.preference import (
    PAIR_TARGETS,
    REFUSALS,
    PairRowOptions,
    export_pairs,
)
from trajstore.schema import Step, ToolCall, Trajectory

Run = Callable[..., Trajectory]

EVERY = [(t.name, kind) for t in PAIR_TARGETS.values() for kind in t.kinds]
BOTH = pytest.mark.parametrize(("name", "kind"), EVERY, ids=["-".join(e) for e in EVERY])
STEP_ONLY = ["openai", "llama-factory", "openrlhf", "axolotl", "nemo-rl"]


@pytest.fixture(scope="session")
def answers(run: Run) -> tuple[pa.Table, Any]:
    """A pair of single answers to one question: what every target takes."""
    question = (Step(actor="system", text="Add."), Step(actor="user", text="2+3?"))
    good, bad = (run(*question, Step(actor="agent", text=t), trajectory_id=t) for t in ("5", "4"))
    return pair_of(good, bad, n_prompt_steps=2), runs_of(good, bad)


@pytest.fixture(scope="session")
def calls(run: Run) -> tuple[pa.Table, Any]:
    """A pair of single steps with a call on either side."""
    question = (Step(actor="system", text="Add."), Step(actor="user", text="2+3?"))
    good, bad = (
        run(
            *question,
            Step(actor="agent", text="so", tool_calls=(ToolCall.of("add", {"a": a}, "c1"),)),
            trajectory_id=str(a),
            tools='[{"name":"add","input_schema":{"type":"object"}}]',
        )
        for a in (2, 3)
    )
    pair = pair_of(good, bad, level="step", n_prompt_steps=2, chosen_step=2, rejected_step=2)
    return pair, runs_of(good, bad)


def _written(given: tuple[pa.Table, Any], **how: Any) -> dict[str, Any]:
    stream = io.StringIO()
    export_pairs(*given, stream, format="jsonl", **how)
    (line,) = stream.getvalue().splitlines()
    return dict(json.loads(line))


def _nulls(value: Any) -> list[str]:
    if isinstance(value, Mapping):
        own = [k for k, v in value.items() if v is None]
        return own + [k for v in value.values() for k in _nulls(v)]
    return [k for v in value for k in _nulls(v)] if isinstance(value, list) else []


@BOTH
def test_a_folder_holds_data_card_manifest_and_further_files(
    tmp_path: Path, answers: Any, name: str, kind: Any
) -> None:
    target = PAIR_TARGETS[name]
    report = export_pairs(*answers, tmp_path, to=name, kind=kind)
    data = f"train.{target.formats[0]}"
    further = target.further(kind, data)
    names = {p.name for p in tmp_path.iterdir()}
    assert names == {data, "README.md", "manifest.json", *further}
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert manifest == json.loads(json.dumps(report.manifest))
    assert (manifest["kind"], manifest["to"]) == (kind, name)
    assert (manifest["rows"], manifest["pairs"], manifest["trajectories"]) == (1, 1, 2)
    assert manifest.get("further_files", []) == sorted(further)


@BOTH
def test_every_format_has_the_columns_that_are_declared(
    tmp_path: Path, answers: Any, name: str, kind: Any
) -> None:
    target = PAIR_TARGETS[name]
    columns = list(target.columns(kind, PairRowOptions()))
    for format_ in target.formats:
        export_pairs(*answers, tmp_path / format_, to=name, kind=kind, format=format_)
    if "jsonl" in target.formats:
        assert list(json.loads((tmp_path / "jsonl" / "train.jsonl").read_text())) == columns
    if "parquet" in target.formats:
        assert pq.read_schema(tmp_path / "parquet" / "train.parquet").names == columns


@BOTH
def test_the_same_pairs_give_the_same_bytes(
    tmp_path: Path, answers: Any, name: str, kind: Any
) -> None:
    for folder in ("a", "b"):
        export_pairs(*answers, tmp_path / folder, to=name, kind=kind)
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


@BOTH
def test_no_message_is_padded_with_nulls(calls: Any, answers: Any, name: str, kind: Any) -> None:
    given = answers if name == "axolotl" else calls
    row = _written(given, to=name, kind=kind)
    assert set(_nulls(row)) <= {"tools"}, "only a column may be null"


@BOTH
@pytest.mark.filterwarnings("ignore")
def test_datasets_loads_the_folder_as_what_went_in(
    tmp_path: Path, calls: Any, answers: Any, name: str, kind: Any
) -> None:
    datasets = pytest.importorskip("datasets")
    given = answers if name == "axolotl" else calls
    for format_ in PAIR_TARGETS[name].formats:
        folder = tmp_path / format_
        export_pairs(*given, folder, to=name, kind=kind, format=format_)
        rows = datasets.load_dataset(
            str(folder), split="train", cache_dir=str(tmp_path / "cache" / format_)
        )
        assert list(rows) == [_written(given, to=name, kind=kind)]


@BOTH
def test_reasons_have_words_of_their_own(name: str, kind: Any) -> None:
    del kind
    assert not PAIR_TARGETS[name].refusals.keys() & REFUSALS.keys()


@pytest.mark.parametrize("name", STEP_ONLY)
def test_whole_runs_are_refused_by_targets_that_compare_single_messages(
    tmp_path: Path, run: Run, name: str
) -> None:
    good, bad = two_runs(run)
    report = export_pairs(pair_of(good, bad), runs_of(good, bad), tmp_path, to=name)
    assert report.rows == 0
    assert report.refused_ids == {"several-turns": ["p1"]}
    assert "level='step'" in report.reasons["several-turns"]
    assert "whole runs to trl" in report.reasons["several-turns"]


@pytest.mark.parametrize("name", ["openrlhf", "nemo-rl"])
def test_reward_models_read_sides_of_any_length(tmp_path: Path, run: Run, name: str) -> None:
    good, bad = two_runs(run)
    pairs = pair_of(good, bad)
    assert export_pairs(pairs, runs_of(good, bad), tmp_path, to=name, kind="reward").rows == 1


def test_trl_keeps_arguments_as_objects_and_tools_as_text(calls: Any) -> None:
    row = _written(calls, to="trl")
    call = row["chosen"][0]["tool_calls"][0]["function"]
    assert call == {"name": "add", "arguments": {"a": 2}}
    assert json.loads(row["tools"])[0]["function"]["name"] == "add"
    assert row["chosen_trainable"] == row["rejected_trainable"] == [True]


def test_the_card_of_trl_says_what_plain_dpo_would_train_on(tmp_path: Path, answers: Any) -> None:
    export_pairs(*answers, tmp_path, to="trl")
    card = (tmp_path / "README.md").read_text()
    assert "Do not train on this folder with a plain `DPOTrainer`" in card
    assert "trl_masks.py" in card


def test_openai_has_one_message_a_side_and_arguments_as_text(calls: Any) -> None:
    row = _written(calls, to="openai")
    assert list(row) == ["input", "preferred_output", "non_preferred_output"]
    assert list(row["input"]) == ["messages", "tools", "parallel_tool_calls"]
    assert row["input"]["parallel_tool_calls"] is False
    (preferred,), (other,) = row["preferred_output"], row["non_preferred_output"]
    assert preferred["tool_calls"][0]["function"]["arguments"] == '{"a":2}'
    assert other["tool_calls"][0]["function"]["arguments"] == '{"a":3}'


def test_llama_factory_has_a_turn_a_side_and_says_that_rows_are_ranked(
    tmp_path: Path, calls: Any
) -> None:
    row = _written(calls, to="llama-factory")
    assert row["conversations"] == [{"from": "human", "value": "2+3?"}]
    call = '{"name":"add","arguments":{"a":2}}'
    assert row["chosen"]["from"] == row["rejected"]["from"] == "function_call"
    assert row["chosen"]["value"] == f"so\n<tool_call>\n{call}\n</tool_call>"
    assert row["system"] == "Add."
    export_pairs(*calls, tmp_path, to="llama-factory")
    info = json.loads((tmp_path / "dataset_info.json").read_text())["trajstore"]
    assert (info["ranking"], info["formatting"]) == (True, "sharegpt")
    assert info["columns"]["chosen"] == "chosen"


def test_axolotl_refuses_calls_that_it_would_lose(tmp_path: Path, calls: Any) -> None:
    report = export_pairs(*calls, tmp_path, to="axolotl")
    assert report.refused == {"calls-lost": 1}
    assert "export to trl, openai, llama-factory or openrlhf" in report.reasons["calls-lost"]


def test_openrlhf_gives_a_reward_model_whole_conversations(answers: Any) -> None:
    row = _written(answers, to="openrlhf", kind="reward")
    assert "prompt" not in row
    assert [m["role"] for m in row["chosen"]] == ["system", "user", "assistant"]
    assert row["rejected"][-1]["content"] == "4"


def test_nemo_rl_ranks_the_chosen_side_first(answers: Any) -> None:
    row = _written(answers, to="nemo-rl")
    assert [m["role"] for m in row["context"]] == ["system", "user"]
    ranked = [(c["rank"], c["completion"][0]["content"]) for c in row["completions"]]
    assert ranked == [(0, "5"), (1, "4")]


def test_a_margin_is_written_only_where_something_reads_it(answers: Any) -> None:
    with_margin = PairRowOptions(margin=True)
    assert _written(answers, to="trl", kind="reward", options=with_margin)["margin"] == 1.0
    assert "margin" not in _written(answers, to="trl", kind="reward")
    with pytest.raises(ExportError, match="trl reads no margin for dpo; trl and openrlhf do"):
        _written(answers, to="trl", kind="dpo", options=with_margin)


@pytest.mark.parametrize(
    ("to", "kind", "words"),
    [
        ("verl", "dpo", "RMDataset.* trl and openrlhf read pairs of messages"),
        ("openai", "reward", "no reward export to 'openai'; known are trl, llama-factory"),
        ("nobody", "dpo", "no dpo export to 'nobody'; known are trl, openai, llama-factory"),
    ],
)
def test_a_target_that_cannot_be_written_is_answered_with_those_that_can(
    answers: Any, to: str, kind: Any, words: str
) -> None:
    with pytest.raises(ExportError, match=words):
        _written(answers, to=to, kind=kind)


def test_a_format_that_the_target_cannot_read_is_an_error(tmp_path: Path, answers: Any) -> None:
    with pytest.raises(ExportError, match="openai reads jsonl, not parquet"):
        export_pairs(*answers, tmp_path, to="openai", format="parquet")
