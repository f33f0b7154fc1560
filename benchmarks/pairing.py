"""Pairs, credit and filters beside plain Python and pandas: ``python -m benchmarks.pairing``.

The same generated runs lie in a store and in JSON lines. Each side starts from its files, as one
process that has done nothing before, and all sides of a piece of work must give the same answer.
pandas gets two flat files, runs and steps without text, which is the least that it has to read; it
is left out where the work needs the text of the steps. What is measured is wall and CPU time;
rates are steps of the whole pool a CPU second. Two rows say what reading alone costs: the lengths
of the texts that the work needs, by one SELECT over the same store. Generated attempts part at
their first action; ``--together N`` lets the attempts at a task take N actions in common first.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import itertools
import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

if __package__ in {None, ""}:  # run as a file: python benchmarks/pairing.py
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measure import DisagreementError, Row, environment, time_rounds, timed_rows
from benchmarks.report import tables
from trajstore import Pool
from trajstore import open as open_store
from trajstore.filters import stage
from trajstore.importers import to_jsonl_record
from trajstore.pairs import StepPairOptions
from trajstore.pipeline import build_pairs, write_rewards
from trajstore.pipeline.pairing import compute_credit
from trajstore.schema import Trajectory, finish
from trajstore.testing import generate

PLAIN, PANDAS, OURS = "plain Python", "pandas", "trajstore"
FILTER = "successes with at most 30 calls, the two best of each task"
WHOLE = "best against worst run of each task"
STEP = "best against worst next action of each place"
CREDIT = "discounted returns of every agent step"
TREE = "rollout-tree advantages of every agent step"
TURN = "turn-level advantages of every agent step"
DENSE = "dense reward rules on every step"
SAID = "only reading what was said and called"
READ = "only reading that and what came back"
GAMMA = 0.95
MARGIN = 0.5
TARGET = 200_000
"""The design's target for step pairs and credit: steps a second and core."""

_ROUNDING = 1e-9
_RUNS_A_COMMIT = 1_000
_TARGETED = frozenset({STEP, CREDIT, TREE, TURN})
_PLACE = ["task_id", "prompt"]
Answer = list[tuple[Any, ...]]
Record = dict[str, Any]
Taken = tuple[Record, int, bool]


class Files:
    """The same runs as a store, as JSON lines, and as flat JSON lines without text."""

    def __init__(self, folder: Path, n: int, *, together: int = 0) -> None:
        """Write ``n`` generated runs, of which those of a task begin with ``together`` actions."""
        self.store, self.whole = folder / "pool", folder / "runs.jsonl"
        self.runs, self.steps = folder / "flat-runs.jsonl", folder / "flat-steps.jsonl"
        self.n_steps = 0
        pool = open_store(self.store, durable=False)
        made = _alike(generate(n), together)
        with (
            self.whole.open("w") as whole,
            self.runs.open("w") as runs,
            self.steps.open("w") as steps,
        ):
            while part := list(itertools.islice(made, _RUNS_A_COMMIT)):
                pool.append(part)
                for record in map(to_jsonl_record, part):
                    self.n_steps += len(record["steps"])
                    whole.write(json.dumps(record) + "\n")
                    runs.write(json.dumps(_summary(record)) + "\n")
                    steps.writelines(json.dumps(s) + "\n" for s in _flat(record))

    def pool(self) -> Pool:
        """The store, opened anew."""
        return open_store(self.store)

    def records(self) -> Iterator[Record]:
        """The runs, a line each."""
        with self.whole.open() as lines:
            yield from map(json.loads, lines)


def _alike(runs: Iterable[Trajectory], n: int) -> Iterator[Trajectory]:
    """The runs; the first ``n`` steps after the prompt are those of the first run of the task."""
    for _, attempts in itertools.groupby(runs, lambda run: run.task_id):
        first, *others = attempts
        head = first.steps[: 2 + n]
        yield first
        for run in others:
            same = replace(run, steps=(*head, *run.steps[2 + n :]))
            yield finish(same, state_keys=False) if n else run


def _summary(record: Record) -> Record:
    calls = sum(len(s.get("tool_calls", ())) for s in record["steps"])
    tokens = [record.get(n) for n in ("prompt_tokens", "completion_tokens")]
    names = ("trajectory_id", "task_id", "status", "success", "reward")
    known = None if None in tokens else sum(t for t in tokens if t is not None)
    found = {n: record.get(n) for n in names}
    return {**found, **_prompt(record), "calls": calls, "tokens": known}


def _prompt(record: Record) -> Record:
    """What both runs of a pair must have been given, apart from what the user said in it.

    The user's words count too, but in a task where users go on to speak, since they are simulated.
    """
    first = list(itertools.takewhile(lambda s: s["actor"] != "agent", record["steps"]))
    said = [(s["actor"], None if s["actor"] == "user" else s.get("text")) for s in first]
    asked = [s.get("text") for s in first if s["actor"] == "user"]
    talks = any(s["actor"] == "user" for s in record["steps"][len(first) :])
    return {"prompt": _md5(said), "asked": _md5(asked), "talks": talks}


def _md5(value: Any) -> str:
    return hashlib.md5(json.dumps(value).encode(), usedforsecurity=False).hexdigest()


def _flat(record: Record) -> Iterator[Record]:
    for place, step in enumerate(record["steps"]):
        if step["actor"] == "agent":
            yield {"trajectory_id": record["trajectory_id"], "step_index": place}


# --- filter


def filter_here(files: Files) -> Answer:
    """By stages over the summary columns."""
    stages = [stage("success"), stage("tool-calls", most=30), stage("top-n", n=2)]
    return [(i,) for i in files.pool().select(stages).ids()]


def filter_plain(files: Files) -> Answer:
    """By a loop over the lines."""
    tasks = defaultdict(list)
    for row in map(_summary, files.records()):
        if row["success"] and row["calls"] <= 30:
            tasks[row["task_id"]].append(row)
    best = (sorted(rows, key=_rank)[:2] for rows in tasks.values())
    return sorted((row["trajectory_id"],) for rows in best for row in rows)


def _rank(row: Record) -> tuple[Any, ...]:
    reward, tokens = row["reward"], row["tokens"]
    return (
        reward is None,
        -(reward or 0.0),
        row["calls"],
        tokens is None,
        tokens or 0,
        row["trajectory_id"],
    )


def filter_pandas(files: Files) -> Answer:
    """By frames of the flat runs."""
    import pandas as pd

    rows = pd.read_json(files.runs, lines=True, dtype={"success": "boolean"})
    good = rows[(rows["success"] == True) & (rows["calls"] <= 30)]  # noqa: E712
    ordered = good.sort_values(
        ["task_id", "reward", "calls", "tokens", "trajectory_id"],
        ascending=[True, False, True, True, True],
    )
    return sorted((i,) for i in ordered.groupby("task_id", sort=False).head(2)["trajectory_id"])


# --- pairs of whole runs


def whole_here(files: Files) -> Answer:
    """By :func:`trajstore.pipeline.build_pairs`, which also compares prompts and steps."""
    rows, _ = build_pairs(files.pool())
    return _columns(rows, "task_id", "chosen_id", "rejected_id")


def _columns(rows: Any, *names: str) -> Answer:
    return sorted(zip(*(rows.column(n).to_pylist() for n in names), strict=True))


def whole_plain(files: Files) -> Answer:
    """By a loop over the lines."""
    tasks = defaultdict(list)
    for row in map(_summary, files.records()):
        tasks[row["task_id"]].append(row)
    return sorted(p for task, rows in tasks.items() for p in _ends(task, _valued(rows)))


def _valued(rows: list[Record]) -> list[Record]:
    """The runs of a task with their ``value``: the verdict where a judged one has no reward."""
    by_verdict = any(r["success"] is not None and r["reward"] is None for r in rows)
    said = "success" if by_verdict else "reward"
    return [{**r, "value": float(r[said])} for r in rows if r[said] is not None]


def _ends(task: str, rows: list[Record]) -> Iterator[tuple[str, str, str]]:
    """Of each prompt the best run that was not cut off, and the worst run."""
    talks = any(row["talks"] for row in rows)
    prompts: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for row in rows:
        prompts[row["prompt"], "" if talks else row["asked"]].append(row)
    for given in prompts.values():
        yield from _ends_of(task, given)


def _ends_of(task: str, rows: list[Record]) -> Iterator[tuple[str, str, str]]:
    winners = [r for r in rows if r["status"] != "truncated"]
    if not winners:
        return
    best = min(winners, key=lambda r: (-r["value"], r["calls"], r["trajectory_id"]))
    worst = min(rows, key=lambda r: (r["value"], -r["calls"], r["trajectory_id"]))
    contradicted = best["success"] is False and worst["success"] is True
    if best["value"] - worst["value"] > 1e-9 and not contradicted:
        yield task, best["trajectory_id"], worst["trajectory_id"]


def whole_pandas(files: Files) -> Answer:
    """By frames of the flat runs."""
    import pandas as pd

    rows = pd.read_json(files.runs, lines=True, dtype={"success": "boolean"})
    unclear = (rows["success"].notna() & rows["reward"].isna()).groupby(rows["task_id"])
    rows["value"] = rows["reward"].where(~unclear.transform("any"), rows["success"].astype(float))
    rows = rows[rows["value"].notna()]
    talks = rows["talks"].groupby(rows["task_id"]).transform("any")
    rows["prompt"] += rows["asked"].mask(talks, "")
    up, down = [*_PLACE, "value", "calls", "trajectory_id"], [True, True, False, True, True]
    winners = rows[rows["status"] != "truncated"].sort_values(up, ascending=down)
    losers = rows.sort_values(up, ascending=[True, True, True, False, True])
    best, worst = (r.drop_duplicates(_PLACE).set_index(_PLACE) for r in (winners, losers))
    both = best.merge(worst, left_index=True, right_index=True, suffixes=("_c", "_r"))
    contradicted = (both["success_c"] == False) & (both["success_r"] == True)  # noqa: E712
    both = both[(both["value_c"] - both["value_r"] > 1e-9) & ~contradicted.fillna(False)]
    tasks = both.index.get_level_values("task_id")
    return sorted(zip(tasks, both["trajectory_id_c"], both["trajectory_id_r"], strict=True))


# --- pairs of steps


def step_here(files: Files) -> Answer:
    """By :func:`trajstore.pipeline.build_pairs`."""
    rows, _ = build_pairs(files.pool(), options=StepPairOptions(margin=MARGIN))
    return _columns(rows, "task_id", "chosen_id", "rejected_id", "chosen_step")


def step_plain(files: Files) -> Answer:
    """By a dictionary of prefixes: the mean reward of each action at each place."""
    found: list[tuple[Any, ...]] = []
    for runs in _tasks(files):
        worth = {row["trajectory_id"]: row for row in _valued([row for row, _ in runs])}
        places: dict[int, dict[Any, list[Taken]]] = defaultdict(lambda: defaultdict(list))
        for row, turns in runs:
            if row["trajectory_id"] in worth:
                for index, place, action, fault in turns:
                    taken = (worth[row["trajectory_id"]], index, fault)
                    places[place][action].append(taken)
        found.extend(p for actions in places.values() for p in _parted(actions))
    return sorted(found)


def _tasks(files: Files) -> Iterable[list[tuple[Record, list[tuple[int, int, Any, bool]]]]]:
    """The runs of each task, with their keyed turns."""
    tasks = defaultdict(list)
    for record in files.records():
        tasks[record["task_id"]].append((_summary(record), _keyed(record)))
    return tasks.values()


def _keyed(record: Record) -> list[tuple[int, int, Any, bool]]:
    """Step, hash of all before it, action and format error of each agent step."""
    key, found = hash(json.dumps(record.get("tools"))), []
    for index, step in enumerate(record["steps"]):
        if step["actor"] == "agent":
            found.append((index, key, _action(step), bool(step.get("format_error"))))
        key = hash((key, json.dumps(_turn(step))))
    return found


def _turn(step: Record) -> Any:
    calls = [(c["name"], c.get("arguments")) for c in step.get("tool_calls", ())]
    seen = [(o.get("text"), o.get("content")) for o in step.get("observations", ())]
    said = None if step["actor"] == "agent" and calls else step.get("text")
    return step["actor"], said, calls, seen


def _action(step: Record) -> Any:
    calls = tuple((c["name"], json.dumps(c.get("arguments"))) for c in step.get("tool_calls", ()))
    return calls or " ".join((step.get("text") or "").lower().split())


def _parted(actions: Mapping[Any, list[Taken]]) -> Iterator[tuple[Any, ...]]:
    if len(actions) < 2:
        return
    branches = [
        (sum(row["value"] for row, *_ in taken) / len(taken), min(taken, key=_first))
        for taken in actions.values()
    ]
    most, (won, place, fault) = min(branches, key=lambda b: (-b[0], b[1][0]["trajectory_id"]))
    least, (lost, *_) = min(branches, key=lambda b: (b[0], b[1][0]["trajectory_id"]))
    if most - least >= MARGIN - 1e-9 and not fault:
        yield won["task_id"], won["trajectory_id"], lost["trajectory_id"], place


def _first(taken: Taken) -> tuple[Any, ...]:
    row = taken[0]
    return -row["value"], row["calls"], row["trajectory_id"]


# --- credit


def credit_here(files: Files) -> Answer:
    """By :func:`trajstore.pipeline.pairing.compute_credit`."""
    rows = compute_credit(files.pool(), "returns", gamma=GAMMA).rows
    return _columns(rows, "trajectory_id", "step_index", "value")


def credit_plain(files: Files) -> Answer:
    """By a loop over the lines, each run from its end."""
    tasks = defaultdict(list)
    steps: dict[str, list[int]] = {}
    for record in files.records():
        tasks[record["task_id"]].append(_summary(record))
        steps[record["trajectory_id"]] = [s["step_index"] for s in _flat(record)]
    found: list[tuple[Any, ...]] = []
    for rows in tasks.values():
        for row in _valued(rows):
            gain = row["value"]
            for step in reversed(steps[row["trajectory_id"]]):
                found.append((row["trajectory_id"], step, gain))
                gain *= GAMMA
    return sorted(found)


def credit_pandas(files: Files) -> Answer:
    """By frames of the flat runs and steps."""
    import pandas as pd

    rows = pd.read_json(files.runs, lines=True, dtype={"success": "boolean"})
    unclear = (rows["success"].notna() & rows["reward"].isna()).groupby(rows["task_id"])
    rows["value"] = rows["reward"].where(~unclear.transform("any"), rows["success"].astype(float))
    steps = pd.read_json(files.steps, lines=True)
    steps = steps.merge(rows.loc[rows["value"].notna(), ["trajectory_id", "value"]])
    behind = steps.groupby("trajectory_id").cumcount(ascending=False)
    steps["value"] = steps["value"] * GAMMA**behind
    columns = (steps[n] for n in ("trajectory_id", "step_index", "value"))
    return sorted(zip(*columns, strict=True))


def tree_here(files: Files) -> Answer:
    """By :func:`trajstore.pipeline.pairing.compute_credit`."""
    rows = compute_credit(files.pool(), "rtmc").rows
    return _columns(rows, "trajectory_id", "step_index", "value")


def tree_plain(files: Files) -> Answer:
    """By a dictionary of prefixes: the mean worth of each place and of each action there."""
    found: list[tuple[Any, ...]] = []
    for runs in _tasks(files):
        worth = {row["trajectory_id"]: row["value"] for row in _valued([row for row, _ in runs])}
        places: dict[int, list[tuple[str, int, Any]]] = defaultdict(list)
        for row, turns in runs:
            if row["trajectory_id"] in worth:
                for index, place, action, _ in turns:
                    places[place].append((row["trajectory_id"], index, action))
        for visits in places.values():
            found.extend(_advantages(visits, worth))
    return sorted(found)


def _advantages(
    visits: list[tuple[str, int, Any]], worth: Mapping[str, float]
) -> Iterator[tuple[Any, ...]]:
    mean = sum(worth[run] for run, *_ in visits) / len(visits)
    for run, index, action in visits:
        taken = [worth[other] for other, _, chosen in visits if chosen == action]
        yield run, index, (mean + sum(taken)) / (1 + len(taken)) - mean


def turn_here(files: Files) -> Answer:
    """By :func:`trajstore.pipeline.pairing.compute_credit`."""
    rows = compute_credit(files.pool(), "turn_advantages").rows
    return _columns(rows, "trajectory_id", "step_index", "value")


def said_here(files: Files) -> Answer:
    """Lengths of texts, reasoning and arguments of all steps."""
    return _lengths(files, "text", "reasoning", "content", "tool_name", "arguments")


def read_here(files: Files) -> Answer:
    """The same with observations, which are most of a run."""
    return _lengths(files, "text", "reasoning", "content", "tool_name", "arguments", "observation")


def _lengths(files: Files, *columns: str) -> Answer:
    lengths = ", ".join(f"sum(strlen({name}))" for name in columns)
    query = f"SELECT count(DISTINCT trajectory_id), max(step_index), {lengths} FROM flat_steps"
    return files.pool().sql(query).fetchall()


def dense_here(files: Files) -> Answer:
    """By :func:`trajstore.pipeline.write_rewards`; nobody else knows these rules."""
    return [(write_rewards(files.pool(), "dense-tool-agent", dry_run=True).labels,)]


WORKS: Mapping[str, Mapping[str, Callable[[Files], Answer]]] = {
    FILTER: {OURS: filter_here, PLAIN: filter_plain, PANDAS: filter_pandas},
    WHOLE: {OURS: whole_here, PLAIN: whole_plain, PANDAS: whole_pandas},
    STEP: {OURS: step_here, PLAIN: step_plain},
    CREDIT: {OURS: credit_here, PLAIN: credit_plain, PANDAS: credit_pandas},
    TREE: {OURS: tree_here, PLAIN: tree_plain},
    TURN: {OURS: turn_here},
    DENSE: {OURS: dense_here},
    SAID: {OURS: said_here},
    READ: {OURS: read_here},
}
"""Piece of work -> who does it how."""


def measure(files: Files, work: str, *, repeats: int, pandas: bool) -> list[Row]:
    """Rows of steps a second, for one piece of work.

    Raises:
        DisagreementError: two sides give different answers.
    """
    sides = {n: f for n, f in WORKS[work].items() if n != PANDAS or pandas}
    jobs = {name: _job(side, files) for name, side in sides.items()}
    answers: dict[str, Answer] = {}
    took = time_rounds(jobs, repeats=repeats, budget_s=300.0, check=partial(_check, answers, work))
    counted = work not in {DENSE, SAID, READ}
    notes = {OURS: f"{len(answers[OURS]):,} rows of answer"} if counted else {}
    return timed_rows(work, took, "k steps/s", partial(_rate, files.n_steps), notes=notes)


def _job(side: Callable[[Files], Answer], files: Files) -> Callable[[int], Answer]:
    return lambda _: side(files)


def _rate(steps: int, seconds: float) -> float:
    return steps / seconds / 1000


def _check(answers: dict[str, Answer], work: str, name: str, _: int, answer: Answer) -> None:
    first = answers.setdefault(OURS, answer)
    apart = abs(len(first) - len(answer)) + sum(map(_differ, first, answer))
    if apart:
        raise DisagreementError(f"{name} differs from {OURS} in {apart} rows at: {work}")


def _differ(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Whether two rows differ, by more than rounding where they hold fractions."""
    return any(
        abs(a - b) > _ROUNDING if isinstance(a, float) else a != b
        for a, b in zip(one, other, strict=True)
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; 1 if two sides disagree or a target is missed."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.pairing",
        description="Build pairs and credit, and filter, beside plain Python and pandas.",
        epilog="Example: python -m benchmarks.pairing --trajectories 2000",
    )
    parser.add_argument("--trajectories", type=int, default=10_000, help="generated runs")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each side")
    parser.add_argument("--together", type=int, default=0, help="first actions in common")
    parser.add_argument("--only", nargs="+", default=[""], help="parts of names of work")
    given = parser.parse_args(arguments)
    pandas = importlib.util.find_spec("pandas") is not None
    if not pandas:
        print("not measured: pandas (pip install pandas)", file=sys.stderr)
    asked = sys.argv[1:] if arguments is None else arguments
    about = environment(["python", "-m", "benchmarks.pairing", *asked])
    with tempfile.TemporaryDirectory() as folder:
        files = Files(Path(folder), given.trajectories, together=given.together)
        try:
            rows = [
                row
                for work in WORKS
                if any(part in work for part in given.only)
                for row in measure(files, work, repeats=given.repeats, pandas=pandas)
            ]
        except DisagreementError as error:
            print(f"The sides disagree: {error}", file=sys.stderr)
            return 1
    print("\n".join(f"- {name}: {about[name]}" for name in ("command", "machine", "load before")))
    print(f"- steps: {files.n_steps:,}\n\n{tables(rows)}\n")
    return 0 if all(list(map(_met, rows))) else 1


def _met(row: Row) -> bool:
    """Whether a row reaches its target, said on stdout; rows without target do."""
    if row.store != OURS or row.work not in _TARGETED:
        return True
    rate = (row.cpu or 0.0) * 1000
    print(f"{row.work}: {rate:,.0f} steps a CPU second, target {TARGET:,}")
    return rate >= TARGET


if __name__ == "__main__":
    sys.exit(main())
