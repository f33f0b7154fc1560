from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.exports.preference.pairs import two_runs
from trajstore.errors import ExportError
from trajstore.exports.kto import KTO_TARGETS, Judged, export_kto
from trajstore.schema import Step, Trajectory

Run = Callable[..., Trajectory]

ALL = pytest.mark.parametrize("name", list(KTO_TARGETS))


def _judged(*runs: Trajectory) -> list[Judged]:
    return [Judged(run=t, value=t.reward or 0.0, good=bool(t.success)) for t in runs]


@pytest.fixture(scope="session")
def answers(run: Run) -> list[Judged]:
    """Two runs of a single answer each: what both targets take."""
    question = (Step(actor="system", text="Add."), Step(actor="user", text="2+3?"))
    return _judged(
        *(
            run(*question, Step(actor="agent", text=t), trajectory_id=t, success=ok, reward=ok)
            for t, ok in (("5", 1), ("4", 0))
        )
    )


def _written(judged: list[Judged], to: Any) -> list[dict[str, Any]]:
    stream = io.StringIO()
    export_kto(judged, stream, to=to, format="jsonl")
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_the_prompt_ends_where_the_agent_begins(run: Run) -> None:
    good, bad = _written(_judged(*two_runs(run)), "trl")
    assert [m["role"] for m in good["prompt"]] == ["system", "user"]
    assert [m["role"] for m in good["completion"]] == ["assistant", "tool", "assistant"]
    assert good["trainable"] == [True, False, True]
    assert (good["label"], bad["label"]) == (True, False)
    assert (good["value"], bad["value"]) == (1.0, 0.0)


def test_format_errors_carry_loss_in_bad_runs_only(run: Run) -> None:
    steps = (
        Step(actor="user", text="q"),
        Step(actor="agent", text="?", format_error=True),
        Step(actor="agent", text="a"),
    )
    runs = [run(*steps, trajectory_id=str(ok), success=ok) for ok in (True, False)]
    good, bad = _written(_judged(*runs), "trl")
    assert (good["trainable"], bad["trainable"]) == ([False, True], [True, True])


def test_llama_factory_tags_the_last_turn(tmp_path: Path, answers: list[Judged]) -> None:
    good, bad = _written(answers, "llama-factory")
    assert [t["from"] for t in good["conversations"]] == ["human", "gpt"]
    assert (good["kto_tag"], bad["kto_tag"]) == (True, False)
    assert good["system"] == "Add."
    export_kto(answers, tmp_path, to="llama-factory")
    info = json.loads((tmp_path / "dataset_info.json").read_text())["trajstore"]
    assert info["columns"]["kto_tag"] == "kto_tag"
    assert "ranking" not in info


def test_llama_factory_refuses_runs_of_several_turns(tmp_path: Path, run: Run) -> None:
    good, bad = two_runs(run)
    report = export_kto(_judged(good, bad), tmp_path, to="llama-factory")
    assert report.rows == 1
    assert report.refused_ids == {"several-turns": ["good"]}
    assert "export to trl" in report.reasons["several-turns"]


def test_a_run_that_opens_with_the_agent_has_no_prompt(tmp_path: Path, run: Run) -> None:
    alone = run(Step(actor="agent", text="hello"), success=True)
    assert export_kto(_judged(alone), tmp_path).refused == {"no-prompt": 1}


@ALL
def test_a_folder_holds_what_its_manifest_says(
    tmp_path: Path, answers: list[Judged], name: Any
) -> None:
    target = KTO_TARGETS[name]
    for folder in ("a", "b"):
        report = export_kto(answers, tmp_path / folder, to=name)
    data = f"train.{target.formats[0]}"
    names = {p.name for p in (tmp_path / "a").iterdir()}
    assert names == {data, "README.md", "manifest.json", *target.files(data)}
    assert report.manifest["outcomes"] == {"failure": 1, "success": 1}
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


@ALL
@pytest.mark.filterwarnings("ignore")
def test_datasets_loads_the_folder_as_what_went_in(
    tmp_path: Path, answers: list[Judged], name: Any
) -> None:
    datasets = pytest.importorskip("datasets")
    export_kto(answers, tmp_path / "set", to=name)
    rows = datasets.load_dataset(
        str(tmp_path / "set"), split="train", cache_dir=str(tmp_path / "cache")
    )
    assert list(rows) == _written(answers, name)


def test_parquet_has_the_columns_that_are_declared(tmp_path: Path, answers: list[Judged]) -> None:
    export_kto(answers, tmp_path)
    names = pq.read_schema(tmp_path / "train.parquet").names
    assert names == list(KTO_TARGETS["trl"].columns())


def test_an_unknown_target_is_answered_with_the_known_ones(answers: list[Judged]) -> None:
    with pytest.raises(ExportError, match="no kto export to 'verl'; known are trl, llama-factory"):
        _written(answers, "verl")


def test_llama_factory_itself_takes_the_rows(tmp_path: Path, answers: list[Judged]) -> None:
    converter = pytest.importorskip("llamafactory.data.converter")
    parser = pytest.importorskip("llamafactory.data.parser")
    export_kto(answers, tmp_path, to="llama-factory")
    (about,) = parser.get_dataset_list(["trajstore"], str(tmp_path))
    good, bad = (converter.SharegptDatasetConverter(about, None)(r)
                 for r in _written(answers, "llama-factory"))  # fmt: skip
    assert [m["content"] for m in good["_response"]] == ["5", ""]
    assert [m["content"] for m in bad["_response"]] == ["", "4"]
