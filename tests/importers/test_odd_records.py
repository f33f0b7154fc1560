"""Odd files and damaged records: a problem at worst, never an exception, never a lost neighbour."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.importers import test_art as art_rows
from tests.importers import test_nemo_gym as nemo_rows
from tests.importers import test_rllm as rllm_rows
from tests.importers import test_verifiers as verifiers_rows
from tests.importers import test_verifiers_traces as trace_rows
from tests.importers import test_verl as verl_rows
from tests.importers.otlp import export, weather
from tests.importers.reading import jsonl, read
from tests.importers.test_langfuse import observation, trace
from trajstore.importers import art, langfuse, nemo_gym, otel, rllm, verifiers, verl
from trajstore.importers.importer import Importer
from trajstore.importers.items import ImportOptions, Problem
from trajstore.importers.source import Source
from trajstore.schema import Label, Trajectory

ALL = (art.IMPORTER, langfuse.IMPORTER, nemo_gym.IMPORTER, otel.IMPORTER, rllm.IMPORTER)
ALL += (verifiers.IMPORTER, verl.IMPORTER)

RECORDS: dict[str, tuple[Importer, Any]] = {
    "art": (
        art.IMPORTER,
        art_rows.group(
            art_rows.trajectory(art_rows.USER, art_rows.choice("up", calls=[art_rows.CALL])),
            exceptions=[art_rows.CRASH],
        ),
    ),
    "langfuse": (
        langfuse.IMPORTER,
        trace(
            observation("a", input="q", output="x", usageDetails={"input": 1, "output": 1}),
            observation("w", "TOOL", at=1, input="{}", output="sunny"),
            scores=[{"name": "mood", "value": 1, "source": "EVAL"}],
        ),
    ),
    "nemo-gym": (nemo_gym.IMPORTER, nemo_rows.row(nemo_rows.said("4"))),
    "otel": (otel.IMPORTER, export(*weather())),
    "rllm": (
        rllm.IMPORTER,
        rllm_rows.episode(rllm_rows.trajectory(rllm_rows.step(rllm_rows.USER, rllm_rows.FOUR))),
    ),
    "verifiers": (verifiers.IMPORTER, verifiers_rows.result()),
    "verifiers trace": (verifiers.IMPORTER, trace_rows.trace(*trace_rows.forked())),
    "verl": (verl.IMPORTER, verl_rows.dump()),
    "verl responses": (verl.IMPORTER, verl_rows.task(responses=["4"])),
}

ODD = (
    "",
    "null",
    "[]",
    "[1, 2]",
    "{}",
    '"text"',
    '{"trace": 1, "observations": [1]}',
    '{"observations": [null]}',
    '{"resourceSpans": [{"scopeSpans": 5}]}',
    '{"trajectories": [null]}',
    '{"nodes": {}, "id": 1, "task": 2}',
    '{"responses_create_params": {}}',
    '{"steps": [1], "reward": 0}',
    '{"a": {"input": {}, "output": 3}}',
    '{"prompt": 1, "data_source": 2, "reward_model": 3}',
    "\x00\x01\x02",
    "PAR1 and no more",
    "[" * 2000,
)


def damaged(value: Any, junk: Any) -> Iterator[Any]:
    """Copies of a record, each with one value at one place replaced."""
    for way in _ways(value):
        changed = copy.deepcopy(value)
        at = changed
        for key in way[:-1]:
            at = at[key]
        at[way[-1]] = copy.deepcopy(junk)
        yield changed


def _ways(value: Any) -> Iterator[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for key, child in inner:
        yield (key,)
        if isinstance(child, dict | list):
            yield from ((key, *way) for way in _ways(child))


@pytest.mark.parametrize("text", ODD)
@pytest.mark.parametrize("importer", ALL, ids=lambda i: i.name)
def test_odd_files_are_looked_at_without_a_fault(
    tmp_path: Path, importer: Importer, text: str
) -> None:
    path = tmp_path / "odd.json"
    path.write_text(text)
    assert 0 <= importer.detect(Source(path)) <= 1
    assert read(importer, path).runs == []


@pytest.mark.parametrize("junk", [None, 5, "x", [], {"a": 1}], ids=repr)
@pytest.mark.parametrize("name", RECORDS)
def test_damage_anywhere_gives_a_run_or_a_problem(tmp_path: Path, name: str, junk: Any) -> None:
    importer, record = RECORDS[name]
    for changed in damaged(record, junk):
        path = jsonl(tmp_path, changed)
        importer.detect(Source(path))
        items = list(importer.read(Source(path), ImportOptions()))
        kinds = {type(item) for item in items}
        assert kinds <= {Trajectory, Label, Problem}
        assert kinds & {Trajectory, Problem}, json.dumps(changed)
