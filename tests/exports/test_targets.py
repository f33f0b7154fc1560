"""What every target promises, held over the whole registry."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pyarrow.parquet as pq
import pytest

from trajstore.errors import ExportError
from trajstore.exports import (
    REFUSALS,
    RULES,
    TARGETS,
    Refusal,
    SftOptions,
    SftRow,
    SftTarget,
    Target,
    export_sft,
    sft_rows,
)
from trajstore.schema import Step, Trajectory
from trajstore.testing import generate

Run = Callable[..., Trajectory]

ALL = pytest.mark.parametrize("target", TARGETS.values(), ids=list(TARGETS))
OTHERS = pytest.mark.parametrize("name", [n for n in TARGETS if n != "trl"])


def _nulls(value: Any) -> list[str]:
    """Keys with null anywhere inside."""
    if isinstance(value, dict):
        own = [k for k, v in value.items() if v is None]
        return own + [k for v in value.values() for k in _nulls(v)]
    return [k for v in value for k in _nulls(v)] if isinstance(value, list) else []


def _lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]


def test_the_registry_and_the_type_name_the_same_targets() -> None:
    assert tuple(TARGETS) == get_args(Target)


@ALL
def test_reasons_and_rules_have_words_of_their_own(target: SftTarget) -> None:
    assert not target.refusals.keys() & REFUSALS.keys()
    assert not target.rules.keys() & RULES.keys()


@ALL
def test_a_folder_holds_data_card_manifest_and_further_files(
    tmp_path: Path, sum_run: Trajectory, target: SftTarget
) -> None:
    report = export_sft([sum_run], tmp_path, to=target.name)  # type: ignore[arg-type]  # a name of the registry
    data = f"train.{target.formats[0]}"
    names = {p.name for p in tmp_path.iterdir()}
    assert names == {data, "README.md", "manifest.json", *target.files(data)}
    assert (report.rows, report.refused, report.manifest["to"]) == (1, {}, target.name)


@ALL
def test_every_format_has_the_columns_that_are_declared(
    tmp_path: Path, sum_run: Trajectory, target: SftTarget
) -> None:
    columns = list(target.columns(target.prepare(SftOptions())))
    for format_ in target.formats:
        export_sft([sum_run], tmp_path / format_, to=target.name, format=format_)  # type: ignore[arg-type]
    if "jsonl" in target.formats:
        assert list(_lines(tmp_path / "jsonl")[0]) == columns
    if "parquet" in target.formats:
        assert pq.read_schema(tmp_path / "parquet" / "train.parquet").names == columns


@ALL
def test_no_message_is_padded_with_nulls(
    tmp_path: Path, sum_run: Trajectory, target: SftTarget
) -> None:
    export_sft([sum_run, *generate(5)], tmp_path, to=target.name, format=target.formats[-1])  # type: ignore[arg-type]
    if target.formats[-1] == "jsonl":
        rows = _lines(tmp_path)
    else:
        rows = pq.read_table(tmp_path / "train.parquet").to_pylist()
    spoken = [r["messages"] if "messages" in r else r["conversations"] for r in rows]
    said = [json.loads(m) if isinstance(m, str) else m for row in spoken for m in row]
    assert len(said) > 20
    assert set(_nulls(said)) <= {"note"}, "only the argument that is null in the run"


@ALL
def test_the_same_runs_give_the_same_bytes(tmp_path: Path, target: SftTarget) -> None:
    for name in ("a", "b"):
        export_sft(generate(12), tmp_path / name, to=target.name)  # type: ignore[arg-type]
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


@ALL
def test_rows_and_export_agree_on_what_is_refused(tmp_path: Path, target: SftTarget) -> None:
    found = list(sft_rows(generate(40), to=target.name))  # type: ignore[arg-type]
    report = export_sft(generate(40), tmp_path, to=target.name)  # type: ignore[arg-type]
    refused = [f for f in found if isinstance(f, Refusal)]
    assert report.rows == sum(isinstance(f, SftRow) for f in found)
    assert sum(report.refused.values()) == len(refused)
    assert all(r.reason in {**REFUSALS, **target.refusals} for r in refused)


@OTHERS
def test_a_layout_that_is_not_known_is_answered_with_those_that_are(
    tmp_path: Path, name: Any
) -> None:
    options = SftOptions(layout="prompt-completion")
    with pytest.raises(ExportError, match=f"{name} takes layout 'messages'"):
        export_sft([], tmp_path, to=name, options=options)


def test_a_format_that_the_target_cannot_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="openai reads jsonl, not parquet"):
        export_sft([], tmp_path, to="openai", format="parquet")


def test_an_unknown_target_is_answered_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="no export to 'nemo'; known are trl, openai"):
        export_sft([], tmp_path, to="nemo")  # type: ignore[arg-type]  # the mistake under test


def test_a_further_file_of_somebody_else_is_not_replaced(
    tmp_path: Path, sum_run: Trajectory
) -> None:
    (tmp_path / "dataset_info.json").write_text("{}")
    with pytest.raises(ExportError, match=r"holds dataset_info.json but no manifest"):
        export_sft([sum_run], tmp_path, to="llama-factory")


def test_files_of_another_target_do_not_stay_behind(tmp_path: Path, sum_run: Trajectory) -> None:
    export_sft([sum_run], tmp_path, to="llama-factory")
    export_sft([sum_run], tmp_path, to="verl")
    names = {p.name for p in tmp_path.iterdir()}
    assert names == {"train.parquet", "verl_dataset.py", "README.md", "manifest.json"}


@pytest.mark.parametrize("name", ["verl", "openrlhf", "llama-factory"])
def test_turns_not_to_train_on_are_refused_where_no_mask_can_tell(run: Run, name: Any) -> None:
    steps = (
        Step(actor="user", text="q"),
        Step(actor="agent", text="x", format_error=True),
        Step(actor="user", text="again"),
        Step(actor="agent", text="a"),
    )
    (refusal,) = sft_rows([run(*steps)], to=name)
    assert isinstance(refusal, Refusal)
    assert refusal.reason == "masked-turn"
    (kept,) = sft_rows([run(*steps)], to=name, options=SftOptions(masked_turns="keep"))
    assert isinstance(kept, SftRow)


@ALL
@pytest.mark.filterwarnings("ignore")
def test_datasets_loads_the_folder(
    tmp_path: Path, run: Run, sum_run: Trajectory, target: SftTarget
) -> None:
    """Rows with and without tools, in one set."""
    datasets = pytest.importorskip("datasets")
    plain = run(Step(actor="user", text="q"), Step(actor="agent", text="a"))
    export_sft([plain, sum_run], tmp_path / "set", to=target.name)  # type: ignore[arg-type]
    loaded = datasets.load_dataset(
        str(tmp_path / "set"), split="train", cache_dir=str(tmp_path / "cache")
    )
    assert loaded.num_rows == 2
    spoken = loaded["messages" if "messages" in loaded.column_names else "conversations"]
    assert [m.get("content", m.get("value")) for m in spoken[0]] == ["q", "a"]
