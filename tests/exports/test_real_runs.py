"""Recorded runs come out as the messages that were recorded."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from trajstore.exports import Refusal, SftOptions, SftRow, export_sft, render_chat, sft_rows
from trajstore.importers import ImportOptions
from trajstore.importers.source import Source
from trajstore.importers.tau2_bench import IMPORTER as TAU2
from trajstore.importers.tau_bench import IMPORTER as TAU
from trajstore.schema import Trajectory


def _runs(importer: Any, path: Path) -> list[Trajectory]:
    items = importer.read(Source(path), ImportOptions())
    return [item for item in items if isinstance(item, Trajectory)]


@pytest.fixture(scope="module")
def tau_file(real_data: Path) -> Path:
    return real_data / "tau_bench" / "gpt-4o-airline.json"


@pytest.fixture(scope="module")
def tau_runs(tau_file: Path) -> Sequence[Trajectory]:
    return _runs(TAU, tau_file)


def _said(messages: Sequence[dict[str, Any]]) -> Iterator[tuple[Any, ...]]:
    """What a message says, ids aside, null and '' alike."""
    for message in messages:
        calls = [c["function"] for c in message.get("tool_calls") or ()]
        called = [(f["name"], f["arguments"]) for f in calls]
        yield message["role"], message.get("name"), message["content"] or "", called


def test_tau_bench_messages_are_the_recorded_ones(
    tau_file: Path, tau_runs: Sequence[Trajectory]
) -> None:
    recorded = json.loads(tau_file.read_text())
    assert len(tau_runs) == len(recorded) == 200
    for record, run in zip(recorded, tau_runs, strict=True):
        assert list(_said(render_chat(run).messages)) == list(_said(record["traj"]))


def test_tau_bench_results_follow_their_calls_though_ids_repeat(
    tau_runs: Sequence[Trajectory],
) -> None:
    chats = [render_chat(run) for run in tau_runs]
    for chat in chats:
        made = [c["id"] for m in chat.messages for c in m.get("tool_calls", ())]
        answered = [m["tool_call_id"] for m in chat.messages if m["role"] == "tool"]
        assert answered == made
        assert len(set(made)) == len(made)
    applied = sum((Counter(chat.applied) for chat in chats), Counter())
    assert applied == {"id-renamed": 73}


def test_every_tau_bench_success_becomes_a_row(
    tmp_path: Path, tau_runs: Sequence[Trajectory]
) -> None:
    solved = [run for run in tau_runs if run.success]
    report = export_sft(solved, tmp_path)
    assert (report.rows, report.refused) == (84, {})
    assert report.manifest["outcomes"] == {"success": 84}


def test_the_2454_assistant_messages_of_tau_bench_are_all_trained_on(
    tau_runs: Sequence[Trajectory],
) -> None:
    rows = [r for r in sft_rows(tau_runs) if isinstance(r, SftRow)]
    assert sum(sum(row.trainable) for row in rows) == 2454


def test_the_agent_of_tau2_bench_is_not_told_what_the_customer_wants(real_data: Path) -> None:
    runs = _runs(TAU2, real_data / "tau2_bench" / "whissle-airline.first25.json")
    chats = [render_chat(run) for run in runs]
    applied = sum((Counter(chat.applied) for chat in chats), Counter())
    assert (len(runs), applied) == (25, {"id-renamed": 54})
    assert not [r for r in sft_rows(runs) if isinstance(r, Refusal)]


def test_tau2_bench_runs_that_the_agent_opens_split_into_prompt_and_completion(
    real_data: Path,
) -> None:
    runs = _runs(TAU2, real_data / "tau2_bench" / "whissle-airline.first25.json")
    rows = list(sft_rows(runs, options=SftOptions(layout="prompt-completion")))
    assert all(isinstance(r, SftRow) and r.prompt_length for r in rows)
