"""Sets of everything that was recorded: the same bytes again, elsewhere, and in another order."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import trajstore
from tests import doc_blocks
from tests.pipeline.recipes import written
from trajstore import Pool
from trajstore.pipeline import build

pytestmark = pytest.mark.slow

SETS = """
output = "sets"
seed = 7

[split]
shares = { val = 0.1, test = 0.1 }

[[select]]
stage = "integrity"

[[dataset]]
kind = "sft"
to = "trl"
split = "train"
[[dataset.select]]
stage = "top-n"
n = 2

[[dataset]]
kind = "dpo"
to = "trl"
split = "train"
pairs = { policy = "all_margin", margin = 0.5, max_pairs = 4 }

[[dataset]]
kind = "prompts"
to = "verl"
split = "train"

[[dataset]]
kind = "grpo"
to = "messages"
split = "train"

[[dataset]]
name = "sft-test"
kind = "sft"
to = "trl"
split = "test"

[[dataset]]
name = "prompts-val"
kind = "prompts"
to = "verl"
split = "val"
"""
MIB = 1 << 20
PROGRAM = """
import sys
from pathlib import Path
from trajstore.pipeline import build
report = build(sys.argv[1], output=sys.argv[2])
status = Path("/proc/self/status").read_text().splitlines()  # ru_maxrss holds the parent's, too
print(next(line.split()[1] for line in status if line.startswith("VmHWM")))
"""


@pytest.fixture(scope="module")
def recipe(real_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recipe, with everything imported."""
    places = f'store = "pool"\nimport = {{ paths = ["{real_data}"] }}\n'
    return written(tmp_path_factory.mktemp("real"), places + SETS)


def in_a_process(recipe: Path, folder: Path, seed: str) -> int:
    """Build in a process of its own with another hash seed; its peak memory in bytes."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(recipe), str(folder)],
        env={**os.environ, "PYTHONHASHSEED": seed},
        check=True,
        capture_output=True,
        text=True,
    )
    return int(done.stdout) * 1024


@pytest.fixture(scope="module")
def built(recipe: Path) -> Mapping[Path, int]:
    """Two folders of two processes, and the memory that each took."""
    return {
        folder: in_a_process(recipe, folder, seed)
        for seed, folder in (("1", recipe.parent / "one"), ("4711", recipe.parent / "two"))
    }


def shas(folder: Path) -> dict[str, str]:
    files = (p for p in folder.rglob("*") if p.is_file())
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def test_two_builds_give_the_same_bytes_whatever_the_hash_seed(
    built: Mapping[Path, int],
) -> None:
    one, two = map(shas, built)
    assert {n.partition("/")[0] for n in one} > {"sft", "dpo", "prompts", "grpo", "manifest.json"}
    assert one == two


def test_a_build_of_a_20_mb_store_stays_below_a_gigabyte(built: Mapping[Path, int]) -> None:
    assert max(built.values()) < 1024 * MIB


def test_no_task_is_in_two_splits(built: Mapping[Path, int]) -> None:
    folder = next(iter(built))
    sides = {}
    for name in ("sft", "sft-test"):
        data = pq.read_table(folder / name / "train.parquet", columns=["task_id"])
        sides[name] = set(data["task_id"].to_pylist())
    assert all(sides.values())
    assert sides["sft"] & sides["sft-test"] == set()


def test_no_file_names_a_folder_or_a_moment_of_this_machine(
    built: Mapping[Path, int], recipe: Path
) -> None:
    told = (recipe.parent / "one/manifest.json").read_text()
    assert str(recipe.parent) not in told
    assert "imported_at" not in told
    assert built


def elsewhere(real_data: Path, folder: Path) -> Pool:
    """Everything under another path, in another order, in two imports."""
    (folder / "runs").symlink_to(real_data)
    store = trajstore.open(folder / "pool", durable=False)
    store.import_files(folder / "runs/tau_bench")
    store.import_files(sorted((folder / "runs").iterdir(), reverse=True))
    return store


def test_a_store_elsewhere_gives_the_same_sets_but_for_the_number_of_its_snapshot(
    built: Mapping[Path, int], real_data: Path, tmp_path: Path
) -> None:
    first = next(iter(built))
    build(written(tmp_path, SETS), store=elsewhere(real_data, tmp_path), output=tmp_path / "sets")
    one, other = shas(first), shas(tmp_path / "sets")
    differing = {n for n in one if one[n] != other[n]}
    assert one.keys() == other.keys()
    assert {Path(n).name for n in differing} <= {"manifest.json"}
    for name in differing - {"manifest.json"}:
        ours, theirs = (json.loads((f / name).read_text()) for f in (first, tmp_path / "sets"))
        assert {k for k in ours if ours[k] != theirs[k]} == {"snapshot"}


GUIDE = doc_blocks.ROOT / "docs/guides/recipes.md"
NOT_RUN = "<!-- not run: needs tau-bench's file -->\n"


def test_the_recipe_over_tau_bench_in_the_guide_gives_what_the_guide_says(
    real_data: Path, tmp_path: Path
) -> None:
    text = GUIDE.read_text()
    assert text.count(NOT_RUN) == 1
    section = text.partition(NOT_RUN)[2].partition("\n## ")[0]
    (tmp_path / "work").mkdir()
    (tmp_path / "work/tau_bench").symlink_to(real_data / "tau_bench")
    shims = doc_blocks.write_shims(tmp_path / "shims")
    shown = list(doc_blocks.Run(tmp_path / "work", shims).page(section))
    assert shown
    for block, should in shown:
        assert block.text == should
