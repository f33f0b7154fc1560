"""What holds for the code as a whole: import weight, layers, hot paths."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
HEAVY = ("torch", "lancedb", "transformers", "vllm", "typer", "duckdb", "pyarrow", "deltalake")

PER_ROW = {
    "pipeline/label_rows.py": "ids of computed labels",
    "pipeline/evaluators.py": "evaluators, each once",
    "schema/convert.py": "Arrow to Python values, on request",
    "store/append.py": "ids and ranks of the rows that a batch brings",
    "store/known.py": "ids that are there already",
    "store/lookup.py": "whether the runs asked for are dead",
    "store/pins.py": "a handful of pins and settings",
    "store/reader.py": "ids, a few hundred at a time",
    "store/rows.py": "steps whose results are not in the order of their calls",
    "store/snapshot.py": "the list of files",
    "store/store.py": "blob names at a vacuum",
    "store/upkeep.py": "revisions to delete",
    "store/values.py": "Arrow to Python values, on request",
    "filters/curriculum_stages.py": "tasks, each once",
    "filters/evidence.py": "steps that a rule in SQL found already",
    "filters/sampling.py": "strata, each once",
    "filters/selection.py": "ids and reasons, on request",
    "filters/selection_files.py": "ids to hash, a batch at a time",
    "pairs/relations.py": "names of labels and counts of reasons",
    "pipeline/judging.py": "ids of runs to judge",
    "retrieval/word_scan.py": "words of a vocabulary, each once",
    "retrieval/evaluate.py": "tasks, each once",
    "retrieval/few_shot_memories.py": "the items that a prompt shows",
    "retrieval/index.py": "texts of one commit, for the embedder",
    "retrieval/rows.py": "row numbers of hits and of a block of vectors",
    "retrieval/search.py": "the hits",
    "retrieval/served_skills.py": "what the skills that a prompt shows call",
    "retrieval/tasks.py": "a few hundred goals that may be nearly the same",
    "rollouts/recording.py": "ids of rollouts that need not be repeated",
    "pipeline/rewarding.py": "names of tasks",
    "pipeline/describe.py": "a few rows to print",
    "pipeline/labelling.py": "rows of a label file",
    "memory/skill_row.py": "skills, each once",
    "memory/skill_shelf.py": "uses of skills, each skill once",
    "memory/curriculum.py": "a few tasks to propose",
    "memory/bank.py": "the last update of each group",
    "memory/bank_upkeep.py": "ids and states of items of memory",
    "memory/insights.py": "insights, each once",
    "memory/lineage.py": "runs and states of items of memory",
    "memory/insights_chat.py": "tasks, each once, for a model to read",
    "memory/insights_row.py": "insights, each once",
    "memory/reasoning.py": "tasks, each once, for a model to read",
    "memory/reflections.py": "reflections, each once",
    "memory/reflexion.py": "ids of failed runs, for a model to read",
    "memory/utility.py": "items of memory, each once",
    "memory/workflow_chat.py": "goals of successes, for a model to read",
    "memory/workflow_rules.py": "frequent patterns, each once",
    "memory/workflows.py": "workflows, each once",
    "pipeline/report/scope.py": "counts to draw, and a sample of up to 1,000 runs",
}
"""Where rows may become Python values, and why."""


def test_importing_trajstore_loads_nothing_heavy() -> None:
    program = f"import sys, trajstore; print([m for m in {HEAVY} if m in sys.modules])"
    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, text=True
    )
    assert out.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "module", ["store", "importers", "rollouts", "exports", "pipeline", "retrieval"]
)
def test_no_package_loads_torch_or_the_command_line(module: str) -> None:
    program = (
        f"import sys, trajstore.{module}; "
        "names = 'torch transformers lancedb vllm typer pandas'.split(); "
        "print([m for m in names if m in sys.modules])"
    )
    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, text=True
    )
    assert out.stdout.strip() == "[]"


def test_rows_become_python_values_only_where_it_is_said_why() -> None:
    found = set()
    for path in sorted((ROOT / "trajstore").rglob("*.py")):
        if "importers" in path.parts or "exports" in path.parts or path.name == "testing.py":
            continue
        calls = {
            n.attr for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Attribute)
        }
        if calls & {"to_pylist", "to_pandas", "fetchall", "iterrows", "to_pydict"}:
            found.add(path.relative_to(ROOT / "trajstore").as_posix())
    assert found - PER_ROW.keys() - {"store/guard.py", "store/verify.py"} == set()


def test_files_and_functions_stay_short() -> None:
    long = []
    for path in [*(ROOT / "trajstore").rglob("*.py"), *(ROOT / "cli").rglob("*.py")]:
        text = path.read_text()
        if text.count("\n") > 500:
            long.append(f"{path.relative_to(ROOT)}: {text.count(chr(10))} lines")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                size = (node.end_lineno or 0) - node.lineno + 1
                most = 100 if "cli" in path.parts else 60  # an option of a command is a parameter
                if size > most:
                    long.append(f"{path.relative_to(ROOT)}: {node.name} has {size} lines")
    assert long == []
