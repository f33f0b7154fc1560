from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from trajstore.errors import ExportError
from trajstore.exports import SFT_COLUMNS, Lineage
from trajstore.exports.files import WrittenFile
from trajstore.exports.manifest import Tally, card_text, earlier_files, manifest, manifest_text

_FILE = WrittenFile(name="train.jsonl", rows=3, sha256="ab", bytes=10)


def _manifest(tally: Tally, lineage: Lineage = Lineage()) -> Mapping[str, Any]:  # noqa: B008
    return manifest(
        tally,
        lineage,
        kind="sft",
        to="trl",
        format_="jsonl",
        files=(_FILE,),
        rows=3,
        options={"layout": "messages"},
    )


def _tally() -> Tally:
    tally = Tally()
    tally.take("a", success=True, rules={"empty-turn": 2})
    tally.take("a", success=True, rules={})
    tally.refuse("b", "no-steps")
    tally.take("c", success=None, rules={"empty-turn": 1})
    return tally


def test_rows_of_one_run_count_it_once() -> None:
    tally = _tally()
    assert (tally.runs_in, tally.runs_out) == (3, 2)
    assert tally.outcomes == {"success": 1, "unknown": 1}
    assert tally.rules == {"empty-turn": 3}


def test_the_hash_of_ids_is_over_the_exported_runs_in_order() -> None:
    assert _tally().ids_sha256 == hashlib.sha256(b"a\nc\n").hexdigest()


def test_refused_ids_are_bounded_and_counts_are_not() -> None:
    tally = Tally()
    for i in range(250):
        tally.refuse(str(i), "media")
    assert tally.refused == {"media": 250}
    assert tally.refused_ids == {"media": [str(i) for i in range(100)]}


def test_the_export_is_the_last_stage_of_the_funnel() -> None:
    stage = {"stage": "succeeded", "parameters": {}, "in": 9, "out": 3, "dropped": {"failed": 6}}
    content = _manifest(_tally(), Lineage(snapshot=4, filter="success", funnel=[stage]))
    assert content["selection_funnel"] == [
        stage,
        {
            "stage": "export sft",
            "parameters": {"to": "trl", "layout": "messages"},
            "in": 3,
            "out": 2,
            "dropped": {"no-steps": 1},
        },
    ]
    assert (content["snapshot"], content["filter"]) == (4, "success")


def test_a_manifest_holds_what_is_needed_to_trace_and_check_a_set() -> None:
    content = _manifest(_tally())
    assert content["files"] == [{"name": "train.jsonl", "rows": 3, "sha256": "ab", "bytes": 10}]
    assert content["refused_ids"] == {"no-steps": ["b"]}
    assert (content["rows"], content["trajectories"]) == (3, 2)
    assert (content["kind"], content["to"], content["format"]) == ("sft", "trl", "jsonl")
    assert json.loads(manifest_text(content)) == content


def test_counts_are_in_the_order_of_their_names() -> None:
    tally = Tally()
    for reason in ("z", "a"):
        tally.refuse("1", reason)
    assert list(_manifest(tally)["refused"]) == ["a", "z"]


def test_files_of_an_earlier_export_are_known_by_its_manifest(tmp_path: Path) -> None:
    assert earlier_files(tmp_path) == []
    (tmp_path / "manifest.json").write_text(manifest_text(_manifest(_tally())))
    assert earlier_files(tmp_path) == ["train.jsonl"]


def test_names_in_a_manifest_never_reach_out_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"files":[{"name":"../../etc/passwd"}]}')
    assert earlier_files(tmp_path) == ["passwd"]


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"files":[1]}'])
def test_a_manifest_of_somebody_else_is_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(ExportError, match="another folder"):
        earlier_files(tmp_path)


def test_the_card_names_the_file_and_every_column() -> None:
    card = card_text(_manifest(_tally()), SFT_COLUMNS["messages"], "usage")
    head, body = card.split("---\n")[1:]
    assert "path: train.jsonl" in head
    assert "  - name: messages\n    list: json\n" in head
    assert [x.split(": ")[1] for x in head.splitlines() if "- name" in x] == list(
        SFT_COLUMNS["messages"]
    )
    assert "3 rows from 2 trajectories; refused: no-steps 1." in body
    assert body.endswith("usage")
